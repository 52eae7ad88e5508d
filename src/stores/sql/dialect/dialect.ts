import type { Isolation } from '../../../base/index.ts'
import type {
  DoomOf,
  ErrorClass,
  Executor,
  LocalResult,
  LocalRow,
  Opening,
  Origin,
  Result,
  Share,
  Statement,
  UnitOptions,
} from '../../../contracts/index.ts'
import type { Check } from '../checkup.ts'
import type { AdminStatements, StatusStatements, TraceStatements } from './admin.ts'
import type { AsideStatements } from './aside.ts'
import type { ClockStatements } from './clock.ts'
import type { EndpointStatements } from './endpoints.ts'
import type { FailedStatements, FailingStatements, HeldStatements } from './failed.ts'
import type { InboxStatements, LeaseStatements, ReceiptStatements } from './inbox.ts'
import type { JournalStatements } from './journal.ts'
import type { ListStatements } from './lists.ts'
import type { OperationStatements } from './operations.ts'
import type { OutboxStatements, RelayStatements, SentStatements } from './outbox.ts'
import type { PauseStatements } from './pauses.ts'
import type { ResponseStatements } from './responses.ts'
import type { SampleStatements } from './samples.ts'
import type { Query, Sql } from './statement.ts'
import type { WaitingLists } from './waiting.ts'
import type { SubscriptionStatements, WorkerStatements } from './workers.ts'

/** The names of a migration's steps; the texts are those of the dialect. */
export interface MigrationSource {
  readonly version: number
  /**
   * The oldest schema version whose code can run beside this migration: its own version if older processes would misread the tables; an
   * earlier one if it only adds what they can ignore.
   */
  readonly compatibleFrom: number
  readonly name: string
  readonly sql: readonly string[]
}

/** The backend that works on a transaction: enough to end exactly this one from another connection. */
export type Backend = readonly (string | number)[]

/** Statements on the schema. */
interface SchemaStatements {
  /** Selects one row as `assertRecognised` wants it: a value of each kind that statements return. */
  readonly probe: Statement
  readonly migrations: readonly MigrationSource[]
  /** What ends a statement with semicolons inside, where the database's own client has to be told. */
  readonly delimiter: string | undefined
  /** Keeps a second migrating instance waiting; the first statements of the migrating transaction. */
  readonly lock: readonly Statement[]
  /** Makes what the tables are in, if it is missing. */
  readonly place: readonly Statement[]
  /** Ends `lock`, where the end of the transaction does not. */
  readonly unlock: readonly Statement[]
  /** Makes the table of migrations, if it is missing. */
  readonly table: Statement
  /** version, checksum, compatible_from. */
  readonly applied: Statement
  /**
   * Is answered when this node has what other nodes of its cluster have acknowledged, where nodes lag behind each other. A server that is no
   * such node may answer with an error.
   */
  readonly caughtUp: Statement | undefined
  /** Records a migration as applied. */
  readonly done: Sql<[version: number, name: string, checksum: string, compatibleFrom: number]>
  /** What a worker looks at when it starts, beside the schema. */
  readonly checks: readonly Check[]
}

/** What surrounds the transactions of handlers. */
interface TransactionStatements {
  /** Settings of a transaction that take effect before its receipts are written. */
  settings(options: UnitOptions, opening: Opening['kind']): readonly Statement[]
  /** The guard: a savepoint that vanishes when the transaction ends, whoever ends it. */
  readonly guard: Readonly<Record<'set' | 'release' | 'check' | 'rollback', readonly Statement[]>>
  /** The backend that returned these results, if it has to be ended from outside. */
  backend(answers: readonly Result[]): Backend | undefined
  /** Whether the database itself ends the transaction in which this error comes up. */
  isEndedBy(error: unknown): boolean
  /** Ends a transaction from another connection, if it is still the same one. */
  readonly terminate: Sql<[backend: Backend]>
  /** fate: what became of a transaction that is over: committed or aborted; or that its server was elsewhere. Undefined: the database does not tell. */
  fate(backend: Backend): Statement | undefined
  /**
   * Marks a transaction of the user's, and the savepoint in it, by a token: `OutboxStatements.insert` and `writeLocal` then write only where
   * they find it. Undefined: the connection sees to that.
   */
  enter(entered: string): Statement | undefined
}

/** Local messages that are written last. */
export interface LastLocal {
  readonly statements: readonly Statement[]
  results(answers: readonly Result[]): readonly LocalResult[]
}

/**
 * The SQL of one database, in parts. Everything that is logic lives in the parts of the store; here are statements, and how their results
 * are read. Columns have the names of the tables; times are milliseconds since 1970.
 */
export interface Dialect {
  readonly name: string
  readonly isolationLevels: readonly Isolation[]
  readonly parallelWriters: boolean
  /** The maximum number of borders (`Unit.border`) per transaction; undefined: unlimited. */
  readonly mostBorders?: number

  /** What an error of the database or its driver means; causes are looked at as well, because ORMs wrap errors. */
  classify(error: unknown): ErrorClass
  /** What an error of a handler's own statement makes of its transaction, if it ends it. */
  readonly doomOf: DoomOf
  /** Whether the server itself reported this error: then a commit is known not to have happened. */
  answered(error: unknown): boolean

  readonly schema: SchemaStatements
  readonly transactions: TransactionStatements
  readonly receipts: ReceiptStatements
  readonly inbox: InboxStatements
  readonly leases: LeaseStatements
  readonly journal: JournalStatements
  readonly responses: ResponseStatements
  readonly endpoints: EndpointStatements
  readonly outbox: OutboxStatements
  readonly relays: RelayStatements
  readonly sent: SentStatements
  readonly workers: WorkerStatements
  readonly subscriptions: SubscriptionStatements
  readonly failing: FailingStatements
  readonly failed: FailedStatements
  readonly held: Readonly<Record<Origin, HeldStatements>>
  /** What keeps keys that cannot run out of the way. */
  readonly aside: Readonly<Record<Origin, AsideStatements>>
  readonly operations: OperationStatements
  readonly pauses: PauseStatements
  readonly samples: SampleStatements
  readonly clock: ClockStatements
  readonly admin: AdminStatements
  readonly status: StatusStatements
  readonly traces: TraceStatements
  readonly lists: ListStatements
  readonly waiting: WaitingLists
  /** The channel of these tables, and how something is said there; undefined: there is none. */
  readonly news: { readonly channel: string; readonly tell: Sql<[text: string]> } | undefined

  /**
   * Local messages as statements that come last in a transaction, and how their answers are read. Undefined: this database needs
   * answers in between, so that `writeLocal` comes before the last statements.
   */
  lastLocal(rows: readonly LocalRow[], token: string): LastLocal | undefined
  /**
   * With a token of `enter`: rows that the transaction no longer accepts are missing from the result. The token is good for one write,
   * unless that is `followed` by another.
   */
  writeLocal(
    executor: Executor,
    rows: readonly LocalRow[],
    token: string,
    entered?: string,
    followed?: boolean,
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
}
