import { type Clock, within } from '../../core/clock.ts'
import type { Deliveries } from '../../core/deliveries.ts'
import { HapaxError } from '../../core/errors.ts'
import { Signal } from '../../core/signal.ts'
import { Answers, chunks } from './answers.ts'
import { entriesOf } from './entry.ts'
import { type EntryHandle, Hand } from './hand.ts'
import { type Link, type Reply, replyOf } from './link.ts'
import type { Delivered, Group, Member } from './member.ts'

/** What a reader of a group needs, with every default filled in. */
export interface ReadingSettings extends Group {
  /** The field that is the body. */
  readonly body: string
  readonly claimAfterMs: number
  readonly timeoutMs: number
  readonly clock: Clock
}

/** What a session needs of its reader. */
export interface SessionOptions {
  readonly settings: ReadingSettings
  /** Waits for new entries. */
  readonly reading: Link
  /** For everything else, so that nothing has to wait for new entries. */
  readonly control: Link
  /** The number under which Redis knows the reading link. */
  readonly clientId: string
  readonly member: Member
  readonly deliveries: Deliveries<EntryHandle>
  report(error: HapaxError): void
}

/** One life of a reader: from connecting to the loss of a link. Nothing of it counts in the next one. */
export class Session {
  readonly clientId: string
  readonly member: Member
  /** Settles when a link is lost, or when Redis does not let us go on. */
  readonly ended: Promise<HapaxError>
  /** Up to where the group was finished when it was last looked at. */
  finished: string | undefined
  readonly #options: SessionOptions
  readonly #answers: Answers
  readonly #hand: Hand
  readonly #room = new Signal()
  readonly #wake = new Signal()
  #end: (error: HapaxError) => void = () => {}
  #reading: Promise<void> = Promise.resolve()
  #stopping = false
  #over = false
  #cursor = BEGINNING
  #keptAt: number
  #tidiedAt = Number.NEGATIVE_INFINITY

