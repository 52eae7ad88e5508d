// Transactions by better-sqlite3. One handle is one connection, and a transaction of hapax's stays open while its handler waits for other
// things: whatever the application ran on the same handle meanwhile would be part of it, and be undone with it. So hapax opens the file a
// second time.

import { describe, expected, fieldOf } from '../../base/index.ts'
import type { DoomOf, Row } from '../../contracts/index.ts'
import {
  BUSY_TIMEOUT_MS,
  type Lending,
  OpenedFile,
  prepareFile,
  queueOf,
  type SyncClient,
  SyncDatabase,
  type SyncDriver,
  type SyncStatement,
  SyncTransaction,
} from '../../stores/sql/index.ts'

/** The subset of a database of better-sqlite3 that hapax needs. */
export interface BetterSqlite3Database {
  readonly name: string
  readonly open: boolean
  readonly readonly: boolean
  readonly inTransaction: boolean
  prepare(source: string): unknown
  pragma(source: string): unknown
  close(): unknown
}

/** What handlers receive in place of the connection itself. */
export interface BetterView<Db, Tx> {
  readonly name: string
  /** Makes the handler's transaction of a connection that ends with it. */
  of(client: Db, isClosed: () => boolean): Tx
  /** The object by which a transaction is known: all that a handler may derive from it leads there. */
  key(tx: unknown): unknown
}

/** Opens connections of hapax's own to the file of the user's. */
export class BetterDriver<Db extends BetterSqlite3Database, Tx> implements SyncDriver<Tx, BetterClient<Db>> {
  readonly name: string
  readonly #view: BetterView<Db, Tx>
  readonly #open: () => Db
  readonly #known = new WeakMap<object, SyncTransaction<Tx>>()

  constructor(open: () => Db, view: BetterView<Db, Tx>) {
    this.name = view.name
    this.#open = open
    this.#view = view
  }

