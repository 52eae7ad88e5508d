// Lets a store work through TypeORM, with `pg` or `mysql2`.

import { expected, fieldOf, heard, heardPool, type Taking } from '../base/index.ts'
import type { ConnectionSource, Param, Result, SqlDatabase, Statement } from '../contracts/index.ts'
import { amongConnections, type Orm, OrmConnection } from './kit/index.ts'

/** The subset of a data source of TypeORM that hapax needs; `Tx` is its own type of transactions, the entity manager. */
export interface TypeormDataSource<Tx> {
  transaction<T>(isolation: never, work: (tx: Tx) => Promise<T>): Promise<T>
  createQueryRunner(): unknown
}

/**
 * Lets a store work through TypeORM: `postgres(fromTypeorm(dataSource))` or `mysql(fromTypeorm(dataSource), { database })`. The data source has
 * to be initialized. `ctx.tx` and `publish` then take the entity managers of its transactions. Not for SQLite, where all transactions of
 * TypeORM share one connection and one entity manager.
 */
export function fromTypeorm<Tx extends object>(dataSource: TypeormDataSource<Tx>): ConnectionSource<Tx> {
  if (!isDataSource(dataSource)) expected('dataSource', 'a DataSource of TypeORM', dataSource)
  return { on: (database) => new OrmConnection(ormOn(database, dataSource)) }
}

// What hapax calls, as it calls it.

interface QueryRunner {
  query(text: string, values: readonly Param[], structured: true): Promise<unknown>
  release(): Promise<void>
}

interface DataSource<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  transaction<T>(isolation: string, work: (tx: Tx) => Promise<T>): Promise<T>
  createQueryRunner(): QueryRunner
}

function ormOn<Tx extends object>(on: SqlDatabase, dataSource: DataSource<Tx>): Orm<Tx> {
  const database = assertOn(on, dataSource)
  const pool = fieldOf(fieldOf(dataSource, 'driver'), database === 'postgres' ? 'master' : 'pool')
  return {
    name: 'typeorm',
    database,
    features: { lateUse: 'refused' },
    transaction: (work, isolation) =>
      isolation === undefined ? dataSource.transaction(work) : dataSource.transaction(isolation.toUpperCase(), work),
    run: (tx, statement) =>
      tx === undefined ? alone(dataSource.createQueryRunner(), statement) : sent(runnerOf(tx), statement),
    isTransaction: (tx): tx is Tx => fieldOf(fieldOf(tx, 'queryRunner'), 'isTransactionActive') === true,
    isQueryError: (error) => fieldOf(error, 'name') === 'QueryFailedError' || isReleased(error),
    isOver: (error) => isReleased(fieldOf(error, 'cause')),
    asOfDriver,
    queue: clientOf,
    counts: true,
    isNested: (tx) => Number(fieldOf(runnerOf(tx), 'transactionDepth')) > 1,
    client: { ...amongConnections(database, () => []), of: clientOf },
    taking: () => takingFrom(database, pool),
    listen: () => {
      if (isEmitter(pool)) heardPool(database === 'postgres' ? heard(pool) : pool)
    },
  }
}

function takingFrom(database: 'postgres' | 'mysql', pool: unknown): Taking | undefined {
  return isEmitter(pool) ? { pool, method: database === 'postgres' ? 'connect' : 'getConnection' } : undefined
}

/** TypeORM gives a connection up as soon as it breaks, and then refuses all statements. */
function isReleased(error: unknown): boolean {
  return /AlreadyReleasedError$/.test(String(fieldOf(error, 'name')))
}

function asOfDriver(error: unknown): unknown {
  if (!isReleased(error)) return error
  return Object.assign(new Error('the connection was lost', { cause: error }), { code: 'ECONNRESET' })
}

/** One statement outside of a transaction. */
async function alone(runner: QueryRunner, statement: Statement): Promise<Result> {
  try {
    return await sent(runner, statement)
  } finally {
    await runner.release()
  }
}

async function sent(runner: QueryRunner, { text, params }: Statement): Promise<Result> {
  const answer = await runner.query(text, [...params], true).catch((error: unknown) => {
    throw asOfDriver(error)
  })
  const records = fieldOf(answer, 'records')
  const rows = Array.isArray(records) ? records : []
  return { rows, affected: Number(fieldOf(answer, 'affected') ?? rows.length) }
}

function clientOf(tx: object): object | undefined {
  const client = fieldOf(fieldOf(tx, 'queryRunner'), 'databaseConnection')
  return typeof client === 'object' && client !== null ? client : undefined
}

function runnerOf(tx: unknown): QueryRunner {
  const runner = fieldOf(tx, 'queryRunner')
  return isRunner(runner) ? runner : expected('tx', 'an entity manager of a transaction of TypeORM', tx)
}

function isRunner(value: unknown): value is QueryRunner {
  return typeof fieldOf(value, 'query') === 'function' && typeof fieldOf(value, 'release') === 'function'
}

interface Emitter {
  on(event: 'error', listener: () => void): unknown
}

function isEmitter(value: unknown): value is Emitter {
  return typeof fieldOf(value, 'on') === 'function'
}

function isDataSource<Tx>(value: TypeormDataSource<Tx>): value is TypeormDataSource<Tx> & DataSource<Tx> {
  return (
    typeof fieldOf(value, 'transaction') === 'function' && typeof fieldOf(value, 'createQueryRunner') === 'function'
  )
}

const TYPES = { postgres: /^postgres$/, mysql: /^(mysql|mariadb)$/ }

function assertOn(database: SqlDatabase, dataSource: object): 'postgres' | 'mysql' {
  const type = fieldOf(fieldOf(dataSource, 'options'), 'type')
  if (database === 'sqlite') expected('dataSource', 'a DataSource of TypeORM for PostgreSQL, MariaDB or MySQL', type)
  if (typeof type === 'string' && !TYPES[database].test(type)) {
    expected('dataSource', `a DataSource of TypeORM for ${database}`, `one of the type ${type}`)
  }
  return database
}
