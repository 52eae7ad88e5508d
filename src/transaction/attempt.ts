import type {
  Acquisitions,
  Activity,
  Detached,
  EventHub,
  Isolation,
  LimitedLogger,
  Logger,
  Random,
  Redact,
  SafeInstrument,
  State,
} from '../base/index.ts'

import { asError, type Clock, HapaxError, isHapaxError, isRefusal, messageOf, pause } from '../base/index.ts'
import type { Opening, Store, Unit, UnitEnd, UnitOptions, Writes } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { Committed } from './committed.ts'
import { Deadline, type Phases } from './deadline.ts'
import type { Floor } from './floor.ts'
import type { OpenBuffer } from './publish.ts'

/** What every part of one hapax shares. */
export interface Engine<Tx> {
  readonly store: Store<Tx, never>
  readonly publisher: { open(unit: Unit<Tx>): OpenBuffer<Tx> }
  /** The application: the source of what it publishes. */
  readonly source: string
  /** The relay of messages that name none, and of a worker's `relay`. */
  readonly relay: string
  readonly events: EventHub
  /** Watches what happens; undefined: nobody does, and nothing is spent on it. */
  readonly instrument: SafeInstrument | undefined
  /** Runs work in the background outside the context of whoever causes it. */
  readonly detached: Detached
  readonly activity: Activity
  readonly acquisitions: Acquisitions
  readonly logger: LimitedLogger
  /** Wakes workers: these rows were committed, or, undefined, many or unknown ones. */
  wake(rows: readonly Committed[] | undefined): void
  /** Is told of messages that were left to a worker. */
  readonly unserved: { look(consumer: string, type: string): Promise<void>; watch(state: State): void }
  /** The user's own rules for texts of errors. */
  readonly redact: Redact
  readonly clock: Clock
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
  /** What is written with it, beside what the handlers publish. */
  readonly writes?: Writes
}

/** What the handlers of one transaction share. */
export interface Scope<Tx> {
  readonly tx: Tx
  readonly buffer: OpenBuffer<Tx>
  /** Its `signal` tells the handlers to stop. */
  readonly deadline: Deadline
  readonly logger: Logger
  /** Whether the handlers are called at the same time. */
  readonly together: boolean
  /** Whether the messages of a key take effect in their order. */
  readonly ordered: boolean
  /** Views of the transaction, if handlers may overlap. */
  readonly views: Unit<Tx>['views'] | undefined
  /** Makes the call of one of several handlers, with these messages. Undefined: nobody watches it. */
  readonly observe?: (messages: readonly StoredMessage[], call: () => unknown) => unknown
  /** Called between handlers; see `Connection.assertAwaited`. */
  readonly assertAwaited: Unit<Tx>['assertAwaited'] | undefined
}

