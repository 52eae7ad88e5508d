import {
  asError,
  Batcher,
  type Clock,
  type Detached,
  describe,
  HapaxError,
  messageOf,
  present,
  type Random,
  type RetryPolicy,
  retryDelay,
  type SafeInstrument,
} from '../../base/index.ts'
import type { Confirmation, Destination, OutboxMessage, Settle } from '../../contracts/index.ts'
import { factsOfStored, type OutgoingMessage, unpackAttributes, wrongAttribute } from '../../message/index.ts'

/** What calling a destination needs. */
interface SendOptions {
  readonly destination: Destination
  readonly clock: Clock
  /** Ends the wait for confirmations. */
  readonly signal: AbortSignal
  readonly relay: string
  readonly instrument: SafeInstrument | undefined
  readonly detached: Detached
}

/** A row that goes with the next call. */
interface Leaving {
  readonly row: OutboxMessage
  tell(sent: Confirmation): void
}

/** Sends rows of the outbox to a destination, and reports one confirmation for each, whatever the destination does. */
export class Sending {
  readonly #options: SendOptions
  readonly #leaving: Batcher<Leaving>

  constructor(options: SendOptions) {
    this.#options = options
    const run = (leaving: readonly Leaving[]): Promise<void> => {
      const tellers = new Map(leaving.map(({ row, tell }) => [row, tell]))
      return this.all([...tellers.keys()], (row, sent) => tellers.get(row)?.(sent))
    }
    this.#leaving = new Batcher({ run, overlap: true, detached: options.detached })
  }

  /** Sends rows in one call, and reports each confirmation as it comes. Resolves when all are reported. */
  all(rows: readonly OutboxMessage[], tell: (row: OutboxMessage, sent: Confirmation) => void): Promise<void> {
    const leaving: OutboxMessage[] = []
    const messages: OutgoingMessage[] = []
    const refused = new Map<string | null, HapaxError>()
    for (const row of rows) {
      const { key } = row.message
      const before = key === null ? undefined : refused.get(key)
      // A row behind a refused one of its key must wait: it would overtake it.
      const message = before ?? outgoing(row)
      if (!(message instanceof HapaxError)) {
        leaving.push(row)
        messages.push(message)
      } else if (before !== undefined) tell(row, unavailable(before))
      else {
        refused.set(key, message)
        tell(row, { status: 'refused', error: message })
      }
    }
    const told = (index: number, sent: Confirmation): void =>
      tell(present(leaving[index], 'a message that was sent'), sent)
    const { instrument } = this.#options
    if (instrument === undefined || messages.length === 0) return send(this.#options, messages, told)
    return this.#watched(instrument, leaving, (watch) => send(this.#options, messages, watch(told)))
  }

  /** One call of the destination, in the sight of the instrument. */
  #watched(
    instrument: SafeInstrument,
    rows: readonly OutboxMessage[],
    call: (watch: (told: Settle) => Settle) => Promise<void>,
  ): Promise<void> {
    const { destination, relay } = this.#options
    const { system, name } = destination.address ?? { system: 'other', name: destination.name }
    const messages = factsOfStored(
      rows.map(({ message }) => message),
      (index) => (rows[index]?.attempts ?? 0) + 1,
    )
    return instrument.around('relay', { system, destination: name, relay, messages }, async (running) => {
      const outcomes: string[] = rows.map(() => 'unavailable')
      let failed: Error | undefined
      await call((told) => (index, sent) => {
        outcomes[index] = sent.status
        if (sent.status !== 'confirmed') failed ??= sent.error
        told(index, sent)
      })
      running.add({ outcomes, ...(failed && { error: failed }) })
    })
  }

  /** Whether the destination is asked, rather than tried with a message. */
  get canReach(): boolean {
    return this.#options.destination.reach !== undefined
  }

  /** Asks the destination whether its broker answers. Rejects if it does not, or not in time. */
  reach(): Promise<void> {
    const { destination, clock, signal, detached } = this.#options
    return new Promise((resolve, reject) => {
      const late = (): void => over(() => reject(noReply()))
      const over = (settle: () => void): void => {
        cancel()
        signal.removeEventListener('abort', late)
        settle()
      }
      const cancel = clock.after(CONFIRM_MS, late)
      signal.addEventListener('abort', late, { once: true })
      if (signal.aborted) return late()
      detached(async () => destination.reach?.()).then(
        () => over(resolve),
        (error: unknown) => over(() => reject(error)),
      )
    })
  }

  /** Sends one row. Rows sent in the same moment share a call. */
  one(row: OutboxMessage): Promise<Confirmation> {
    return new Promise((tell) => {
      void this.#leaving.put({ row, tell })
    })
  }
}

