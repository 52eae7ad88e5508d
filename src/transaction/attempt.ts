import type {
  Acquisitions,
  Activity,
  Detached,
  EventHub,
  Isolation,
  LimitedLogger,
  Logger,
  MessageRef,
  Outages,
  Random,
  Redact,
  SafeInstrument,
  Semaphore,
  State,
  Tally,
} from '../base/index.ts'

import { asError, type Clock, HapaxError, isHapaxError, isRefusal, messageOf, pause } from '../base/index.ts'
import type { Opening, Reach, Store, Unit, UnitEnd, UnitOptions, Writes } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { Committed } from './committed.ts'
import type { DatabaseClock } from './database-clock.ts'
import { Deadline, type Phases } from './deadline.ts'
import type { Floor } from './floor.ts'
import type { OutsideQueries } from './outside.ts'
import type { OpenBuffer, Publisher } from './publish.ts'
import { acquiring } from './unit.ts'

/** What every part of one hapax shares. */
export interface Engine<Tx> {
  readonly store: Store<Tx, never>
  readonly publisher: Pick<Publisher<Tx, never>, 'open' | 'without'>
  /** Judges connections that handlers take beside their transaction. */
  readonly outside: OutsideQueries
  /** The application: the source of what it publishes. */
  readonly source: string
  /** The relay of messages that name none, and of a worker's `relay`. */
  readonly relay: string
  readonly events: EventHub
  /** Counts what happens, for the samples that workers write. */
  readonly tally: Tally
  /** Watches what happens; undefined: nobody does, and nothing is spent on it. */
  readonly instrument: SafeInstrument | undefined
  /** Runs work in the background outside the context of whoever causes it. */
  readonly detached: Detached
  readonly activity: Activity
  readonly acquisitions: Acquisitions
  /** How many connections leased handlers may hold at once, to record how they ended. */
  readonly leasedShare: Semaphore
  readonly outages: Outages
  readonly logger: LimitedLogger
  /** Wakes workers: these rows were committed, or, undefined, many or unknown ones. */
  wake(rows: readonly Committed[] | undefined): void
  /** Is told of messages that were left to a worker. */
  readonly unserved: { look(consumer: string, type: string): Promise<void>; watch(state: State): void }
  /** The user's own rules for texts of errors. */
  readonly redact: Redact
  /** What this process is called in histories. */
  readonly worker: string
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly maxBytes: number
  readonly mintId: () => string
  /** One for all workers of the process: alone means alone in it. */
  readonly floor: Floor
}

/** Time limits and isolation of a consumer's transactions. */
export interface UnitSettings {
  readonly timeoutMs: number
  readonly lockTimeoutMs: number
  readonly isolation: Isolation | undefined
  /** Whether the handlers of a group are called at the same time; undefined: where that makes no difference to the database. */
  readonly together: boolean | undefined
  readonly order: 'none' | 'wait' | 'skip'
}

/** How a transaction with handlers ended, when the database could be reached. */
export type Attempted<T> =
  | { readonly kind: 'done'; readonly value: T }
  /** The handler, or what it did to its transaction, is at fault. `tokens`: those it may have been committed under. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly tokens: ReadonlySet<string> }
  | { readonly kind: 'busy'; readonly error: HapaxError }
  /** The transaction was lost, or aborted by the database again and again. The handler is not the cause, and nothing was kept. */
  | { readonly kind: 'lost'; readonly error: HapaxError }
  /** The store can never take one of the messages that the transaction was to begin with. */
  | { readonly kind: 'refused'; readonly error: HapaxError }

/** What a transaction has found when it is open. */
export interface Opened<Tx> {
  readonly unit: Unit<Tx>
  /** Tokens of earlier runs whose commit could not be learnt: finding one means that it had succeeded. */
  readonly earlier: ReadonlySet<string>
  /** The outcome of an earlier commit is being looked for. */
  readonly resolving: boolean
}

/** What is to be done in a transaction that is open. */
export interface Work<Tx, T> {
  /** What the attempt is done with. */
  readonly value: T
  /** Calls the handlers. Undefined: there is nothing to do, and the transaction is rolled back. */
  readonly call?: ((scope: Scope<Tx>) => unknown) | undefined
  /** What is written with it, beside what the handlers publish; a function is called when they have ended. */
  readonly writes?: Writes | (() => Writes)
  /** An earlier commit, whose outcome was unknown, did happen. @default false */
  readonly committed?: boolean
}

