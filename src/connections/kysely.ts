// Lets a store work through Kysely, on any of its dialects for PostgreSQL, MySQL and SQLite.

import { expected, fieldOf, noOthers } from '../base/index.ts'
import type { ConnectionSource, SqlDatabase } from '../contracts/index.ts'
import {
  type KyselyExecutor,
  type Orm,
  OrmConnection,
  type PoolUnder,
  runAlone,
  runByKysely,
  runInside,
  underPool,
} from './kit/index.ts'

/** The subset of Kysely that hapax needs; `Tx` is its own type of transactions. */
export interface KyselyDatabase<Tx> {
  transaction(): KyselyTransactionBuilder<Tx>
  executeQuery(query: never): Promise<unknown>
  withoutPlugins(): object
}

/** What `db.transaction()` of Kysely returns. */
export interface KyselyTransactionBuilder<Tx> {
  setIsolationLevel(level: never): KyselyTransactionBuilder<Tx>
  execute<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/** Options of `fromKysely`. */
export interface KyselyOptions {
  /**
   * The pool of `pg` or `mysql2` under the database, which Kysely hides. hapax listens to its errors, so that a connection that breaks
   * inside a transaction does not end the process, finds statements that were not awaited, and destroys connections that it cannot
   * trust any more. @default none of that
   */
  readonly pool?: object
}

/**
 * Lets a store work through Kysely: `postgres(fromKysely(db, { pool }))`, `mysql(fromKysely(db, { pool }), { database })` or
 * `sqlite(fromKysely(db))`. `ctx.tx` and `publish` then take Kysely's own transactions. Plugins change the statements of handlers, and not
 * those of hapax.
 */
export function fromKysely<Tx extends object>(
  db: KyselyDatabase<Tx>,
  options: KyselyOptions = {},
): ConnectionSource<Tx> {
  if (!isDatabase(db)) expected('db', 'a Kysely database', db)
  if (fieldOf(db, 'isTransaction') === true) expected('db', 'a Kysely database', 'one of its transactions')
  noOthers('options of fromKysely', options, ['pool'])
  const under = options.pool === undefined ? undefined : underPool<Tx>(options.pool)
  if (options.pool !== undefined && under === undefined) expected('pool', 'a pool of pg or mysql2', options.pool)
  return { on: (database) => new OrmConnection({ ...ormOn(database, db), ...ofPool(under) }) }
}

function ofPool<Tx extends object>(under: PoolUnder<Tx> | undefined): Partial<Orm<Tx>> {
  if (under === undefined) return {}
  const { client, size, listen, taking } = under
  return { client, listen, taking: () => taking, features: { lateUse: 'refused', pool: size } }
}

/** What hapax calls, as it calls it. */
interface Executable {
  executeQuery(query: object): Promise<unknown>
  withoutPlugins(): Executable
  getExecutor(): KyselyExecutor
}

interface Builder<Tx> {
  setIsolationLevel(level: string): Builder<Tx>
  execute<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

interface Database<Tx> extends Executable {
  transaction(): Builder<Tx>
}

function isDatabase<Tx>(db: KyselyDatabase<Tx>): db is KyselyDatabase<Tx> & Database<Tx> {
  return isExecutable(db) && typeof fieldOf(db, 'transaction') === 'function'
}

function isExecutable(value: unknown): value is Executable {
  return ['executeQuery', 'withoutPlugins', 'getExecutor'].every(
    (method) => typeof fieldOf(value, method) === 'function',
  )
}

function ormOn<Tx extends object>(database: SqlDatabase, db: Database<Tx>): Orm<Tx> {
  assertOn(database, db)
  return {
    name: 'kysely',
    database,
    features: { lateUse: 'refused' },
    transaction: (work, isolation) => {
      const builder = db.transaction()
      // SQLite has one level, and Kysely's driver for it refuses to set any.
      const at = isolation === undefined || database === 'sqlite' ? builder : builder.setIsolationLevel(isolation)
      return at.execute(work)
    },
    run: async (tx, statement) =>
      tx === undefined
        ? runAlone(db.withoutPlugins().getExecutor(), statement)
        : runByKysely(executable(tx).withoutPlugins(), statement),
    runOwn: (tx, statement) => runInside(tx, executable(tx).getExecutor(), statement),
    ordered: true,
    refusesEnded: true,
    isTransaction: (tx): tx is Tx => isExecutable(tx) && fieldOf(tx, 'isTransaction') === true,
    // Kysely passes on the errors of the driver as they are.
    isQueryError: () => true,
    isOver: (error) => /^Transaction is already (committed|rolled back)/.test(String(fieldOf(error, 'message'))),
  }
}

/** Names as Kysely has them; a dialect of somebody else's may have any other name, and is believed. */
const ADAPTERS: Readonly<Record<string, SqlDatabase | undefined>> = {
  PostgresAdapter: 'postgres',
  MysqlAdapter: 'mysql',
  SqliteAdapter: 'sqlite',
}

function assertOn(database: SqlDatabase, db: object): void {
  const getExecutor = fieldOf(db, 'getExecutor')
  const executor: unknown = typeof getExecutor === 'function' ? getExecutor.call(db) : undefined
  const name = fieldOf(fieldOf(fieldOf(executor, 'adapter'), 'constructor'), 'name')
  const found = typeof name === 'string' ? ADAPTERS[name] : undefined
  if (found !== undefined && found !== database) expected('db', `a Kysely database for ${database}`, `one for ${found}`)
}

function executable(tx: unknown): Executable {
  return isExecutable(tx) ? tx : expected('tx', 'a transaction of Kysely', tx)
}
