import type { ErrorClass, Executor, Isolation, Result, Statement } from '../connection.ts'
import type { ErrorRecord } from '../errors.ts'
import type { StoredMessage } from '../message.ts'
import type {
  DueOptions,
  FailedFilter,
  FailedRow,
  LocalResult,
  LocalRow,
  Opening,
  OutboxRow,
  RetryRow,
  UnitOptions,
} from '../store.ts'

/** The names of a migration's steps; the texts are those of the dialect. */
export interface MigrationSource {
  readonly version: number
  readonly name: string
  readonly sql: readonly string[]
}

/** The backend that works on a transaction: enough to end exactly this one from another connection. */
export type Backend = readonly (string | number)[]

/** Runs one statement, then those that follow from its answer (undefined: nothing to do), and commits. Resolves to the answer. */
type ShortTransaction = (
  first: Statement,
  then: (answer: Result) => readonly Statement[] | undefined,
) => Promise<Result>

/**
 * The SQL of one database. Everything that is logic lives in `sqlStore`; here are statements, and how their answers read.
 * Columns have the names of the tables; times are answered as milliseconds since 1970.
 */
export interface Dialect {
  readonly name: string
  readonly isolationLevels: readonly Isolation[]
  readonly parallelWriters: boolean
  readonly ownTransactions: boolean

  /** What an error of the database or its driver means; causes are looked at as well, because ORMs wrap errors. */
  classify(error: unknown): ErrorClass
  /** Whether the server itself answered with this error: then a commit is known not to have happened. */
  answered(error: unknown): boolean

  readonly migrations: readonly MigrationSource[]
  /** Keeps a second migrating instance waiting; the first statements of the migrating transaction. */
  readonly migrationLock: readonly Statement[]
  readonly migrationUnlock: readonly Statement[]
  readonly migrationTable: Statement
  readonly migrationRows: Statement
  migrationDone(version: number, name: string, checksum: string): Statement

  /** Settings of a transaction that take effect before its receipts are written. */
  settings(options: UnitOptions, opening: Opening['kind']): readonly Statement[]
  /** The guard: a savepoint that vanishes when anybody ends the transaction. */
  readonly guardSet: readonly Statement[]
  readonly guardRelease: readonly Statement[]
  readonly guardCheck: readonly Statement[]
  readonly guardRollback: readonly Statement[]

  /** Writes receipts where there are none, in the order of their keys. */
  take(consumer: string, token: string, messages: readonly StoredMessage[], lockTimeoutMs: number): readonly Statement[]
  /** The keys of the receipts that `take` wrote, from its answers. */
  taken(answers: readonly Result[], token: string, messages: readonly StoredMessage[]): ReadonlySet<string> | 'all'
  /** message_key, token, source, id, type, fingerprint, taken_at of the receipts that are there. */
  receipts(consumer: string, keys: readonly string[]): Statement
  /** As `lock`, for the rows that a handler settles. */
  claim(seqs: readonly string[], locked: 'skip' | 'wait', lockTimeoutMs: number, isolation?: Isolation): Statement
  /** Whether `claim` deletes the rows as well; else they are deleted afterwards. */
  readonly claimDeletes: boolean
  /** Locks inbox rows in the order of seq and answers seq; one statement. */
  lock(seqs: readonly string[], locked: 'skip' | 'wait', lockTimeoutMs: number, isolation?: Isolation): Statement
  /** The backend that gave these answers, if it has to be ended from outside. */
  backend(answers: readonly Result[]): Backend | undefined
  terminate(backend: Backend): Statement

  deleteInbox(seqs: readonly string[]): readonly Statement[]
  insertInbox(rows: readonly RetryRow[]): readonly Statement[]
  insertFailed(rows: readonly FailedRow[]): readonly Statement[]
  insertOutbox(rows: readonly OutboxRow[]): readonly Statement[]
  writeLocal(executor: Executor, rows: readonly LocalRow[], token: string): Promise<readonly LocalResult[]>

  /** Marks a start on due rows, hides them, and answers them. */
  due(
    query: (statement: Statement) => Promise<Result>,
    types: ReadonlyMap<string, readonly string[]>,
    options: DueOptions,
    transaction: ShortTransaction,
  ): Promise<Result>
  /** ms: until the next row of this consumer and these types is due, at most 0 when it is, null when there is none. */
  nextDue(consumer: string, types: readonly string[]): Statement
  /** A row if there is one of this consumer and these types that was started. */
  inFlight(consumer: string, types: readonly string[]): Statement
  reschedule(row: { seq: string; attempts: number; lost: number; delayMs: number; error: ErrorRecord }): Statement
  /** Copies an inbox row into failed. */
  copyToFailed(row: { seq: string; attempts: number; reason: string; error: ErrorRecord }): Statement
  inboxRow(consumer: string, messageKey: string): Statement

  subscribe(consumer: string, type: string): Statement
  subscription(consumer: string, type: string): Statement

  failedList(filter: FailedFilter): Statement
  failedGet(seq: string): Statement
  /** Locks a failed row and answers its seq. */
  failedLock(seq: string): Statement
  /** Copies a failed row into the inbox, due at once. */
  copyToInbox(seq: string): Statement
  deleteFailed(seq: string): Statement

  /** consumer, receipts, waiting, retrying, failed. */
  readonly statusConsumers: Statement
  /** outbox, oldest. */
  readonly statusOutbox: Statement
  /** Statements whose rows have a column `place`: receipt, inbox, outbox or failed. */
  trace(id: string): readonly Statement[]
}