  constructor(options: SessionOptions) {
    const { settings, member, deliveries } = options
    this.#options = options
    this.clientId = options.clientId
    this.member = member
    this.#keptAt = settings.clock.monotonic()
    this.#answers = new Answers(member, {
      failed: (error) => this.#fail(error),
      lost: (ids) => this.#reportLost(ids),
    })
    this.#hand = new Hand(deliveries, settings, (id) => this.#handle(id))
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  start(): void {
    for (const link of [this.#options.reading, this.#options.control]) link.onLost = (error) => this.#fail(error)
    this.#reading = this.#read().catch((error: unknown) => this.#fail(error))
    void this.#tend().catch((error: unknown) => this.#fail(error))
  }

  /** Something was answered: there is room. */
  answered(): void {
    this.#room.notify()
  }

  /** No more deliveries; what came and was not handed out goes back. */
  async stopReading(): Promise<void> {
    this.#stopping = true
    this.#answers.giveBack(...this.#hand.dropSurplus())
    this.#room.notify()
    const { control, settings } = this.#options
    let done = false
    const reading = this.#reading.then(() => {
      done = true
    })
    while (!done && !this.#over) {
      // Again and again: the question may not have reached Redis yet. Without permission, it ends by itself soon.
      await control.call(['CLIENT', 'UNBLOCK', this.clientId]).catch(() => {})
      await within(settings.clock, UNBLOCK_MS, reading, () => {})
    }
    await this.#answers.flush()
  }

  /** Ends it in good order, as far as the links still work. */
  async close(): Promise<void> {
    await this.stopReading()
    if (!this.#over) {
      await this.member.leave().then(
        (gone) => this.#reportLost(gone),
        () => {},
      )
    }
    this.#finish()
  }

  #handle(id: string): EntryHandle {
    return {
      id,
      ack: () => this.#answers.ack(id),
      giveBack: () => this.#answers.giveBack(id),
      // Redis does not count failures.
      reject: () => false,
    }
  }

  async #read(): Promise<void> {
    while (!this.#stopping) {
      this.#hand.handOut()
      const count = this.#hand.wanted
      if (count > 0) this.#take(await this.#next(count))
      else await this.#room.wait(this.#options.settings.clock, LONG_MS)
    }
  }

  async #next(count: number): Promise<readonly Delivered[]> {
    const { stream, group, timeoutMs } = this.#options.settings
    const blockMs = Math.min(BLOCK_MS, timeoutMs)
    const from = ['GROUP', group, this.member.name, 'COUNT', `${count}`, 'BLOCK', `${blockMs}`, 'STREAMS', stream, '>']
    const reply = (await this.#options.reading.call(['XREADGROUP', ...from], blockMs)) as
      | readonly [[Buffer, Reply]]
      | null
    if (reply === null) return []
    return entriesOf(reply[0][1]).map((entry) => ({ entry, deliveryCount: 1, redelivered: false }))
  }

  #take(delivered: readonly Delivered[]): void {
    if (this.#stopping) this.#answers.giveBack(...delivered.map(({ entry }) => entry.id))
    else this.#hand.take(delivered)
  }

  /** What has to be done now and then: one thing after the other, because what is kept alive cannot be claimed. */
  async #tend(): Promise<void> {
    const { clock, claimAfterMs } = this.#options.settings
    while (!this.#over) {
      await this.#keep()
      await this.#claim()
      await this.#tidy()
      await this.#wake.wait(clock, Math.min(TEND_MS, claimAfterMs / 6))
    }
  }

  /** Others would take what is idle for too long; whatever is in hand is not idle, however long its handler takes. */
  async #keep(): Promise<void> {
    const { clock, claimAfterMs } = this.#options.settings
    const now = clock.monotonic()
    if (now < this.#keptAt + claimAfterMs / 3) return
    this.#keptAt = now
    for (const ids of chunks(this.#hand.ids)) {
      const { taken, gone } = await this.member.keep(ids)
      this.#hand.forget(new Set(taken))
      this.#reportLost(gone)
    }
  }

  async #claim(): Promise<void> {
    for (let page = 0; page < PAGES && !this.#stopping; page++) {
      const count = Math.min(this.#hand.wanted, CLAIMED)
      // Somebody has to notice when the link is dead.
      if (count === 0) return void (await this.#options.control.call(['PING']))
      const { next, delivered, gone } = await this.member.claim(
        this.#options.settings.claimAfterMs,
        this.#cursor,
        count,
      )
      this.#cursor = next
      this.#reportLost(gone)
      this.#take(delivered)
      if (next === BEGINNING) return
    }
  }

  async #tidy(): Promise<void> {
    const { clock, claimAfterMs } = this.#options.settings
    const now = clock.monotonic()
    if (now < this.#tidiedAt + TIDY_MS) return
    this.#tidiedAt = now
    this.finished = await this.member.tidy(10 * claimAfterMs)
  }

  #reportLost(ids: readonly string[]): void {
    if (ids.length === 0) return
    const { stream, group } = this.#options.settings
    const what = `entries of redis stream ${stream} were removed before group ${group} had finished them`
    const shown = ids.slice(0, 10).join(', ')
    this.#options.report(new HapaxError('broker-refused', `${ids.length} ${what}: ${shown}`, { fields: { ids } }))
  }

  #fail(thrown: unknown): void {
    if (this.#over) return
    this.#finish()
    this.#end(explained(thrown as HapaxError, this.#options.settings))
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

const BEGINNING = '0-0'
/** How long Redis keeps a question for new entries. */
const BLOCK_MS = 5_000
const UNBLOCK_MS = 50
const LONG_MS = 60_000
const TEND_MS = 1_000
const TIDY_MS = 60_000
/** Entries to claim with one question, and questions in a row. */
const CLAIMED = 100
const PAGES = 10

/** That a stream or a group has vanished is nothing that Redis calls by name. */
function explained(error: HapaxError, { stream, group }: Group): HapaxError {
  if (!['NOGROUP', 'UNBLOCKED', 'WRONGTYPE'].includes(replyOf(error) ?? '')) return error
  const what = `redis stream ${stream} or its group ${group} is not there any more`
  return new HapaxError('topology-mismatch', `${what}: ${error.message}`, { cause: error })
}
