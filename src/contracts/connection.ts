import type { Interrupt, Isolation } from '../base/index.ts'
import type { ListenOptions } from './news.ts'

/** A value bound to a statement. Scalars only: every driver and ORM carries these the same way. */
export type Param = string | number | null | Uint8Array

/** One SQL statement in the placeholder style of its database, and its values. */
export interface Statement {
  readonly text: string
  readonly params: readonly Param[]
  /**
   * Sent again and again, with a plan that does not depend on what is in the tables: may be prepared once per connection. One that reads a
   * queue is not: a plan made while it was empty would be kept when it is full.
   */
  readonly prepare?: true
}

/** A row, by column name. */
export type Row = Readonly<Record<string, unknown>>

/** The result of one statement. */
export interface Result {
  readonly rows: readonly Row[]
  readonly affected: number
}

/** Runs statements. */
export interface Executor {
  query(text: string, params: readonly Param[]): Promise<Result>
}

/** Runs statements in a transaction that was entered, and sends each of them at once. */
export interface EnteredExecutor extends Executor {
  /** Whether the user opened the transaction. */
  readonly own: boolean
  /**
   * `checks`: a statement reaches the database only while the transaction that was entered is open, else it rejects with
   * `not-in-transaction`. Where the connection cannot do that the dialect's statements do.
   */
  readonly checks: boolean
  /** Cleans up what entering left in the session; sent at once as well. */
  leave(): void
}

/** How a transaction is opened. */
export interface TransactionOptions {
  /** @default what the database is set to */
  readonly isolation?: Isolation | undefined
  /** Ends the transaction by force: the connection is destroyed, the handle is dead, the call rejects with the signal's reason. */
  readonly signal?: Interrupt | undefined
  /** Uses a connection that handlers cannot exhaust, if there is one: for work that others wait for. */
  readonly control?: boolean | undefined
  /** Called once a connection was acquired. From here on the database has to answer in time. */
  readonly acquired?: (() => void) | undefined
  /** How long to wait for the turn to write, where a database has one writer; then it rejects with `busy`. @default 60_000 */
  readonly lockTimeoutMs?: number | undefined
  /** What an error of this database means; for connections that do not know their database. */
  readonly classify: (error: unknown) => ErrorClass
  /** Whether an error of a handler's own statement ends its transaction, and how. */
  readonly doomOf: DoomOf
}

/** What happens inside a transaction. */
export interface TransactionWork<Tx, T> {
  /** Statements that come first; sent together with BEGIN where the connection can do that. */
  readonly first: readonly Statement[]
  /** Runs with the answers to `first`. */
  body(tx: Tx, answers: readonly Result[]): Promise<TransactionEnd<T>>
}

/** How a transaction ends. */
export interface TransactionEnd<T> {
  readonly value: T
  /** Statements that come last; a failing one stops the rest and the commit. Undefined: roll back instead of committing. */
  readonly last: readonly Statement[] | undefined
  /** Called with the answers to `last` once the commit is known to have happened; must not throw. */
  committed?(answers: readonly Result[]): void
}

/**
 * What a handler may have done to its transaction besides reading and writing rows. none: nothing; savepoints: it named savepoints; unseen: it
 * used something whose statements cannot be observed; guard: it named the savepoint of hapax.
 */
export type Reach = 'none' | 'savepoints' | 'unseen' | 'guard'

/**
 * Views of one transaction, for handlers that are started one after the other and then wait for the database at the same time. The
 * statements of all views have to reach the database in the order of the views, as if each handler had ended before the next began.
 */
export interface Views<Tx> {
  /** The transaction for the next handler. */
  next(): View<Tx>
  /** Resolves when all statements have their answers; undefined if that is now. */
  answered(): Promise<void> | undefined
  /** The view that wanted to send a statement after a later one had sent some: nothing is sent any more, and nothing may be committed. */
  readonly disordered: View<Tx> | undefined
}

/** A transaction as one of several handlers has it. */
export interface View<Tx> {
  readonly tx: Tx
  /** How many statements were sent through it. */
  readonly sent: number
  /** The reach of its handler. */
  readonly reach: Reach
  /** Throws `unawaited-query` if one of its statements is still running, when its handler has ended. */
  assertAwaited(): void
}

/**
 * How a store reaches the user's pool or ORM. One per driver or ORM; the conformance suite in `hapax/testing` says what
 * one has to do. `Tx` is what handlers receive; `Own` is what the user's own transactions look like.
 *
 * A connection is naive: it begins, runs, commits or rolls back, gives the connection back (or destroys it when it cannot
 * be trusted any more), and rejects with the driver's own error, or with what `body` threw. What an error means is the
 * store's business. A connection on which an error of class `lost` came up, or whose own first statements were refused, is
 * destroyed: its server may have become read-only, or a handler may have left a role behind. It adds only what the store cannot
 * know, as a HapaxError:
 * - `transaction-conflict` or `transaction-lost` when the handler's own statements met such an error, whatever it threw then;
 * - `unawaited-query` when statements were still running as `body` returned, or a cursor or a stream was open (where that can
 *   be told); in bounded time, whatever they wait for;
 * - `transaction-aborted` when COMMIT answered that it had rolled back;
 * - `busy` when a database with one writer was taken for longer than the lock timeout.
 *
 * An error that came up before COMMIT was sent is thrown as `NotSent`: any other one leaves the outcome unknown, unless the
 * server answered with it.
 */