function outgoing({ message }: OutboxMessage): OutgoingMessage | HapaxError {
  try {
    const attributes = unpackAttributes(message)
    const wrong = wrongAttribute(attributes)
    return wrong === undefined ? Object.assign(attributes, { data: message.data }) : unreadable(`${wrong} is no text`)
  } catch (error) {
    return unreadable(messageOf(asError(error)))
  }
}

/** Applications may write to the outbox by themselves, so that a row need not be a valid message. */
function unreadable(why: string): HapaxError {
  return new HapaxError('undecodable', `the attributes of this row of the outbox cannot be read: ${why}`)
}

/**
 * Sends messages in one call, and reports exactly one confirmation for each, in time: a destination may throw, reject, never reply, or
 * reply with nonsense. Resolves when all are reported.
 */
function send(
  { destination, clock, signal, detached }: SendOptions,
  messages: readonly OutgoingMessage[],
  tell: (index: number, sent: Confirmation) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const limit = new AbortController()
    const open = messages.map(() => true)
    let left = messages.length
    const answered = (index: number, sent: Confirmation): void => {
      if (open[index] !== true) return
      open[index] = false
      left -= 1
      tell(index, isConfirmation(sent) ? sent : unavailable(noAnswer(sent)))
      if (left === 0) over()
    }
    const fail = (error: unknown): void => {
      for (const index of messages.keys()) answered(index, unavailable(error))
    }
    const late = (): void => fail(noReply())
    const cancel = clock.after(CONFIRM_MS, late)
    const over = (): void => {
      cancel()
      signal.removeEventListener('abort', late)
      // With a reason, because making the usual one takes longer than everything else here.
      limit.abort(OVER)
      resolve()
    }
    if (left === 0) return over()
    if (signal.aborted) return late()
    signal.addEventListener('abort', late, { once: true })
    try {
      // Detached: a connection that it opens outlives this call, and what it opens may have spans of its own.
      const returned: unknown = detached(() => destination.publish(messages, limit.signal, answered))
      // A promise breaks the contract, but its rejection must not end the process.
      if (returned instanceof Promise) returned.catch(fail)
    } catch (error) {
      fail(error)
    }
  })
}

/** Why the signal of a call aborts that has come to its end. */
const OVER = 'everything is answered'

function noReply(): HapaxError {
  return new HapaxError('broker-timeout', `the broker did not answer within ${CONFIRM_MS} ms`)
}

/** How long to wait for a confirmation. After that, the message is sent again later. */
const CONFIRM_MS = 30_000

function isConfirmation(sent: unknown): sent is Confirmation {
  return typeof sent === 'object' && sent !== null && 'status' in sent && STATUSES.has(sent.status)
}

const STATUSES: ReadonlySet<unknown> = new Set<Confirmation['status']>([
  'confirmed',
  'failed',
  'refused',
  'unavailable',
])

function noAnswer(got: unknown): Error {
  return new Error(`expected the destination to settle each message with { status }, got ${describe(got)}`)
}

/** An error that a destination throws against its contract says nothing about the message, so it is tried again. */
function unavailable(error: unknown): Confirmation {
  return { status: 'unavailable', error: asError(error) }
}

/** What `Reaching` needs. */
export interface ReachingOptions {
  readonly clock: Clock
  /** Leaves the messages to other workers, or takes them back. */
  tell(reached: boolean): void
  /** Records why the destination cannot be reached; undefined: it can. */
  failing(error: Error | undefined): void
}

/**
 * Whether a relay reaches its destination from this process; others may, for example on another network. After some time it leaves its
 * messages to other workers. It takes them back for a try at growing intervals, because its share waits during each try.
 */
export class Reaching {
  readonly #options: ReachingOptions
  #failingSince: number | undefined
  #isTold = false
  #awayMs = MIN_AWAY_MS
  /** Until when the messages are left to others. */
  #awayUntil: number | undefined

  constructor(options: ReachingOptions) {
    this.#options = options
  }

