import { HapaxError, Signal, within } from '../../../base/index.ts'
import type { Deliveries } from '../../kit/index.ts'
import { Answers } from '../answers.ts'
import { brokerError, replyOf } from '../errors.ts'
import type { Link } from '../link.ts'
import { removed } from './group.ts'
import { type EntryHandle, Hand } from './hand.ts'
import type { Delivered, Group, Member } from './member.ts'
import type { Desk, Reading, ReadingSettings } from './reading.ts'
import { SharedReading } from './shared-reading.ts'
import { SingleReading } from './single-reading.ts'
import { Turn } from './turn.ts'

/** What the next session has to know of one whose link was lost. */
export interface Previous {
  /** Its name in the group. */
  readonly name: string
  /** Up to where the group was finished at the last check. */
  readonly finished: string | undefined
  /** The names under which it may have the turn of a single reader. */
  readonly turns: readonly string[]
}

/** What a session needs of its reader. */
export interface SessionOptions {
  readonly settings: ReadingSettings & { readonly single: boolean }
  readonly reading: Link
  readonly control: Link
  /** The client id of the reading link, for CLIENT UNBLOCK. */
  readonly clientId: string
  readonly member: Member
  /** The lost session of the same reader, if there was one. */
  readonly previous: Previous | undefined
  readonly deliveries: Deliveries<EntryHandle>
  report(error: HapaxError): void
}

/** One session of a reader: from connecting until a link is lost. Answers of one session mean nothing in the next. */
export class Session {
  /** Resolves when a link is lost, or when Redis refuses to continue. */
  readonly ended: Promise<HapaxError>
  readonly #options: SessionOptions
  readonly #answers: Answers
  readonly #hand: Hand
  readonly #reading: Reading
  #turn: Turn | undefined
  readonly #room = new Signal()
  readonly #wake = new Signal()
  #end: (error: HapaxError) => void = () => {}
  #read: Promise<void> = Promise.resolve()
  #stopping = false
  #over = false
  #finished: string | undefined
  #tidiedAt = Number.NEGATIVE_INFINITY

  constructor(options: SessionOptions) {
    const { settings, member, deliveries, previous } = options
    this.#options = options
    this.#finished = previous?.finished
    this.#answers = new Answers(member, {
      failed: (error) => this.#fail(error),
      lost: (ids) => this.#reportGone(ids),
    })
    this.#hand = new Hand(deliveries, settings, (id) => this.#handle(id))
    this.#reading = this.#wayOfReading()
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  #wayOfReading(): Reading {
    const { settings, control, member, previous } = this.#options
    const isStopping = (): boolean => this.#stopping
    const desk: Desk = {
      ...this.#options,
      hand: this.#hand,
      take: (delivered) => this.#take(delivered),
      reportGone: (ids) => this.#reportGone(ids),
      get stopping() {
        return isStopping()
      },
    }
    if (!settings.single) return new SharedReading(desk, this.#answers)
    const names = { name: member.name, previous: previous?.turns ?? [] }
    this.#turn = new Turn(control, settings, names, settings.claimAfterMs)
    return new SingleReading(desk, this.#turn, this.#room)
  }

  /** What the next session has to know. */
  get remains(): Previous {
    return { name: this.#options.member.name, finished: this.#finished, turns: this.#turn?.names ?? [] }
  }

  start(): void {
    for (const link of [this.#options.reading, this.#options.control]) link.onLost = (error) => this.#fail(error)
    this.#read = this.#readOn().catch((error: unknown) => this.#fail(error))
    void this.#tend().catch((error: unknown) => this.#fail(error))
  }

  /** Called when a message was answered: there is room. */
  answered(): void {
    this.#room.notify()
  }

  /** Stops delivering. Entries that were not handed out go back. */
  async stopReading(): Promise<void> {
    this.#stopping = true
    this.#reading.giveBack(this.#hand.dropSurplus())
    this.#room.notify()
    const { control, settings, clientId } = this.#options
    let done = false
    const reading = this.#read.then(() => {
      done = true
    })
    while (!done && !this.#over) {
      // Repeated, because the blocking read may not have reached Redis yet. Without the permission, it ends by itself soon.
      await control.call(['CLIENT', 'UNBLOCK', clientId]).catch(() => {})
      await within(settings.clock, UNBLOCK_MS, reading, () => {})
    }
    await this.#answers.flush()
  }

  /** Leaves the group in good order, as far as the links still work. */
  async close(): Promise<void> {
    await this.stopReading()
    if (!this.#over) await this.#reading.leave().catch(() => {})
    this.#finish()
  }

  #handle(id: string): EntryHandle {
    return {
      id,
      ack: () => this.#answers.ack(id),
      giveBack: () => this.#reading.giveBack([id]),
      // Redis does not count failures.
      reject: () => false,
    }
  }

  async #readOn(): Promise<void> {
    while (!this.#stopping) {
      this.#hand.handOut()
      const { wanted } = this.#hand
      if (wanted.count > 0) this.#take(await this.#reading.next(wanted))
      else await this.#room.wait(this.#options.settings.clock, LONG_MS)
    }
  }

  #take(delivered: readonly Delivered[]): void {
    if (this.#stopping) this.#reading.giveBack(delivered.map(({ entry }) => entry.id))
    else this.#hand.take(delivered)
  }

  async #tend(): Promise<void> {
    const { clock, claimAfterMs } = this.#options.settings
    while (!this.#over) {
      await this.#reading.tend()
      await this.#tidy()
      await this.#wake.wait(clock, Math.min(TEND_MS, claimAfterMs / 6))
    }
  }

  async #tidy(): Promise<void> {
    const { settings, member } = this.#options
    const now = settings.clock.monotonic()
    if (now < this.#tidiedAt + TIDY_MS) return
    this.#tidiedAt = now
    this.#finished = await member.tidy(10 * settings.claimAfterMs)
  }

  #reportGone(ids: readonly string[]): void {
    if (ids.length > 0) this.#options.report(removed(this.#options.settings, ids))
  }

  #fail(thrown: unknown): void {
    if (this.#over) return
    this.#finish()
    this.#end(explained(brokerError(thrown), this.#options.settings))
  }

  #finish(): void {
    this.#over = true
    this.#stopping = true
    this.#options.reading.close()
    this.#options.control.close()
    this.#room.notify()
    this.#wake.notify()
  }
}

/** How often CLIENT UNBLOCK is repeated. */
const UNBLOCK_MS = 50
/** How long to wait for room; a signal ends the wait earlier. */
const LONG_MS = 60_000
/** How often entries are kept and claimed, at most. */
const TEND_MS = 1_000
/** How often dead readers are deleted. */
const TIDY_MS = 60_000

/** Redis has several errors for a stream or a group that was deleted while it is read. They become one. */
function explained(error: HapaxError, { stream, group }: Group): HapaxError {
  if (!['NOGROUP', 'UNBLOCKED', 'WRONGTYPE'].includes(replyOf(error) ?? '')) return error
  if (DEMOTED.test(error.message)) return new HapaxError('broker-unavailable', error.message, { cause: error })
  const what = `redis stream ${stream} or its group ${group} is not there any more`
  return new HapaxError('topology-mismatch', `${what}: ${error.message}`, { cause: error })
}

/** A primary that becomes a replica says so to those who wait for entries. */
const DEMOTED = /instance state changed/