  open(): SyncDatabase<BetterClient<Db>> {
    const db = this.#open()
    try {
      const path = fileOf(db)
      prepareFile(path)
      db.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`)
      db.pragma('journal_mode = wal')
      if (pragma(db, 'journal_mode') !== 'wal') expected('db', 'on a disk where SQLite can use WAL', path)
      db.pragma('synchronous = full')
      return new SyncDatabase(new BetterClient(db), queueOf(path), new OpenedFile(path))
    } catch (error) {
      db.close()
      throw error
    }
  }

  begun(database: SyncDatabase<BetterClient<Db>>, doomOf: DoomOf): SyncTransaction<Tx> {
    const transaction = new BetterTransaction(database, doomOf, this.#view)
    const key = this.#view.key(transaction.tx)
    if (isObject(key)) this.#known.set(key, transaction)
    return transaction
  }

  of(tx: unknown): SyncTransaction<Tx> | undefined {
    const key = this.#view.key(tx)
    return isObject(key) ? this.#known.get(key) : undefined
  }

  describe(tx: unknown): string {
    if (!isObject(tx)) return describe(tx)
    return 'another one: those that better-sqlite3 opens are synchronous, so publish inside hapax.transaction, whose tx has the same type'
  }
}

/** What opens the user's file once more. */
export function reopening<Db extends BetterSqlite3Database>(db: Db): () => Db {
  if (!isBetterSqlite3(db) || !db.open) expected('db', 'an open database of better-sqlite3', db)
  if (db.readonly) expected('db', 'a database that can be written', 'one that is read-only')
  const path = fileOf(db)
  // A URI may have parameters.
  const name = db.name.trim().startsWith('file:') ? db.name : path
  return () => {
    const own = Reflect.construct(db.constructor, [name, { timeout: BUSY_TIMEOUT_MS }])
    // Some applications turn them off, and handlers expect what the application has.
    if (db.open) own.pragma(`foreign_keys = ${pragma(db, 'foreign_keys')}`)
    return own
  }
}

export function isBetterSqlite3(db: unknown): db is BetterSqlite3Database {
  const methods = ['prepare', 'pragma', 'exec', 'close'].every((method) => typeof fieldOf(db, method) === 'function')
  return methods && typeof fieldOf(db, 'inTransaction') === 'boolean' && typeof fieldOf(db, 'name') === 'string'
}

/** The file under a handle, as SQLite knows it. */
function fileOf(db: BetterSqlite3Database): string {
  const list = db.pragma('database_list')
  const main: unknown = Array.isArray(list) ? list.find((row) => fieldOf(row, 'name') === 'main') : undefined
  const file = fieldOf(main, 'file')
  if (typeof file === 'string' && file !== '') return file
  return expected(
    'db',
    'a database in a file, which hapax can open as well; for tests, in a temporary one',
    'one in memory',
  )
}

function pragma(db: BetterSqlite3Database, name: string): unknown {
  const rows = db.pragma(name)
  return Array.isArray(rows) ? fieldOf(rows[0], name) : undefined
}

interface Statement {
  readonly reader: boolean
  safeIntegers(on: boolean): unknown
  all(...values: unknown[]): readonly Row[]
  run(...values: unknown[]): { readonly changes: number }
}

function isStatement(statement: unknown): statement is Statement {
  return typeof fieldOf(statement, 'reader') === 'boolean'
}

class BetterClient<Db extends BetterSqlite3Database> implements SyncClient {
  readonly db: Db

  constructor(db: Db) {
    this.db = db
  }

  get inTransaction(): boolean {
    return this.db.inTransaction
  }

  get isOpen(): boolean {
    return this.db.open
  }

  prepare(text: string): SyncStatement {
    const statement = this.db.prepare(text)
    if (!isStatement(statement)) return expected('db', 'a database of better-sqlite3', this.db)
    statement.safeIntegers(false)
    return {
      hasRows: statement.reader,
      all: (values) => statement.all(...values.map(whole)),
      run: (values) => statement.run(...values.map(whole)).changes,
    }
  }

  close(): void {
    this.db.close()
  }
}

/** The driver binds every number as a floating-point one: 1 would be written as 1.0 into a text. */
function whole(value: unknown): unknown {
  return Number.isSafeInteger(value) ? BigInt(Number(value)) : value
}

/** Members of the connection that would reach beyond the transaction. */
const NOT_LENT: ReadonlySet<string> = new Set(['close', 'backup', 'unsafeMode', 'defaultSafeIntegers'])

class BetterTransaction<Db extends BetterSqlite3Database, Tx> extends SyncTransaction<Tx> {
  readonly tx: Tx

  constructor(database: SyncDatabase<BetterClient<Db>>, doomOf: DoomOf, view: BetterView<Db, Tx>) {
    super(database, doomOf)
    const lending: Lending = {
      notLent: NOT_LENT,
      instead: {
        // An open cursor would outlive the transaction.
        iterate: (target) => (isStatement(target) ? (...args: unknown[]) => target.all(...args).values() : undefined),
        database: () => client,
        transaction: (target) => this.#nesting(target),
      },
    }
    const client: Db = this.lent(database.client.db, lending)
    this.tx = view.of(client, () => this.closed)
  }

  /** `db.transaction(…)`: a savepoint, because a transaction is open. */
  #nesting(db: object): unknown {
    const make: unknown = Reflect.get(db, 'transaction', db)
    if (typeof make !== 'function') return undefined
    return (work: unknown) => {
      const made: unknown = make.call(db, typeof work === 'function' ? synchronous(work) : work)
      const variant = (name: string): unknown => {
        const run: unknown = fieldOf(made, name)
        return typeof run === 'function' ? (...args: unknown[]) => this.call(() => run(...args)) : undefined
      }
      const [deferred, immediate, exclusive] = ['deferred', 'immediate', 'exclusive'].map(variant)
      return Object.assign(
        (...args: unknown[]) => this.call(() => (typeof made === 'function' ? made(...args) : made)),
        {
          ...{ deferred, immediate, exclusive },
        },
      )
    }
  }
}

/**
 * The driver refuses a function that returns a promise, but only after it was called: its body goes on, and would end the process when it
 * throws.
 */
// biome-ignore lint/complexity/noBannedTypes: whatever was passed
function synchronous(work: Function): (...args: unknown[]) => unknown {
  if (work.constructor.name === 'AsyncFunction') {
    throw new TypeError('expected the function of transaction to be synchronous: better-sqlite3 cannot wait for it')
  }
  return function (this: unknown, ...args) {
    const result: unknown = work.apply(this, args)
    if (typeof fieldOf(result, 'then') === 'function') Promise.resolve(result).catch(() => {})
    return result
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
