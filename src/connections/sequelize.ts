// Lets a store work through Sequelize 6, on PostgreSQL with `pg` and on MariaDB and MySQL with `mysql2`.

import { expected, fieldOf, heard } from '../base/index.ts'
import type { ConnectionSource, Param, Result, SqlDatabase } from '../contracts/index.ts'
import { amongConnections, type Orm, OrmConnection, sizeOf } from './kit/index.ts'

/** The subset of Sequelize that hapax needs; `Tx` is its own type of transactions. */
export interface SequelizeDatabase<Tx> {
  transaction(options?: never): Promise<Tx>
  query: (text: never, options: never) => unknown
  getDialect(): string
}

/**
 * Lets a store work through Sequelize: `postgres(fromSequelize(sequelize))` or `mysql(fromSequelize(sequelize), { database })`, the latter with
 * `dialectOptions: { flags: '+FOUND_ROWS' }`. `ctx.tx` and `publish` then take Sequelize's own transactions: pass `{ transaction: ctx.tx }` to every call.
 */
export function fromSequelize<Tx extends object>(sequelize: SequelizeDatabase<Tx>): ConnectionSource<Tx> {
  if (!isDatabase(sequelize)) expected('sequelize', 'a Sequelize instance', sequelize)
  return { on: (database) => new OrmConnection(ormOn(database, sequelize)) }
}

/** What hapax calls, as it calls it. */
interface Database<Tx> {
  transaction<T>(options: object, work: (tx: Tx) => Promise<T>): Promise<T>
  query(text: string, options: object): Promise<unknown>
  getDialect(): string
}

function isDatabase<Tx>(value: SequelizeDatabase<Tx>): value is SequelizeDatabase<Tx> & Database<Tx> {
  return ['transaction', 'query', 'getDialect'].every((method) => typeof fieldOf(value, method) === 'function')
}

const DIALECTS: Readonly<Record<SqlDatabase, string>> = { postgres: 'postgres', mysql: 'mysql', sqlite: 'sqlite' }

function ormOn<Tx extends object>(database: SqlDatabase, sequelize: Database<Tx>): Orm<Tx> {
  const dialect = sequelize.getDialect()
  if (dialect !== DIALECTS[database]) {
    expected('sequelize', `a Sequelize instance for ${database}`, `one with the dialect ${dialect}`)
  }
  if (database === 'sqlite') expected('sequelize', 'a Sequelize instance for PostgreSQL, MariaDB or MySQL', dialect)
  const options = fieldOf(sequelize, 'options')
  if (database === 'mysql') assertFoundRows(fieldOf(fieldOf(options, 'dialectOptions'), 'flags'))
  const pool = fieldOf(fieldOf(options, 'pool'), 'max')
  const manager = asObject(fieldOf(sequelize, 'connectionManager'))
  const { isBusy, destroy } = amongConnections<Tx>(database, () => undefined)
  return {
    name: 'sequelize',
    database,
    features: { lateUse: 'partly refused', pool: sizeOf(pool) },
    transaction: (work, isolation) =>
      sequelize.transaction(isolation === undefined ? {} : { isolationLevel: isolation.toUpperCase() }, (tx) => {
        listenTo(connectionOf(tx))
        return work(tx)
      }),
    run: async (tx, { text, params }) => {
      const values = params.map(bindable)
      // On MySQL, `bind` would prepare every statement; MariaDB cannot prepare all of them.
      const given = values.length === 0 ? {} : database === 'mysql' ? { replacements: values } : { bind: values }
      return toResult(await sequelize.query(text, { transaction: tx ?? null, raw: true, logging: false, ...given }))
    },
    isTransaction: (tx): tx is Tx => connectionOf(tx) !== undefined && fieldOf(tx, 'finished') === undefined,
    isQueryError: (error) =>
      fieldOf(error, 'sql') !== undefined || fieldOf(fieldOf(error, 'cause'), 'sql') !== undefined,
    isOver: (error) => /has been called on this transaction/.test(String(fieldOf(error, 'message'))),
    queue: connectionOf,
    client: { of: connectionOf, isBusy, destroy },
    taking: () => (manager === undefined ? undefined : { pool: manager, method: 'getConnection' }),
  }
}

/** Sequelize turns off what every other client of MySQL has on: an update that changes nothing would count no row. */
function assertFoundRows(flags: unknown): void {
  if (/(^|[^-A-Z_])FOUND_ROWS/.test(String(flags))) return
  expected('sequelize', `a Sequelize instance with dialectOptions: { flags: '+FOUND_ROWS' }`, flags)
}

function connectionOf(tx: unknown): object | undefined {
  return asObject(fieldOf(tx, 'connection'))
}

function asObject(value: unknown): object | undefined {
  return typeof value === 'object' && value !== null ? value : undefined
}

interface Emitter {
  on(event: 'error', listener: () => void): unknown
}

/** A connection that breaks inside a transaction must not end the process. */
function listenTo(connection: object | undefined): void {
  if (isEmitter(connection)) heard(connection)
}

function isEmitter(value: unknown): value is Emitter {
  return typeof fieldOf(value, 'on') === 'function'
}

function bindable(param: Param): unknown {
  return param instanceof Uint8Array ? Buffer.from(param.buffer, param.byteOffset, param.byteLength) : param
}

/** A list of two: rows, or the header of `mysql2`, and what the driver returned. */
function toResult(answer: unknown): Result {
  const [first, meta]: readonly unknown[] = Array.isArray(answer) ? answer : [answer]
  if (Array.isArray(first)) return { rows: first, affected: first.length > 0 ? first.length : countOf(meta) }
  return { rows: [], affected: countOf(first) || countOf(meta) }
}

function countOf(answer: unknown): number {
  return Number(
    fieldOf(answer, 'rowCount') ?? fieldOf(answer, 'affectedRows') ?? (typeof answer === 'number' ? answer : 0),
  )
}