export const MAX_CONFLICTS = 20
const STALE_MS = 1_000
export const CONFLICT_PAUSE_MS = 10
export const GRACE_MS = 10_000
const COMMIT_MS = 30_000
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
  #conflicts = 0
  readonly #mostConflicts: number
  #handlersMs = 0
  /** Handlers do not overlap. */
  #inTurn: boolean
  #stale = false
  readonly #startedAt: number

  constructor(engine: Engine<Tx>, settings: UnitSettings, plan: Plan<Tx, T>) {
    this.#engine = engine
    this.#settings = settings
    this.#startedAt = engine.clock.monotonic()
    this.#plan = plan
    this.#mostConflicts = plan.mostConflicts ?? MAX_CONFLICTS
    this.#inTurn = settings.together !== undefined
    this.#phases = {
      openingMs: settings.lockTimeoutMs + GRACE_MS,
      handlerMs: settings.timeoutMs,
      commitMs: COMMIT_MS,
    }
  }

  /** Whether it ran more than once. */
  get repeated(): boolean {
    return this.#conflicts > 0
  }

  /** How long the handlers took the last time, up to the commit. */
  get handlersMs(): number {
    return this.#handlersMs
  }

  async run(): Promise<Attempted<T>> {
    const { store, clock, random } = this.#engine
    for (;;) {
      const token = random.token()
      const deadline = new Deadline(clock, this.#phases, this.#plan.signal)
      const acquired = acquiring(this.#engine, deadline)
      const progress: Progress<Tx> = { called: false, thrown: NOTHING, buffer: undefined }
      const opening = this.#plan.opening(token, this.#unknownSince !== undefined)
      try {
        const options = this.#unitOptions(deadline, acquired)
        const value = await store.transactions.run(options, opening, (unit) => this.#body(unit, deadline, progress))
        progress.buffer?.committed()
        return { kind: 'done', value }
      } catch (error) {
        const judged = this.#judge(error, token, progress)
        if (judged !== 'again') return judged
      } finally {
        deadline.done()
        // A handler that outlived its time may still hold it.
        progress.buffer?.close()
      }
      await pause(clock, CONFLICT_PAUSE_MS * (1 + this.#conflicts) * random.number())
    }
  }

  #unitOptions(deadline: Deadline, acquired: () => void): UnitOptions {
    const { isolation, lockTimeoutMs, timeoutMs } = this.#settings
    return { isolation, signal: deadline, acquired, lockTimeoutMs, idleTimeoutMs: timeoutMs + GRACE_MS }
  }

  async #body(unit: Unit<Tx>, deadline: Deadline, progress: Progress<Tx>): Promise<UnitEnd<T>> {
    const planning = this.#plan.body({ unit, earlier: this.#earlier, resolving: this.#unknownSince !== undefined })
    const { value, call, writes } = planning instanceof Promise ? await planning : planning
    if (call === undefined) {
      deadline.commit()
      return { value, writes: undefined }
    }
    const buffer = this.#engine.publisher.open(unit)
    progress.buffer = buffer
    progress.called = true
    deadline.handler()
    const began = this.#engine.clock.monotonic()
    try {
      await call(this.#scope(unit, deadline, buffer))
      const flushing = buffer.flush(unit)
      const published = flushing instanceof Promise ? await flushing : flushing
      deadline.commit()
      return { value, writes: writes === undefined ? published : { ...published, ...writes } }
    } catch (error) {
      progress.thrown = error
      throw error
    } finally {
      this.#handlersMs = this.#engine.clock.monotonic() - began
      buffer.close()
    }
  }

  #scope(unit: Unit<Tx>, deadline: Deadline, buffer: OpenBuffer<Tx>): Scope<Tx> {
    const { together, order } = this.#settings
    return {
      tx: unit.tx,
      buffer,
      deadline,
      logger: this.#engine.logger.forHandlers,
      together: together === true,
      ordered: order !== 'none',
      views: this.#inTurn ? undefined : () => unit.views?.(),
      assertAwaited: () => unit.assertAwaited?.(),
    }
  }

  #judge(error: unknown, token: string, progress: Progress<Tx>): Attempted<T> | 'again' {
    if (error === OUT_OF_TURN) {
      this.#inTurn = true
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
        this.#plan.onUnknown()
        return this.#resolving(error)
      case 'store-unavailable':
        return this.#unknownSince === undefined ? this.#unavailable(error) : this.#resolving(error)
      case 'transaction-conflict':
        return ++this.#conflicts < this.#mostConflicts ? 'again' : { kind: 'lost', error }
      case 'transaction-lost':
        return { kind: 'lost', error }
      case 'busy':
        return { kind: 'busy', error }
      default:
        if (progress.called) return this.#failed(error, token)
        if (isRefusal(error)) return { kind: 'refused', error }
        throw error
    }
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
    if (this.#engine.clock.monotonic() - since < RESOLVE_MS) {
      this.#conflicts += 1
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
  return new HapaxError('store-unavailable', `the database refused: ${messageOf(asError(cause))}`, { cause })
}

const NONE: ReadonlySet<string> = new Set()
const NOTHING: unique symbol = Symbol('nothing was thrown')

/** What an attempt does. */
export interface Plan<Tx, T> {
  /** How the transaction begins; `resolving` after a commit whose outcome is being looked for. */
  opening(token: string, resolving: boolean): Opening
  /** What to do, now that it is open. Called again when the transaction is repeated. */
  body(opened: Opened<Tx>): Work<Tx, T> | Promise<Work<Tx, T>>
  /** Called when the outcome of a commit was not learnt. */
  onUnknown(): void
  /** After how many conflicts it is given up. @default 20 */
  readonly mostConflicts?: number | undefined
  /** Ends the transaction by force. */
  readonly signal?: AbortSignal | undefined
}

/** The database gave the transaction up: that is not the fault of the handler in which it showed. */
function isDoomed(error: unknown): boolean {
  return isHapaxError(error, 'transaction-conflict') || isHapaxError(error, 'transaction-lost')
}

/**
 * A transaction begins to wait for a connection; returns what to call when it has one. Where there is one writer there is no pool:
 * its turn is waited for, and that ends by itself.
 */
function acquiring<Tx>(
  { store, acquisitions }: Pick<Engine<Tx>, 'store' | 'acquisitions'>,
  deadline: Deadline,
): () => void {
  if (store.features.parallelWriters) deadline.acquiring(acquisitions)
  return () => {
    acquisitions.got()
    deadline.opening()
  }
}

/** A transaction without handlers: the database has to answer in time, the body may take as long as it likes. */
export async function unit<Tx, T>(
  engine: Pick<Engine<Tx>, 'store' | 'clock' | 'acquisitions'>,
  options: Omit<UnitOptions, 'signal' | 'acquired'>,
  opening: Opening,
  body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>,
): Promise<T> {
  const openingMs = options.lockTimeoutMs + GRACE_MS
  const deadline = new Deadline(engine.clock, { openingMs, handlerMs: openingMs, commitMs: COMMIT_MS })
  const acquired = acquiring(engine, deadline)
  try {
    return await engine.store.transactions.run({ ...options, signal: deadline, acquired }, opening, async (opened) => {
      deadline.pause()
      const end = await body(opened)
      deadline.commit()
      return end
    })
  } finally {
    deadline.done()
  }
}

/** What the store does as one transaction of its own, in time. Once it has a connection, a timeout leaves the outcome unknown. */
export async function atOnce<Tx, T>(
  engine: Pick<Engine<Tx>, 'store' | 'clock' | 'acquisitions'>,
  options: Omit<UnitOptions, 'signal' | 'acquired'>,
  run: (options: UnitOptions) => Promise<T>,
): Promise<T> {
  const openingMs = options.lockTimeoutMs + COMMIT_MS
  const deadline = new Deadline(engine.clock, { openingMs, handlerMs: openingMs, commitMs: COMMIT_MS })
  const acquired = acquiring(engine, deadline)
  try {
    return await run({ ...options, signal: deadline.signal, acquired })
  } finally {
    deadline.done()
  }
}
