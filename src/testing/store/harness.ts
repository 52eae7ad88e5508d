import type { Connection, Store, StoreFeatures } from '../../contracts/index.ts'

/** What some cases need beyond the store contract. A harness lists in `cannot` what its store lacks, with the reason. */
export type Need =
  /** A second store on the same database, as another process would have it. */
  | 'another store'
  /** COMMIT and ROLLBACK through the handler's transaction. */
  | 'ending the transaction'
  /** Savepoints in the handler's transaction. */
  | 'savepoints'
  /** Rows that two transactions can lock against each other. */
  | 'row locks'
  /** A schema that must be created first. */
  | 'migrations'
  /** Moving the counter behind `seq`. */
  | 'setting seq'
  /** Changes timestamps of rows. */
  | 'setting times'
  /** A pool of connections that can be exhausted. */
  | 'a pool'
  /** Noticing statement errors that the handler swallows. */
  | 'watched statements'
  /** Statements that keep running while the handler does something else. */
  | 'something left open'
  /** A server whose sessions can be looked at and ended: `server`. */
  | 'sessions'
  /** Transactions of the user's own that can be used after their session has ended, and refuse. */
  | 'own sessions that end'
  /** A connection that is given to the store: `beneath`. */
  | 'a connection'
  /** Transactions of the user's ORM inside its transactions: `nested`. */
  | 'nested transactions'
  /** Statements that commit without being asked to: `define`. */
  | 'statements that commit'

/** The features of a store under test. */
export interface HarnessFeatures extends StoreFeatures {
  /** Whether an SQL error dooms the transaction it happened in, even if it is caught. */
  readonly errorsAbort: boolean
  /** What this store cannot do, each with the reason. */
  readonly cannot: Readonly<Partial<Record<Need, string>>>
}

/** How a database is opened for one case. */
export interface OpenOptions {
  /** Whether the tables have been created. */
  readonly migrated: boolean
  /** The most connections that one store may use, where it uses connections. */
  readonly connections: number
}

/** A fresh database with a store on it, and with three business tables: `effects`, `uniques` and `counters`. */
export interface TestDatabase<Tx, Own = Tx> {
  readonly store: Store<Tx, Own>
  /** Another, independent store on the same database. */
  another(): Promise<Store<Tx, Own>>

  /** Another store whose handlers have only so many connections. Its control statements use their own, if the store supports it. */
  pooled(connections: number): Promise<PooledStore<Tx, Own>>

  /** Writes a row into `effects` through a transaction. */
  effect(tx: Tx | Own, label: string): Promise<unknown>
  /** The labels of the committed rows of `effects`, read without the store. */
  effects(): Promise<readonly string[]>
  /** Writes a row into `uniques`; a second one with the same label breaks its unique key. */
  unique(tx: Tx, label: string): Promise<unknown>
  /** Runs a statement that fails. */
  breakStatement(tx: Tx): Promise<unknown>
  /** Updates row 1 or 2 of `counters`, which locks it until the transaction ends. */
  lockRow(tx: Tx, row: 1 | 2): Promise<unknown>
  /** Starts something on the transaction's connection that does not end on its own and cannot be awaited. */
  leaveOpen(tx: Tx): unknown
  /** Commits through the handler's transaction, as a careless handler would. */
  commitInside(tx: Tx): Promise<unknown>
  /** Rolls back through the handler's transaction. */
  rollbackInside(tx: Tx): Promise<unknown>
  /** Runs `work` in a savepoint and rolls it back. */
  undone(tx: Tx, work: () => Promise<unknown>): Promise<unknown>
  /** Sets a savepoint, goes back to it, or releases it. */
  savepoint(tx: Tx, what: 'savepoint' | 'rollback to savepoint' | 'release savepoint', name: string): Promise<unknown>

  /** Runs `work` in a transaction that the user opened; commits it unless `work` rejects. */
  own<T>(work: (tx: Own) => Promise<T>): Promise<T>
  /** Runs `work` with a client on which no transaction was begun. */
  notBegun<T>(work: (tx: Own) => Promise<T>): Promise<T>

  /** The ids in the outbox in seq order, read without the store. */
  outbox(): Promise<readonly string[]>
  /** Makes the next rows of inbox and failed store have at least this seq. */
  setSeq(seq: string): Promise<unknown>
  /** Sets one timestamp on all rows of failed, effects and audit, as if everything had happened within one millisecond. */
  sameTime(): Promise<unknown>
  /** Changes the recorded checksum of the first migration, as if another version had applied it. */
  drift(): Promise<unknown>
  /** Records an unknown migration of a newer version, compatible with the given schema version and later. */
  newer(compatibleFrom: number): Promise<unknown>
  /** Simulates a step back of the database clock by shifting all timestamps into the future. */
  setBack(ms: number): Promise<unknown>
  /** The server of the database, where there is one. */
  readonly server?: TestServer<Tx>
  /** What is beneath the store, where it was given a connection. */
  readonly beneath?: TestConnection<Tx, Own>
  /** Runs `work` in a transaction of the ORM inside of a transaction: undone alone if `work` rejects. */
  nested?<T>(tx: Tx, work: (inner: Tx) => Promise<T>): Promise<T>
  /** Runs a statement of data definition, where that commits. */
  define?(tx: Tx): Promise<unknown>

  /** Closes the stores and removes the database. */
  close(): Promise<void>
}

/** The sessions of the stores under test, as the server has them. */
export interface TestServer<Tx> {
  /** Ends the session of a transaction; resolves when it is gone. */
  end(tx: Tx): Promise<void>
  /** The isolation level that the server has for a transaction, in small letters. */
  isolation(tx: Tx): Promise<string>
  /** How many sessions there are, and how many of them are in a transaction. */
  sessions(): Promise<{ readonly open: number; readonly inTransaction: number }>
}

/** A connection, and the business table `shapes (id, label, bytes, big)`, which nothing else uses. */
export interface TestConnection<Tx, Own = Tx> {
  readonly connection: Connection<Tx, Own>
  readonly table: string
  /** The placeholder of the n-th value, from 1. */
  value(n: number): string
}

/** A store on a pool that can be exhausted. */
export interface PooledStore<Tx, Own = Tx> {
  readonly store: Store<Tx, Own>
  /** Takes all connections of the handlers, as a leak would; resolves with a function that gives them back. */
  useUp(): Promise<() => void>
}

/** How the suite reaches a store. Members that `features.cannot` excludes are never called. */
export interface StoreHarness<Tx, Own = Tx> {
  readonly features: HarnessFeatures
  open(options: OpenOptions): Promise<TestDatabase<Tx, Own>>
}
