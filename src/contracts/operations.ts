import type { ErrorRecord } from '../base/index.ts'
import type { Audit, FailedWhere, SentWhere } from './admin.ts'

/** What an operation does to each of its rows. */
export type OperationWork =
  | { readonly kind: 'discard'; readonly where: FailedWhere }
  | {
      readonly kind: 'retry'
      readonly where: FailedWhere
      /** Includes messages whose effects may be partly committed, because a person has checked them. Otherwise they count as errors. */
      readonly effectsChecked?: true
    }
  | { readonly kind: 'republish'; readonly where: SentWhere }

/** A change to many rows, before the store has frozen what it is about. */
export type OperationDraft = OperationWork & {
  /** A UUIDv7, minted by the caller: beginning the same one twice begins it once. */
  readonly id: string
  /** The most rows per second; null: as fast as the store allows. */
  readonly perSecond: number | null
  /** The most rows, oldest first; null: all that are there when it begins. */
  readonly limit: number | null
}

/** `paused` and `cancelled` by a person; `done`: every row was visited. */
export type OperationState = 'running' | 'paused' | 'done' | 'cancelled'

/**
 * A change to many rows, as the store records it: which rows were chosen, and how far it is. The rows are frozen when it begins: conditions
 * on ages become times (`since`, `until`), rows after `upTo` are left alone, and so are failures after `lastFailure`: messages that
 * someone else retried and that failed again under their old number.
 */
export type BulkOperation = OperationWork & {
  readonly id: string
  readonly perSecond: number | null
  /** The last row that belongs to it; null: none does. */
  readonly upTo: string | null
  /** The last failure that belongs to it, as `FrozenFailed` selects it; null: none does. */
  readonly lastFailure: string | null
  /** How many rows belonged to it when it began. Counted, not estimated. */
  readonly total: number
  readonly state: OperationState
  /** The last row that was visited. */
  readonly after: string | null
  /** Changed; changed or deleted by somebody else before; could not be changed. */
  readonly done: number
  readonly gone: number
  readonly errors: number
  /** Of the last row that could not be changed. */
  readonly error: ErrorRecord | null
  readonly actor: string
  readonly note: string | null
  readonly createdAt: Date
  /** When its state or its progress was last written. */
  readonly changedAt: Date
  readonly endedAt: Date | null
  /** Whether a process works on it at the moment. */
  readonly worked: boolean
}

/** The right to work on an operation, for as long as its lease lasts. */
export interface OperationStep {
  readonly id: string
  readonly token: string
}

/** What became of rows that were visited and not changed. */
export interface OperationProgress {
  readonly after: string | null
  readonly gone: number
  readonly errors: number
  readonly error: ErrorRecord | null
}

/**
 * Changes to many rows. One process at a time works on one, under a lease. A row that is changed (`StoreFailed.retry`, `.discard`,
 * `StoreSent.republish` with a `step`) is counted in the same transaction, so that the numbers stay exact when that process dies. Such a
 * call rejects with `lease-lost`, and changes nothing, once the operation is paused or cancelled, or another process has its lease; it
 * resolves with false, and changes nothing, if the row is another failure by now, or an edit has replaced it.
 */
export interface StoreOperations {
  /** Freezes the rows and records the operation. An id that is there already: that one is returned as it is. */
  begin(draft: OperationDraft, audit: Audit): Promise<BulkOperation>
  get(id: string): Promise<BulkOperation | undefined>
  /** The newest first, those before this id. */
  list(before: string | undefined, limit: number): Promise<readonly BulkOperation[]>
  /** Leases one that is running and that no process works on: this one, or the oldest of them. Undefined: there is none. */
  lease(token: string, leaseMs: number, id?: string): Promise<BulkOperation | undefined>
  /**
   * Prolongs the lease and records what was visited and not changed, unless `after` says that it was recorded before; `end`: every row was visited, and it is done; of those
   * that belonged to it, what was neither changed nor an error is gone. Returns the operation as it is now; undefined: the lease is lost. An operation that was paused or cancelled gives its lease up.
   */
  advance(
    step: OperationStep,
    leaseMs: number,
    progress: OperationProgress,
    end: boolean,
  ): Promise<BulkOperation | undefined>
  /** Gives the lease up, so that another process may go on at once. */
  release(step: OperationStep): Promise<void>
  /** False: there is no such operation, it has ended, or it is in that state already. */
  change(id: string, to: 'running' | 'paused' | 'cancelled', audit: Audit): Promise<boolean>
}