  /** The destination has confirmed a message, or has answered. */
  reached(): void {
    this.#failingSince = undefined
    if (this.#isTold) this.#options.failing(undefined)
    this.#isTold = false
    this.#awayMs = MIN_AWAY_MS
    this.#back()
  }

  /** The destination could not be reached. */
  missed(error: Error): void {
    const now = this.#options.clock.monotonic()
    this.#failingSince ??= now
    if (!this.#isTold && now - this.#failingSince >= TELL_MS) {
      this.#isTold = true
      this.#options.failing(error)
    }
    if (this.#awayUntil !== undefined || now - this.#failingSince < GIVE_UP_MS) return
    this.#awayUntil = now + this.#awayMs
    this.#awayMs = Math.min(MAX_AWAY_MS, 2 * this.#awayMs)
    this.#options.tell(false)
  }

  /** Takes the messages back when it is time for another try. For destinations that cannot be asked, or are asked in vain. */
  look(): void {
    if (this.#awayUntil !== undefined && this.#options.clock.monotonic() >= this.#awayUntil) this.#back()
  }

  #back(): void {
    if (this.#awayUntil === undefined) return
    this.#awayUntil = undefined
    this.#options.tell(true)
  }
}

/**
 * Whether a relay that is down and has nothing to send asks its destination if it is back. One that answers and then takes no message is
 * not asked again until it has confirmed one.
 */
export class Probe {
  readonly #clock: Clock
  #state: 'ready' | 'asking' | 'in vain' = 'ready'
  #answeredAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether the destination answers and takes no message, so that only a message shows whether it is back. */
  get inVain(): boolean {
    return this.#state === 'in vain'
  }

  /** Returns whether to ask now. */
  begin(): boolean {
    if (this.#state !== 'ready') return false
    this.#state = 'asking'
    return true
  }

  ended(answered: boolean): void {
    this.#state = 'ready'
    if (answered) this.#answeredAt = this.#clock.monotonic()
  }

  confirmed(): void {
    this.#answeredAt = Number.NEGATIVE_INFINITY
    if (this.inVain) this.#state = 'ready'
  }

  /** A miss long after the answer belongs to another outage. */
  missed(): void {
    if (this.#state === 'ready' && this.#clock.monotonic() - this.#answeredAt <= ANSWERED_MS) this.#state = 'in vain'
  }
}

/** How long a destination may be away before the row of the worker says so: a change of that row moves lanes. */
const TELL_MS = 3_000
/** How long a destination may be away before its messages are left to other workers. */
const GIVE_UP_MS = 10_000
const MIN_AWAY_MS = 30_000
const MAX_AWAY_MS = 600_000
/** How long after an answer a miss means that the answer was worth nothing: longer than a confirmation may take. */
const ANSWERED_MS = 60_000

/** How long something that is away is left alone: longer each time, because a server that comes back is busy enough. */
export const AWAY: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 100, maxDelayMs: 30_000, factor: 2 }

/** A destination that confirmed a message this recently can be reached. */
const ALIVE_MS = 1_000

/**
 * When a relay sends nothing, for one of two reasons. Its destination cannot be reached; or confirmed messages could not be deleted, so
 * that each new look would find them and send them again.
 */
export class Pauses {
  readonly #engine: { readonly clock: Clock; readonly random: Random }
  /** Times in a row that the destination could not be reached, and the end of the pause. */
  #down = { times: 0, until: 0, since: 0 }
  /** The same for deletes that failed. */
  #undeleted = { times: 0, until: 0 }
  #confirmedAt = Number.NEGATIVE_INFINITY

  constructor(engine: { readonly clock: Clock; readonly random: Random }) {
    this.#engine = engine
  }

  /** What is left of the pause; above zero, nothing may be sent. */
  get leftMs(): number {
    return Math.max(this.#down.until, this.#undeleted.until) - this.#engine.clock.monotonic()
  }

  /** Whether the destination could not be reached the last time. */
  get isDown(): boolean {
    return this.#down.times > 0
  }

  /** The destination has confirmed a message. Returns how long it could not be reached, if it could not be until now. */
  confirmed(): number | undefined {
    this.#confirmedAt = this.#engine.clock.monotonic()
    return this.reached()
  }

  /** The destination can be reached. Returns how long it could not be, if it could not be until now. */
  reached(): number | undefined {
    const { times, since } = this.#down
    if (times === 0) return undefined
    this.#down = { times: 0, until: 0, since: 0 }
    return this.#engine.clock.monotonic() - since
  }

  /** Whether the destination confirmed other messages at about this time: then only one message failed to get through. */
  isAlive(sentAt: number): boolean {
    return this.#confirmedAt >= sentAt - ALIVE_MS
  }

  /** The destination cannot be reached. Returns how long the pause is, and whether it is the first; undefined if one is under way already. */
  unavailable(): { readonly pauseMs: number; readonly first: boolean } | undefined {
    if (this.leftMs > 0) return undefined
    const { clock, random } = this.#engine
    const now = clock.monotonic()
    const times = this.#down.times + 1
    const pauseMs = retryDelay(AWAY, times, random)
    this.#down = { times, until: now + pauseMs, since: times === 1 ? now : this.#down.since }
    return { pauseMs, first: times === 1 }
  }

  /** Confirmed messages were deleted. */
  deleted(): void {
    this.#undeleted = { times: 0, until: 0 }
  }

  /** Confirmed messages could not be deleted. Returns whether a pause begins: one for all deletes that fail at the same time. */
  notDeleted(): boolean {
    const { clock, random } = this.#engine
    const now = clock.monotonic()
    if (this.#undeleted.until > now) return false
    const times = this.#undeleted.times + 1
    this.#undeleted = { times, until: now + retryDelay(AWAY, times, random) }
    return true
  }
}
