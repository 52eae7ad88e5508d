import type { ErrorRecord, Isolation } from '../../../base/index.ts'
import type {
  DoomOf,
  ErrorClass,
  Executor,
  FailedRow,
  LocalResult,
  LocalRow,
  Opening,
  Origin,
  OutboxRow,
  Result,
  RetryRow,
  Share,
  Statement,
  UnitOptions,
  WorkerHello,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import type { Check } from '../checkup.ts'
import type { AsideDialect } from './aside.ts'
import type { LeaseDialect } from './leases.ts'
import type { OperatorDialect } from './operator.ts'
import type { OverviewDialect } from './overview.ts'

/** The names of a migration's steps; the texts are those of the dialect. */
export interface MigrationSource {
  readonly version: number
  readonly name: string
  readonly sql: readonly string[]
}

/** The backend that works on a transaction: enough to end exactly this one from another connection. */
export type Backend = readonly (string | number)[]

/** Runs one statement outside a transaction. */
type Query = (statement: Statement) => Promise<Result>

/**
 * The SQL of one database. Everything that is logic lives in `SqlStore`; here are statements, and how their answers read.
 * Columns have the names of the tables; times are answered as milliseconds since 1970.
 */
export interface Dialect {
  readonly name: string
  readonly isolationLevels: readonly Isolation[]
  readonly parallelWriters: boolean
  readonly ownTransactions: boolean

  /** What an error of the database or its driver means; causes are looked at as well, because ORMs wrap errors. */
  classify(error: unknown): ErrorClass
  /** What an error of a handler's own statement makes of its transaction, if it ends it. */
  readonly doomOf: DoomOf
  /** Whether the server itself answered with this error: then a commit is known not to have happened. */
  answered(error: unknown): boolean

  /** Selects one row as `assertRecognised` wants it: a value of each kind that statements return. */
  readonly probe: Statement
  readonly migrations: readonly MigrationSource[]
  /** What ends a statement with semicolons inside, where the database's own client has to be told. */
  readonly delimiter: string | undefined
  /** Keeps a second migrating instance waiting; the first statements of the migrating transaction. */
  readonly migrationLock: readonly Statement[]
  /** Makes what the tables are in, if it is missing. */
  readonly migrationPlace: readonly Statement[]
  readonly migrationUnlock: readonly Statement[]
  readonly migrationTable: Statement
  readonly migrationRows: Statement
  migrationDone(version: number, name: string, checksum: string): Statement

  /** What a worker looks at when it starts, beside the schema. */
  readonly startChecks: readonly Check[]

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
  /**
   * Locks inbox rows that are neither held nor locked elsewhere, in the order of seq, and answers them whole. With
   * `claimDeletes` it also leaves out those that have older rows of their key outside these, and deletes the rest.
   */
  claim(seqs: readonly string[], isolation?: Isolation): Statement
  /** Locks inbox rows in the order of seq, waits for those that are locked elsewhere, and answers seq. */
  lockAll(seqs: readonly string[], lockTimeoutMs: number, isolation?: Isolation): Statement
  /** Whether `claim` does it all; else `blocked` and `deleteInbox` follow. */
  readonly claimDeletes: boolean
  /** The seq of those of these rows that have an older row of their key outside these. A plain read. */
  blocked(seqs: readonly string[]): Statement
  /** The backend that gave these answers, if it has to be ended from outside. */
  backend(answers: readonly Result[]): Backend | undefined
  terminate(backend: Backend): Statement
  /** fate: what became of a transaction that is over: committed or aborted. Undefined: the database does not tell. */
  fate(backend: Backend): Statement | undefined

  deleteInbox(seqs: readonly string[]): readonly Statement[]
  insertInbox(rows: readonly RetryRow[]): readonly Statement[]
  insertFailed(rows: readonly FailedRow[]): readonly Statement[]
  /**
   * Marks a transaction of the user's, and the savepoint in it, by a token: `insertOutbox` and `writeLocal` then write only where
   * they find it. Undefined: the connection sees to that.
   */
  enter(entered: string): Statement | undefined
  /** With a token of `enter`: what is written nowhere else affects no row. */
  insertOutbox(rows: readonly OutboxRow[], entered?: string): readonly Statement[]
  /** With a token of `enter`: what is written nowhere else has no answer. */
  writeLocal(
    executor: Executor,
    rows: readonly LocalRow[],
    token: string,
    entered?: string,
  ): Promise<readonly LocalResult[]>

  /**
   * Rows of all shares, as few statements as the database allows. Columns: share (its place in the list), seq, type, lane,
   * ordered (whether key counts), key, bytes, ms (until due), held, starts. Part by part as `Look.entries` says, and per
   * share and lane at most one row without order that is not due yet: the next one. Keys come in the order of their bytes,
   * or rows with a key have a column `more`: true on one of the last key of a lane that has more. Rows without a key of one
   * share, lane and type may be one: seq, bytes and ms are texts then, lists with commas. Keys that stand aside are left out,
   * unless the share wants all; `timed` marks rows of those whose time has come, and `stuck` a row that stands behind another, of which
   * it is the seq, and which is not listed.
   */
  look(query: Query, shares: readonly Share[]): Promise<Result>
  /** If it has this lease, or none; it has none afterwards. */
  reschedule(row: {
    seq: string
    attempts: number
    lost: number
    delayMs: number
    error: ErrorRecord
    leaseToken: string | null
  }): Statement
  /** Locks one inbox row, if it has this lease, or none, and answers its seq. */
  lockInbox(seq: string, leaseToken: string | null): Statement
  /** Copies an inbox row into failed; `hold`: the copy names the row, which stays. */
  copyToFailed(row: { seq: string; attempts: number; reason: string; error: ErrorRecord; hold: boolean }): Statement
  /** Marks an inbox row as held, and ends its lease. */
  holdInbox(row: { seq: string; attempts: number; error: ErrorRecord }): Statement
  inboxSeq(consumer: string, messageKey: string): Statement

  /** seq of those that are there. */
  outboxSeqs(seqs: readonly string[]): Statement
  /** seq, relay, attempts and the message, in the order of seq. */
  outboxRows(seqs: readonly string[]): Statement
  /** Locks those of these outbox rows that nobody has locked, and answers their seq and whether they are followed. */
  lockFree(seqs: readonly string[]): Statement
  copyToSent(seqs: readonly string[]): Statement
  deleteOutbox(seqs: readonly string[]): Statement
  /**
   * As `deleteOutbox`, of rows that are not followed, outside a transaction; it may be forgotten by a server that crashes. Of rows that others have locked it deletes
   * nothing, or gives up soon.
   */
  deleteConfirmed(seqs: readonly string[]): Statement
  postpone(rows: readonly { seq: string; delayMs: number; error: ErrorRecord }[]): readonly Statement[]
  lockOutbox(seq: string): Statement
  /** Gives the failed row of this inbox or outbox row the number and the mark that it had before a retry, unless they are taken. */
  keepNumber(origin: Origin, seq: string): Statement
  refuseToFailed(row: { seq: string; reason: string; error: ErrorRecord; hold: boolean }): Statement
  holdOutbox(row: { seq: string; error: ErrorRecord }): Statement
  recordRelay(name: string, destination: string): Statement
  /** destination. */
  relay(name: string): Statement

  join(worker: WorkerHello): Statement
  /** Affects no row if the worker is not known any more. */
  note(id: string, inHand: string, alone: boolean, beat: boolean): Statement
  /** id, name, serves, started_at, silent_ms, alive, in_hand. */
  readonly workers: Statement
  /** Locks workers that are dead: id, in_hand, alone. */
  readonly lockDead: Statement
  /** Counts a start, or a crash, on those of these inbox rows that nobody has locked. */
  suspect(seqs: readonly string[]): Statement
  crashed(seqs: readonly string[]): Statement
  leave(ids: readonly string[]): Statement

  subscribe(consumer: string, type: string, ordered: boolean): Statement
  /** ordered. */
  subscription(consumer: string, type: string): Statement

  /** What keeps keys that cannot run out of the way. */
  readonly aside: AsideDialect
  /** Work without a transaction. */
  readonly leases: LeaseDialect
  /** What people do by hand, and what they look at. */
  readonly operator: OperatorDialect
  readonly overview: OverviewDialect
}
