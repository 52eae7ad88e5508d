import { asError, type Clock, isHapaxError, pause, type Redact, recordError } from '../../base/index.ts'
import type { BulkOperation, OperationProgress, OperationStep } from '../../contracts/index.ts'
import { compareSeq } from '../../message/index.ts'
import { changeRow, mayChange, type OperationStore, pageOf } from './rows.ts'

/** The result for one row. `gone`: the row was changed or deleted by another call meanwhile. */
export type RowResult =
  | { readonly seq: string; readonly result: 'done' | 'gone' }
  | { readonly seq: string; readonly result: 'error'; readonly error: Error }

/** What working on operations needs. */
export interface OperationEngine {
  readonly store: OperationStore
  readonly clock: Clock
  readonly redact: Redact
  /** Something is due that workers of this process may want. */
  wake(): void
}

/** Options of a run. */
export interface RunOptions {
  /** Called after each row. An error that it throws ends the run. */
  readonly onResult?: ((result: RowResult) => void) | undefined
  /** Stops between two rows. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Works on an operation that this process has leased: visits its rows one by one, oldest first, so that those of one key keep their order.
 * A change and its count share a transaction. What was visited and not changed is recorded before the next change, because that moves the
 * place where another process would go on.
 */
export class OperationRun {
  readonly #engine: OperationEngine
  readonly #options: RunOptions
  readonly #step: OperationStep
  #operation: BulkOperation
  /** Whether the lease is held, and the operation goes on. */
  #going = true
  #after: string | null
  #unrecorded: Omit<OperationProgress, 'after'> = NOTHING
  #recordedAt: number
  /** When the next row may be changed. */
  #nextAt: number

  constructor(engine: OperationEngine, operation: BulkOperation, token: string, options: RunOptions = {}) {
    this.#engine = engine
    this.#options = options
    this.#operation = operation
    this.#step = { id: operation.id, token }
    this.#after = operation.after
    this.#recordedAt = engine.clock.monotonic()
    this.#nextAt = this.#recordedAt
  }

  /**
   * Resolves when the operation has ended, is paused, has passed to another process, or the signal has stopped the run. Rejects when the
   * store is not available; another run goes on from there.
   */
  async run(): Promise<void> {
    try {
      await this.#visitAll()
    } catch (error) {
      if (!isHapaxError(error, 'lease-lost')) throw error
    } finally {
      if (this.#going) await this.#release()
    }
  }

  async #visitAll(): Promise<void> {
    const { store } = this.#engine
    for (;;) {
      const page = await pageOf(store, this.#operation, this.#after, PAGE)
      // The store counts rows that others had changed before as gone.
      if (page.length === 0) return void (await this.#record(true))
      for (const seq of page) {
        if (!(await this.#turn())) return
        const result = await this.#visit(seq)
        if (result === undefined) return
        this.#options.onResult?.(result)
      }
    }
  }

  /** Waits until the next row may be visited. False: the run is over. */
  async #turn(): Promise<boolean> {
    const { clock } = this.#engine
    const { signal } = this.#options
    for (;;) {
      if (signal?.aborted) return false
      if (clock.monotonic() - this.#recordedAt >= RECORD_MS && !(await this.#record())) return false
      const waitMs = this.#nextAt - clock.monotonic()
      if (waitMs <= 0) break
      await pause(clock, Math.min(waitMs, RECORD_MS), signal)
    }
    const { perSecond } = this.#operation
    if (perSecond !== null) {
      this.#nextAt = Math.max(this.#nextAt, clock.monotonic() - CATCH_UP_MS) + 1000 / perSecond
    }
    return true
  }

  /** Undefined: the lease is lost, and the row was left alone. */
  async #visit(seq: string): Promise<RowResult | undefined> {
    const { store, wake } = this.#engine
    try {
      const may = await mayChange(store, this.#operation, seq)
      if (may && this.#unrecorded !== NOTHING && !(await this.#record())) return undefined
      if (!may || !(await this.#change(seq))) return this.#passed({ seq, result: 'gone' })
    } catch (error) {
      if (isNotOfOneRow(error)) throw error
      return this.#passed({ seq, result: 'error', error: asError(error) })
    }
    this.#after = seq
    wake()
    return { seq, result: 'done' }
  }

  /** After a commit whose outcome is unknown, the operation itself tells whether the row was counted. */
  async #change(seq: string): Promise<boolean> {
    const { store } = this.#engine
    try {
      return await changeRow(store, this.#operation, seq, this.#step)
    } catch (error) {
      if (!isHapaxError(error, 'commit-unknown')) throw error
      const { after } = (await store.operations.get(this.#step.id)) ?? { after: null }
      if (after !== null && compareSeq(after, seq) >= 0) return true
      return changeRow(store, this.#operation, seq, this.#step)
    }
  }

  #passed(result: RowResult): RowResult {
    const { gone, errors, error } = this.#unrecorded
    this.#after = result.seq
    this.#unrecorded =
      result.result === 'error'
        ? { gone, errors: errors + 1, error: recordError(result.error, this.#engine.redact) }
        : { gone: gone + 1, errors, error }
    return result
  }

  /** Prolongs the lease, and learns whether to go on. */
  async #record(end = false): Promise<boolean> {
    const { store, clock } = this.#engine
    const progress = { after: this.#after, ...this.#unrecorded }
    const now = await store.operations.advance(this.#step, LEASE_MS, progress, end)
    this.#unrecorded = NOTHING
    this.#recordedAt = clock.monotonic()
    this.#operation = now ?? this.#operation
    this.#going = now?.state === 'running'
    return this.#going
  }

  /**
   * Also after a change was refused because of a pause: an operation that is resumed must not wait for the end of this lease. What cannot
   * be recorded, or released, because the store is away, is left to that end.
   */
  async #release(): Promise<void> {
    try {
      if (this.#unrecorded === NOTHING || (await this.#record())) {
        await this.#engine.store.operations.release(this.#step)
      }
    } catch {
      this.#going = false
    }
  }
}

const NOTHING: Omit<OperationProgress, 'after'> = { gone: 0, errors: 0, error: null }
/** How many rows are listed at a time. */
const PAGE = 500
/** How long another process waits before it goes on with an operation whose process has died. */
export const LEASE_MS = 10_000
/** How often progress is recorded, and a pause or cancellation is noticed, if no row is changed meanwhile. */
const RECORD_MS = 500
/** How much of a delay is made up for. */
const CATCH_UP_MS = 100

/** Whether an error says nothing about its row: every other one would fail in the same way. */
function isNotOfOneRow(error: unknown): boolean {
  return isHapaxError(error) && NOT_OF_ONE_ROW.includes(error.code)
}

const NOT_OF_ONE_ROW: readonly string[] = ['lease-lost', 'store-unavailable', 'schema-missing', 'closed']