/** How long an attempt took to begin. */
export interface Timing {
  /** How long it waited for connections. */
  readonly waitMs: number
  /** How long the last opening took: what says whether the messages are ours. */
  readonly checkMs: number
  /** When that was known, by the monotonic clock. */
  readonly openedAt: number
}

/** What the handlers of one transaction share. */
export interface Scope<Tx> {
  readonly tx: Tx
  readonly buffer: OpenBuffer<Tx>
  /** Its `signal` tells the handlers to stop. */
  readonly deadline: Deadline
  readonly logger: Logger
  readonly consumer: string
  /** Whether the handlers are called at the same time. */
  readonly together: boolean
  /** Whether the messages of a key take effect in their order. */
  readonly ordered: boolean
  /** Views of the transaction, if handlers may overlap. */
  readonly views: Unit<Tx>['views'] | undefined
  /** Makes the call of one of several handlers, with these messages. Undefined: nobody watches it. */
  readonly observe?: (messages: readonly StoredMessage[], call: () => unknown) => unknown
  /** As `Unit.reach` and `Unit.border`. */
  readonly reach: () => Reach
  readonly border: () => Promise<void>
  /** Called between handlers; see `Connection.assertAwaited`. */
  readonly assertAwaited: Unit<Tx>['assertAwaited'] | undefined
}

export const MAX_CONFLICTS = 20
const STALE_MS = 1_000
export const CONFLICT_PAUSE_MS = 10
export const GRACE_MS = 10_000
export const COMMIT_MS = 30_000
/** How long the outcome of a commit is looked for before the message is put back. */
const RESOLVE_MS = 15_000

/**
 * Runs one transaction until its outcome is known: again after a conflict, and again, under a new token, after a commit
 * whose outcome was not learnt. Rejects only when the database cannot tell.
 */
export class Attempt<Tx, T> {
  readonly #engine: Engine<Tx>
  readonly #settings: UnitSettings
  readonly #plan: Plan<Tx, T>
  #earlier = NONE
  readonly #phases: Phases
  #unknownSince: number | undefined
  /** The messages of a commit whose outcome is not known yet. */
  #inDoubt: readonly MessageRef[] | undefined
  #waitMs = 0
  #checkMs = 0
  #openedAt = 0
  #conflicts = 0
  /** How often it was looked for what became of a commit. */
  #looks = 0
  readonly #mostConflicts: number
  #handlersMs = 0
  /** From now on, the handlers of a group are called one after the other. */
  #outOfTurn = false
  #stale = false
  readonly #startedAt: number