export interface Connection<Tx, Own = Tx> {
  readonly features: ConnectionFeatures
  transaction<T>(options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T>
  /**
   * A transaction that decides nothing: these statements and COMMIT, in one round trip where the connection can do that. Resolves
   * with their answers. An error that the server did not answer with leaves the outcome unknown once a connection was acquired,
   * unless it is a `NotSent`.
   */
  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]>
  /** The executor inside a transaction of hapax's. */
  executor(tx: Tx): Executor
  /**
   * Takes hold of a transaction as it is at this instant. Throws `not-in-transaction` or `transaction-closed` if it can tell at once
   * that `tx` is none. Statements of the user's may come in between, also ROLLBACK and whatever the next owner of a pooled client does.
   */
  enter(tx: Tx | Own): EnteredExecutor
  /**
   * Throws `unawaited-query` if a statement is still running: the handler of one message of a group has ended, and the next one has not begun.
   * Absent where that cannot be told.
   */
  assertAwaited?(tx: Tx): void
  /**
   * Sends what the handler's side of a transaction of hapax's has put off, such as changes of entities: its handlers have ended, and the last
   * statements have not been sent. An error is the handler's. Absent, or undefined: nothing is put off.
   */
  settle?(tx: Tx): Promise<void> | undefined
  /**
   * Whether a handler that was cut off may have ended this transaction of hapax by itself. False: nothing that it sent can do that. Absent,
   * or undefined: unknown.
   */
  mayHaveEnded?(tx: Tx): boolean | undefined
  /**
   * The reach of the handlers of a transaction of hapax since the last call, not counting what its views report themselves. Absent where
   * the statements of handlers cannot be observed.
   */
  readonly reach?: ((tx: Tx) => Reach) | undefined
  /** Views of a transaction of hapax's. Absent where what a handler sends cannot be seen: its handlers run one after the other. */
  views?(tx: Tx): Views<Tx> | undefined
  /** How many bytes the client and the server take as the values of one statement, as far as that is known. */
  mostBytes(tx: Tx | Own): number
  /**
   * One statement outside any transaction, on a connection that handlers cannot exhaust, if there is one. A connection that
   * has not answered within the limit is destroyed where that is possible: its link may be silently dead. `acquired` is called when
   * it has a connection, or at once where that cannot be told.
   */
  query(statement: Statement, limitMs: number, acquired?: () => void): Promise<Result>
  /**
   * Listens on a channel for what other processes say there, on a connection of its own, again and again until the function that it
   * returns is called. Undefined: the database has no channels, or no connection can be spared.
   */
  readonly listen?: ((options: ListenOptions) => () => Promise<void>) | undefined
  /** Whether its transactions take their connections from this pool of the user's. Absent: from none that can be watched. */
  isOnPool?(pool: object): boolean
  /** Closes what the connection opened itself. */
  close(): Promise<void>
}

/** The kinds of databases that a connection may be on. */
export type SqlDatabase = 'postgres' | 'mysql' | 'sqlite'

/** An ORM that knows several databases. The store that is given it says which one it is on: `postgres(fromKysely(db))`. */
export interface ConnectionSource<Tx, Own = Tx> {
  /** Throws `invalid-option` where the ORM is plainly on another database. */
  on(database: SqlDatabase): Connection<Tx, Own>
}

/** What differs between connections, and what follows from it. */
export interface ConnectionFeatures {
  readonly name: string
  /** Round trips of one message beyond the handler's own. */
  readonly roundTrips: number
  /** What happens to a handler that uses its transaction after it settled: always refused, or only refused for new statements. */
  readonly lateUse: 'refused' | 'partly refused'
  /** Whether statements that the handler did not await are noticed before the commit. */
  readonly unawaited: 'detected' | 'not detectable'
  /** Whether `publish` takes transactions that the user has opened. */
  readonly ownTransactions: boolean
  /** Whether transactions take turns here, although the database has parallel writers elsewhere. @default false */
  readonly oneWriter?: boolean
  /** Connections at most, where that is known; `control` of them are kept free for heartbeats, unless those have their own. */
  readonly pool: { readonly max: number; readonly control: number } | undefined
}

/** How an error ends the transaction in which it came up; undefined: it does not. */
export type DoomOf = (error: unknown) => 'conflict' | 'lost' | undefined

/**
 * What an error of a database means for the message:
 * conflict: run again, the handler is not the cause; lock-timeout: another transaction holds the row; lost: the link or the transaction
 * is gone; aborted: an earlier error of this transaction was swallowed; gone: the guard's savepoint or transaction is not
 * there any more; cancelled: it took longer than the user allows; no-schema: the tables are missing; refused: the database can never
 * take these values; other: another error of the statement itself.
 */
export type ErrorClass =
  | 'conflict'
  | 'lock-timeout'
  | 'lost'
  | 'aborted'
  | 'gone'
  | 'cancelled'
  | 'no-schema'
  | 'refused'
  | 'other'
