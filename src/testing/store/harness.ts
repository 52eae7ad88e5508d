import type { Store, StoreFeatures } from '../../contracts/index.ts'

/** What some cases need beyond the contract of a store; `cannot` says why one of them is not to be had. */
export type Need =
  /** A second store on the same database, as another process would have it. */
  | 'another store'
  /** COMMIT and ROLLBACK through the handler's transaction. */
  | 'ending the transaction'
  /** Savepoints in the handler's transaction. */
  | 'savepoints'
  /** Rows that two transactions can lock against each other. */
  | 'row locks'
  /** A schema that has to be made first. */
  | 'migrations'
  /** Moving the counter behind `seq`. */
  | 'setting seq'
  /** Connections that somebody can use up. */
  | 'a pool'
  /** Noticing errors of the handler's statements that it swallows. */
  | 'watched statements'
  /** Statements that go on while the handler does something else. */
  | 'something left open'

/** The features of a store under test. */
export interface HarnessFeatures extends StoreFeatures {
  /** Whether an SQL error dooms the transaction it happened in, even if it is caught. */
  readonly errorsAbort: boolean
  /** What this store cannot do, each with the reason. */
  readonly cannot: Readonly<Partial<Record<Need, string>>>
}

/** How a database is opened for one case. */
export interface OpenOptions {
  /** Whether the tables are there already. */
  readonly migrated: boolean
  /** The most connections that one store may use, where it uses connections. */
  readonly connections: number
}

/** A fresh database with a store on it. It also has two business tables of its own, `effects` and `uniques`, and `counters`. */
export interface TestDatabase<Tx, Own = Tx> {
  readonly store: Store<Tx, Own>
  /** Another, independent store on the same database. */
  another(): Promise<Store<Tx, Own>>

  /** Another store, whose handlers have these few connections, and whose control work has its own where that is possible. */
  pooled(connections: number): Promise<PooledStore<Tx, Own>>

  /** Writes a row into `effects` through a transaction. */
  effect(tx: Tx | Own, label: string): Promise<unknown>
  /** The labels of the rows of `effects` that are committed, read past the store. */
  effects(): Promise<readonly string[]>
  /** Writes a row into `uniques`; a second one with the same label breaks its unique key. */
  unique(tx: Tx, label: string): Promise<unknown>
  /** Runs a statement that fails. */
  breakStatement(tx: Tx): Promise<unknown>
  /** Updates row 1 or 2 of `counters`, which locks it until the transaction ends. */
  lockRow(tx: Tx, row: 1 | 2): Promise<unknown>
  /** Starts something on the transaction's connection that does not end by itself, and that nobody can await. */
  leaveOpen(tx: Tx): unknown
  commitInside(tx: Tx): Promise<unknown>
  rollbackInside(tx: Tx): Promise<unknown>
  /** Runs `work` in a savepoint, and undoes it. */
  undone(tx: Tx, work: () => Promise<unknown>): Promise<unknown>

  /** Runs `work` in a transaction that the user opened; commits it unless `work` rejects. */
  own<T>(work: (tx: Own) => Promise<T>): Promise<T>
  /** Runs `work` with what would be a transaction of the user's own, had it been begun. */
  notBegun<T>(work: (tx: Own) => Promise<T>): Promise<T>

  /** The ids in the outbox, in the order of seq, read past the store. */
  outbox(): Promise<readonly string[]>
  /** The next rows of inbox and failed have at least this seq. */
  setSeq(seq: string): Promise<unknown>
  /** Changes the checksum of the first migration, as if it had been another one. */
  drift(): Promise<unknown>
  /** Closes the stores and removes the database. */
  close(): Promise<void>
}

/** A store on a pool that can be used up. */
export interface PooledStore<Tx, Own = Tx> {
  readonly store: Store<Tx, Own>
  /** Takes all connections of the handlers, as somebody does who never gives them back; resolves with what gives them back. */
  useUp(): Promise<() => void>
}

/** How the suite reaches a store. Members that `features.cannot` rules out are never called. */
export interface StoreHarness<Tx, Own = Tx> {
  readonly features: HarnessFeatures
  open(options: OpenOptions): Promise<TestDatabase<Tx, Own>>
}