  constructor(engine: Engine<Tx>, settings: UnitSettings, plan: Plan<Tx, T>) {
    this.#engine = engine
    this.#settings = settings
    this.#startedAt = engine.clock.monotonic()
    this.#plan = plan
    this.#mostConflicts = plan.mostConflicts ?? MAX_CONFLICTS
    this.#phases = {
      openingMs: settings.lockTimeoutMs + GRACE_MS,
      handlerMs: settings.timeoutMs,
      commitMs: COMMIT_MS,
    }
  }

  /** Whether it ran more than once. */
  get repeated(): boolean {
    return this.#conflicts + this.#looks > 0
  }

  /** How long the handlers took the last time, up to the commit. */
  get handlersMs(): number {
    return this.#handlersMs
  }

  /** How it began; read when it has ended. */
  get timing(): Timing {
    return { waitMs: this.#waitMs, checkMs: this.#checkMs, openedAt: this.#openedAt }
  }

  async run(): Promise<Attempted<T>> {
    const { store, clock, random } = this.#engine
    for (let since = this.#startedAt; ; since = clock.monotonic()) {
      const token = random.token()
      const deadline = new Deadline(clock, this.#phases, this.#plan.signal)
      const acquired = acquiring(this.#engine, deadline, since)
      const progress: Progress<Tx> = { called: false, thrown: NOTHING, buffer: undefined }
      const opening = this.#plan.opening(token, this.#unknownSince !== undefined)
      try {
        const options = this.#unitOptions(deadline, acquired)
        const value = await store.transactions.run(options, opening, (unit) => this.#body(unit, deadline, progress))
        progress.buffer?.committed()
        return { kind: 'done', value }
      } catch (error) {
        const judged = this.#judged(error, token, progress)
        if (judged !== 'again') return judged
      } finally {
        deadline.done()
        this.#waitMs += deadline.waitMs
        // A handler that outlived its time may still hold it.
        progress.buffer?.close()
      }
      await pause(clock, CONFLICT_PAUSE_MS * (1 + this.#conflicts + this.#looks) * random.number())
    }
  }

  #unitOptions(deadline: Deadline, acquired: () => void): UnitOptions {
    const { isolation, lockTimeoutMs, timeoutMs } = this.#settings
    return { isolation, signal: deadline, acquired, lockTimeoutMs, idleTimeoutMs: timeoutMs + GRACE_MS }
  }

  async #body(unit: Unit<Tx>, deadline: Deadline, progress: Progress<Tx>): Promise<UnitEnd<T>> {
    const { clock, publisher, outside } = this.#engine
    const planning = this.#plan.body({ unit, earlier: this.#earlier, resolving: this.#unknownSince !== undefined })
    // What a plan waits for is no part of the check. Otherwise the next phase, which reads the clock anyway, begins at once.
    const openedAt = planning instanceof Promise ? clock.monotonic() : undefined
    const { value, call, writes, committed = false } = planning instanceof Promise ? await planning : planning
    if (this.#inDoubt !== undefined) this.#resolved(committed ? 'committed' : 'not-committed')
    if (call === undefined) {
      deadline.commit()
      this.#opened(deadline, openedAt)
      return { value, writes: undefined }
    }
    const buffer = publisher.open(unit, { outside, consumer: this.#plan.consumer })
    progress.buffer = buffer
    progress.called = true
    deadline.handler()
    this.#opened(deadline, openedAt)
    const { began } = deadline
    try {
      await call(this.#scope(unit, deadline, buffer))
      const refused = buffer.refused()
      if (refused !== undefined) throw refused
      const flushing = buffer.flush(unit)
      const published = flushing instanceof Promise ? await flushing : flushing
      deadline.commit()
      if (writes === undefined) return { value, writes: published }
      return { value, writes: { ...published, ...(typeof writes === 'function' ? writes() : writes) } }
    } catch (error) {
      // The handler may have made another error of it.
      progress.thrown = isDoomed(error) ? error : (buffer.refused() ?? error)
      throw progress.thrown
    } finally {
      this.#handlersMs = clock.monotonic() - began
      buffer.close()
    }
  }

  #opened(deadline: Deadline, openedAt: number = deadline.began): void {
    this.#openedAt = openedAt
    this.#checkMs = deadline.openedBefore(openedAt)
  }

  #scope(unit: Unit<Tx>, deadline: Deadline, buffer: OpenBuffer<Tx>): Scope<Tx> {
    const { together, order } = this.#settings
    return {
      tx: unit.tx,
      buffer,
      deadline,
      logger: this.#engine.logger.forHandlers,
      consumer: this.#plan.consumer,
      together: together === true && !this.#outOfTurn,
      ordered: order !== 'none',
      reach: () => unit.reach?.() ?? 'none',
      border: async () => unit.border?.(),
      views: together !== undefined || this.#outOfTurn ? undefined : () => unit.views?.(),
      assertAwaited: () => unit.assertAwaited?.(),
    }
  }

  #judged(error: unknown, token: string, progress: Progress<Tx>): Attempted<T> | 'again' {
    let judged: Attempted<T> | 'again' | undefined
    try {
      judged = this.#judge(error, token, progress)
      return judged
    } finally {
      if (judged !== 'again') this.#resolved('unresolved')
    }
  }

  #judge(error: unknown, token: string, progress: Progress<Tx>): Attempted<T> | 'again' {
    if (error === OUT_OF_TURN) {
      this.#outOfTurn = true
      return 'again'
    }
    if (error === progress.thrown && !isDoomed(error)) return this.#failed(error, token)
    if (!isHapaxError(error)) {
      if (progress.called) return this.#failed(error, token)
      throw refused(error)
    }
    switch (error.code) {
      case 'commit-unknown':
        this.#earlier = new Set(this.#earlier).add(token)
        this.#unknownSince ??= this.#engine.clock.monotonic()
        this.#doubt()
        return this.#resolving(error)
      case 'store-unavailable':
        return this.#unknownSince === undefined ? this.#unavailable(error) : this.#resolving(error)
      case 'transaction-conflict':
        return ++this.#conflicts < this.#mostConflicts ? 'again' : { kind: 'lost', error }
      case 'transaction-lost':
        return { kind: 'lost', error }
      case 'busy':
        // The session whose COMMIT got no answer holds the lock until its server has noticed that its link has ended.
        return this.#inDoubt === undefined ? { kind: 'busy', error } : this.#resolving(error)
      default:
        if (progress.called) return this.#failed(error, token)
        if (isRefusal(error)) return { kind: 'refused', error }
        throw error
    }
  }

  #doubt(): void {
    const { consumer } = this.#plan
    const messages = this.#plan.messages()
    this.#inDoubt = messages
    this.#engine.events.emit('commit-unknown', () => ({ consumer, messages }))
  }

  /** What became of the commit in doubt, if there is one. */
  #resolved(resolved: 'committed' | 'not-committed' | 'unresolved'): void {
    const messages = this.#inDoubt
    if (messages === undefined) return
    this.#inDoubt = undefined
    this.#engine.events.emit('commit-resolved', () => ({ consumer: this.#plan.consumer, messages, resolved }))
  }

  #failed(error: unknown, token: string): Attempted<T> {
    return { kind: 'failed', error, tokens: new Set(this.#earlier).add(token) }
  }

  /** A pool may hand out a connection that broke while it was idle. The next one is a new one. */
  #unavailable(error: HapaxError): 'again' {
    const quick = this.#engine.clock.monotonic() - this.#startedAt < STALE_MS
    if (!quick || this.#stale) throw error
    this.#stale = true
    return 'again'
  }

  #resolving(cause: HapaxError): 'again' {
    const since = this.#unknownSince ?? 0
    if (this.#engine.clock.monotonic() - since < (this.#plan.resolveMs ?? RESOLVE_MS)) {
      this.#looks += 1
      return 'again'
    }
    throw new HapaxError(
      'commit-unknown',
      'the outcome of a commit could not be learnt: do not acknowledge the message',
      { cause },
    )
  }
}

/** Handlers that overlapped have sent their statements in another order than they would have one after the other: nothing may stay. */
export const OUT_OF_TURN: Error = new Error('statements of a group out of turn')

interface Progress<Tx> {
  called: boolean
  thrown: unknown
  buffer: OpenBuffer<Tx> | undefined
}

/** The database answered our own first statements with an error, for example that a privilege is missing. */
function refused(cause: unknown): HapaxError {
  const fields = { refused: true }
  return new HapaxError('store-unavailable', `the database refused: ${messageOf(asError(cause))}`, { cause, fields })
}

const NONE: ReadonlySet<string> = new Set()
const NOTHING: unique symbol = Symbol('nothing was thrown')

/** What an attempt does. */
export interface Plan<Tx, T> {
  readonly consumer: string
  /** The messages of the transaction, for events. */
  messages(): readonly MessageRef[]
  /** How the transaction begins; `resolving` after a commit whose outcome is being looked for. */
  opening(token: string, resolving: boolean): Opening
  /** What to do, now that it is open. Called again when the transaction is repeated. */
  body(opened: Opened<Tx>): Work<Tx, T> | Promise<Work<Tx, T>>
  /** After how many conflicts it is given up. @default 20 */
  readonly mostConflicts?: number | undefined
  /** How long the outcome of a commit is looked for; 0: nothing would tell it. @default 15_000 */
  readonly resolveMs?: number | undefined
  /** Ends the transaction by force. */
  readonly signal?: AbortSignal | undefined
}

/** The database gave the transaction up: that is not the fault of the handler in which it showed. */
function isDoomed(error: unknown): boolean {
  return isHapaxError(error, 'transaction-conflict') || isHapaxError(error, 'transaction-lost')
}
