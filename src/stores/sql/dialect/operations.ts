import type {
  Audit,
  OperationDraft,
  OperationProgress,
  OperationStep,
  OperationWork,
  Statement,
} from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** An operation as it is written when it begins. */
export interface WrittenOperation {
  readonly work: OperationWork
  readonly draft: Pick<OperationDraft, 'id' | 'perSecond'>
  readonly audit: Audit
  readonly upTo: string | null
  readonly lastFailure: string | null
  readonly total: number
}

/**
 * Statements on changes to many rows. The columns of an operation: id, kind, conditions (JSON), per_second, up_to, total, state,
 * after_row, done, gone, errors, error, actor, note, created_at, changed_at, ended_at, worked. `up_to` and `after_row` are names of rows; the last
 * failure is one of the conditions.
 */
export interface OperationStatements {
  /** now: the time of the database. */
  readonly clock: Sql<[]>
  /**
   * Waits until those have ended who are writing rows of this kind, but not long: then it fails. What they write has been given a time and
   * a number before, so that it would belong to an operation that begins now, and that has not counted it. Empty: nobody does.
   */
  writers(kind: OperationWork['kind']): readonly Statement[]
  /** Fails if the id is taken. */
  readonly insert: Sql<[operation: WrittenOperation]>
  readonly get: Sql<[id: string]>
  /** The newest first. */
  readonly list: Sql<[before: string | undefined, limit: number]>
  /** One that is running and that nobody works on: this one, or the oldest. */
  readonly free: Sql<[id: string | undefined]>
  /** The same, locked; one that is locked already is not found. */
  readonly lockFree: Sql<[id: string | undefined]>
  readonly lease: Sql<[id: string, token: string, leaseMs: number]>
  /** Locks the operation of a lease that is held. */
  readonly lockHeld: Sql<[step: OperationStep]>
  /** Adds to the counts, and prolongs the lease, which only a running one keeps. */
  readonly advance: Sql<[id: string, leaseMs: number, progress: OperationProgress]>
  /** It is done, unless it has ended. What belonged to it and was neither changed nor an error is gone. */
  readonly end: Sql<[id: string]>
  /** Counts a row that is changed in the same transaction. */
  readonly count: Sql<[id: string, seq: string]>
  readonly release: Sql<[step: OperationStep]>
  /** Locks an operation that has not ended and is not in this state. */
  readonly lockOther: Sql<[id: string, state: string]>
  readonly change: Sql<[id: string, state: string]>
}
