import type { Isolation, Taking } from '../../base/index.ts'
import type { ConnectionFeatures, Result, SqlDatabase, Statement } from '../../contracts/index.ts'

/**
 * What hapax has to know of an ORM. The ORM begins, commits and rolls back; the kit adds what none of them does: deadlines, a check of the
 * session, handles that end with their transaction, and connections that are ended when they cannot be trusted any more.
 */
export interface Orm<Tx extends object> {
  /** As the support table and errors name it, for example 'kysely'. */
  readonly name: string
  readonly database: SqlDatabase
  /**
   * Opens a transaction in the ORM's own way: commits when `work` has resolved, rolls back when it has rejected. With the ORM's own limits
   * of time out of the way: the deadlines are those of hapax. `track`: takes every statement of the handler's, if the ORM shows them.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, isolation: Isolation | undefined, track: Track): Promise<T>
  /** Whether the ORM shows the handler's statements, so that each goes through `track`. */
  readonly tracks?: true
  /**
   * Runs one statement, in the placeholder style of the database, in this transaction; undefined: outside of any, on a connection of the
   * pool. Rejects with an error in which the dialect finds the code of the database, itself or as a cause.
   */
  run(tx: Tx | undefined, statement: Statement): Promise<Result>
  /** Runs statements without values as one text. Absent: they are sent one by one. */
  runText?(tx: Tx, texts: readonly string[]): Promise<readonly Result[]>
  /** Sends what the ORM has put off until the commit, when the handler has ended: what fails then is the handler's failure. */
  settle?(tx: Tx): Promise<void>
  /** Whether something is one of the ORM's transactions, as far as that shows at once. What does not show is found out by SQL. */
  isTransaction(tx: unknown): tx is Tx
  /** Whether the ORM refuses what is no open transaction by itself, so that nothing has to be tried out to know that one was begun. */
  readonly refusesEnded?: true
  /** The same in a transaction of the user's own, where something has to be done to be `ordered`. @default `run` */
  runOwn?(tx: Tx, statement: Statement): Promise<Result>
  /**
   * Whether a statement of a transaction that the ORM has begun to end is refused, and not sent: what was sent before belongs to the
   * transaction, whatever becomes of it.
   */
  readonly ordered?: true
  /** The connection of `mysql2` in callback style under one of the ORM's transactions, where it can be reached at once. */
  queue?(tx: Tx): unknown
  /** What stands for a transaction, where the ORM's handle may serve another one afterwards. @default the handle */
  identity?(tx: Tx): object | undefined
  /** Whether a transaction inside of this one is still open: then the ORM would end that one instead. */
  isNested?(tx: Tx): boolean
  /** Whether it only counts those inside of a transaction: of two at the same time, one could end everything. */
  readonly counts?: true
  /** Whether an error came from a statement of the ORM: a handler may have met it on another database. */
  isQueryError(error: unknown): boolean
  /** Whether the ORM itself has refused a statement because its transaction is over. */
  isOver?(error: unknown): boolean
  /** Whether it did so because the transaction was committed: what was sent before is kept. */
  isCommitted?(error: unknown): boolean
  /** An error of the ORM's as the driver would have thrown it, where the code of the database is not in it or in one of its causes. */
  asOfDriver?(error: unknown): unknown
  /** Whether its ROLLBACK waits for statements under way even on a destroyed client, whose driver never settles them. */
  readonly waits?: boolean
  /** The driver's client under a transaction, where it can be reached. */
  readonly client?: ClientUnder<Tx>
  /**
   * Whether a session may be ended by SQL where its client cannot be reached: the driver then drops the connection, and emits no error that
   * would end the process. @default false
   */
  readonly killable?: boolean
  /** Keeps a link that breaks while nobody waits for it from ending the process. */
  listen?(): void
  /** Where its connections are taken from, as far as that can be reached by now; one of them for handlers. */
  taking?(): Taking | undefined
  /** What the handler receives, where a proxy around the transaction would not do. */
  lend?(tx: Tx, isClosed: () => boolean): Tx
  /** `roundTrips`, where it takes others than most ORMs on this database do. */
  readonly features: Pick<ConnectionFeatures, 'lateUse'> & Partial<Pick<ConnectionFeatures, 'pool' | 'roundTrips'>>
}

/** Watches the outcome of a statement, and returns it. `raw`: its text was written by the handler, and may be anything. */
export type Track = <T>(statement: Promise<T>, raw?: { readonly text: unknown }) => Promise<T>

/** How to deal with a client of the driver. */
interface ClientUnder<Tx> {
  /** `session`: the number of the session at the server, once that is known. */
  of(tx: Tx, session?: number): object | undefined
  /** Whether something is under way on it. */
  isBusy(client: object): boolean
  /** Ends it at once, without waiting for what is under way. */
  destroy(client: object): void
}
