import { asError, type Clock, type EventHub, type Logger } from '../base/index.ts'
import type { Store } from '../contracts/index.ts'
import type { DatabaseClock } from '../transaction/index.ts'
import { LEASE_MS } from './operations/index.ts'

/** The parts of a worker that `ClockSteps` needs. */
export interface ClockStepsOptions {
  readonly engine: {
    readonly clock: Pick<Clock, 'monotonic'>
    readonly store: Pick<Store<never>, 'clock' | 'admin'>
    readonly databaseClock: Pick<DatabaseClock, 'learn' | 'now'>
    readonly events: EventHub
    readonly logger: Logger
    /** The name of this process. */
    readonly worker: string
  }
  /** Called when rows may have become due. */
  changed(): void
  report(error: Error): void
}

/**
 * Detects that the database clock went back, by comparing the times that heartbeats return with the monotonic clock, and then recounts
 * (`StoreClock.recount`). A step that no heartbeat saw is detected by times in the tables, when a worker starts and every 30 s.
 */
export class ClockSteps {
  readonly #options: ClockStepsOptions
  /** How far the clock went back in steps not yet handled. */
  #byMs = 0
  /** Whether the last recount skipped locked rows. */
  #again = false
  /** When the next recount may begin, by the monotonic clock. */
  #next = Number.NEGATIVE_INFINITY
  /** When the tables are checked next, after the first time. A clock that went forward and back between two heartbeats shows only there. */
  #lookAt = Number.POSITIVE_INFINITY
  #stopping = false
  #work: Promise<void> | undefined

  constructor(options: ClockStepsOptions) {
    this.#options = options
  }

  /** Called after a successful heartbeat. */
  heard(now: Date, began: number): void {
    const byMs = this.#options.engine.databaseClock.learn(now, began)
    if (byMs > TOLERANCE_MS) this.#byMs = Math.max(this.#byMs, byMs)
    const isDue = this.#options.engine.clock.monotonic() >= this.#lookAt
    if (this.#byMs > 0 || this.#again || isDue) this.#begin()
  }

  /** Every worker checks: while heartbeats lie in the future, dead workers look alive, and one of them could own the task. */
  start(): void {
    this.#begin()
  }

  /** Resolves when a running recount has ended. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#work
  }

  #begin(): void {
    const { clock } = this.#options.engine
    const began = clock.monotonic()
    if (this.#stopping || this.#work !== undefined || began < this.#next) return
    this.#lookAt = began + LOOK_MS
    this.#work = this.#recount()
      .catch((error: unknown) => this.#options.report(asError(error)))
      .finally(() => {
        this.#work = undefined
        this.#next = clock.monotonic() + PACE * (clock.monotonic() - began)
      })
  }

  async #recount(): Promise<void> {
    const { engine, changed } = this.#options
    const { clock } = engine.store
    const aheadMs = this.#byMs > 0 || this.#again ? 0 : await clock.aheadMs()
    const heardMs = this.#byMs
    const byMs = Math.max(heardMs, aheadMs > TOLERANCE_MS ? aheadMs : 0)
    if (byMs === 0 && !this.#again) return
    // Before, because the clock may go back again meanwhile.
    this.#byMs = 0
    const { rows, locked } = await clock.recount(LEASE_MS).catch((error: unknown) => {
      this.#byMs = Math.max(this.#byMs, byMs)
      throw error
    })
    this.#again = locked > 0
    if (rows > 0) changed()
    // Minutes stay ahead for a while: without anything to count again, others have told of that step.
    if (heardMs > 0 || (byMs > 0 && rows > 0)) await this.#tell(byMs, rows)
  }

  async #tell(byMs: number, recounted: number): Promise<void> {
    const { logger, events } = this.#options.engine
    logger.warn({ byMs: Math.round(byMs), recounted }, 'the database clock went back; delays and leases are restarted')
    events.emit('clock-went-back', () => ({ byMs, recounted }))
    await this.#note(byMs)
  }

  /** Writes one audit entry, although every process notices the step: `doctor` reports it later. */
  async #note(byMs: number): Promise<void> {
    const { store, databaseClock, worker } = this.#options.engine
    const { rows } = await store.admin.audited({ action: 'recount' }, undefined, 1)
    const [last] = rows
    if (last !== undefined && Math.abs(databaseClock.now() - last.at.getTime()) < ONCE_MS) return
    await store.admin.audit({ action: 'recount', actor: worker, note: `by ${(byMs / 1000).toFixed(1)} s` }, {})
  }
}

/** Slewing between two heartbeats, and skew between synchronised nodes, stay below this. */
const TOLERANCE_MS = 1_000
/** How often the tables are checked for times in the future. */
const LOOK_MS = 30_000
/** A recount reads all rows. The rest after it is so many times as long: what a long handler has locked is not worth more. */
const PACE = 4
/** All processes notice a step within this time of each other. */
const ONCE_MS = 60_000
