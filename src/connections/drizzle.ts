// Lets a store work through Drizzle: each driver under it has its own form of results, and of statements as text.

import { describe, expected, fieldOf, HapaxError } from '../base/index.ts'
import type { ConnectionSource, Result, SqlDatabase, Statement } from '../contracts/index.ts'
import { drizzleOnSqlite } from './kit/drizzle-sqlite.ts'
import { type Orm, OrmConnection, underPool } from './kit/index.ts'

/** The subset of Drizzle's `sql` that hapax needs. */
export interface DrizzleSql {
  raw(text: string): unknown
  param(value: unknown): unknown
  join(chunks: never[]): unknown
}

/** The subset of a Drizzle database; `Tx` is its own type of transactions. */
export interface DrizzleDatabase<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: never): Promise<T>
}

/**
 * Lets a store work through Drizzle: `postgres(fromDrizzle(db, sql))`, with `db` from `drizzle-orm/node-postgres` and
 * `sql` from `drizzle-orm`; `mysql(fromDrizzle(db, sql), { database })`, with `db` from `drizzle-orm/mysql2`; or
 * `sqlite(fromDrizzle(db, sql))`, with `db` from `drizzle-orm/better-sqlite3` or `drizzle-orm/libsql`. `ctx.tx` is Drizzle's own transaction,
 * and `publish` takes those that Drizzle opens, except on better-sqlite3, where they are synchronous.
 */
export function fromDrizzle<Tx extends object>(db: DrizzleDatabase<Tx>, sql: DrizzleSql): ConnectionSource<Tx> {
  if (!isDatabase(db)) expected('db', 'a Drizzle database', db)
  if (!isSql(sql)) expected('sql', `the sql of 'drizzle-orm'`, sql)
  return {
    on: (database) => (database === 'sqlite' ? drizzleOnSqlite<Tx>(db) : new OrmConnection(ormOn(database, db, sql))),
  }
}

// What hapax calls, as it calls it. The interfaces above leave the types of parameters open, so that they fit every version of Drizzle.

interface Sql {
  raw(text: string): object
  param(value: unknown): object
  join(chunks: object[]): object
}

interface Queryable {
  execute(query: object): PromiseLike<unknown>
}

interface Database<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: { isolationLevel: string }): Promise<T>
}

/** What differs between the drivers under Drizzle. */
interface Driver {
  /** What `db` has to be. */
  readonly expected: string
  /** Whether Drizzle takes a client of its own for every transaction. On a single client, two concurrent transactions would be one. */
  isPool(client: unknown): boolean
  /** The chunks of a statement with values. */
  chunks(sql: Sql, statement: Statement): object[]
  /** The rows of an answer, and how many rows were written; undefined: it is none of this driver's. */
  result(answer: unknown): Result | undefined
  /** The method of the pool by which Drizzle takes a client, and that of the client which ends it and gives its place back. */
  readonly connect: string
  readonly discard: string
  /** The driver's client, given what Drizzle holds. */
  client(held: unknown): unknown
}

const NODE_POSTGRES: Driver = {
  expected: 'a Drizzle database on a Pool of pg, not on a single client',
  connect: 'connect',
  // With `true`.
  discard: 'release',
  isPool,
  chunks: (sql, { text, params }) =>
    text.split(/\$(\d+)/).map((part, index) => (index % 2 === 0 ? sql.raw(part) : sql.param(params[Number(part) - 1]))),
  result: (answer) => {
    const result: unknown = Array.isArray(answer) ? answer.at(-1) : answer
    const rows = fieldOf(result, 'rows')
    return Array.isArray(rows) ? { rows, affected: Number(fieldOf(result, 'rowCount') ?? 0) } : undefined
  },
  client: (held) => held,
}

const MYSQL2: Driver = {
  expected: 'a Drizzle database on a pool of mysql2, not on a single connection',
  connect: 'getConnection',
  discard: 'destroy',
  // By the same test as in Drizzle.
  isPool: (client) => has(client, ['getConnection']),
  chunks: (sql, { text, params }) =>
    text
      .split('?')
      .flatMap((part, index) => (index === 0 ? [sql.raw(part)] : [sql.param(params[index - 1]), sql.raw(part)])),
  result: (answer) => {
    const result: unknown = Array.isArray(answer) ? answer[0] : undefined
    if (Array.isArray(result)) return { rows: result, affected: result.length }
    const affected = fieldOf(result, 'affectedRows')
    return affected === undefined ? undefined : { rows: [], affected: Number(affected) }
  },
  // The connection in callback style that a promise connection wraps.
  client: (held) => fieldOf(held, 'connection'),
}

function ormOn<Tx extends object>(database: SqlDatabase, db: Database<Tx>, sql: Sql): Orm<Tx> {
  const driver = database === 'mysql' ? MYSQL2 : NODE_POSTGRES
  const pool = fieldOf(db, '$client')
  const under = underPool<Tx>(pool)
  if (database === 'sqlite' || under === undefined || !driver.isPool(pool)) expected('db', driver.expected, pool)
  const clientOf = (tx: Tx): object | undefined => asObject(driver.client(fieldOf(fieldOf(tx, 'session'), 'client')))
  const resultOf = (answer: unknown): Result => driver.result(answer) ?? unsupported(driver, answer)
  return {
    name: 'drizzle',
    database,
    features: { lateUse: 'partly refused' },
    transaction: (work, isolation) => givenBack(db, driver, work, isolation && { isolationLevel: isolation }),
    run: async (tx, statement) => resultOf(await queryable(tx ?? db).execute(compiled(driver, sql, statement))),
    ...(database === 'postgres' && {
      runText: async (tx: Tx, texts: readonly string[]) => {
        const answer = await queryable(tx).execute(sql.raw(texts.join(';')))
        return Array.isArray(answer) ? answer.map(resultOf) : unsupported(driver, answer)
      },
    }),
    isTransaction: (tx): tx is Tx => isQueryable(tx),
    isQueryError,
    queue: clientOf,
    client: { ...under.client, of: clientOf },
    listen: under.listen,
    taking: () => under.taking,
  }
}

/**
 * A transaction of Drizzle's that gives its client back in any case: Drizzle itself keeps one on which BEGIN has failed, and the pool would be
 * one short for good. `db` is replaced by one that takes its client where hapax can see it, and is the same otherwise.
 */
async function givenBack<Tx, T>(
  db: Database<Tx>,
  { connect, discard }: Driver,
  work: (tx: Tx) => Promise<T>,
  config: { isolationLevel: string } | undefined,
): Promise<T> {
  const session = asObject(fieldOf(db, 'session'))
  const pool = asObject(fieldOf(session, 'client'))
  if (session === undefined || pool === undefined) return db.transaction(work, config)
  let kept: unknown
  const take = async (): Promise<unknown> => {
    kept = await method(pool, connect).call(pool)
    return kept
  }
  const seen = derived(db, { session: derived(session, { client: derived(pool, { [connect]: take }) }) })
  const steps = (tx: Tx): Promise<T> => {
    kept = undefined
    return work(tx)
  }
  try {
    return await seen.transaction(steps, config)
  } catch (error) {
    if (kept !== undefined) method(kept, discard).call(kept, true)
    throw error
  }
}

/** The same object but for some fields. */
function derived<T extends object>(from: T, fields: object): T {
  return Object.create(from, Object.getOwnPropertyDescriptors(fields))
}

function method(of: unknown, name: string): (...args: unknown[]) => unknown {
  const found: unknown = fieldOf(of, name)
  return isFunction(found) ? found : expected('db', `a Drizzle database whose clients have ${name}()`, of)
}

function isFunction(value: unknown): value is (...args: unknown[]) => unknown {
  return typeof value === 'function'
}

function compiled(driver: Driver, sql: Sql, statement: Statement): object {
  return statement.params.length === 0 ? sql.raw(statement.text) : sql.join(driver.chunks(sql, statement))
}

function asObject(value: unknown): object | undefined {
  return typeof value === 'object' && value !== null ? value : undefined
}

function isSql(sql: DrizzleSql): sql is DrizzleSql & Sql {
  return has(sql, ['raw', 'param', 'join'])
}

function isDatabase<Tx>(db: DrizzleDatabase<Tx>): db is DrizzleDatabase<Tx> & Database<Tx> {
  return has(db, ['transaction'])
}

function isQueryable(tx: unknown): tx is Queryable {
  return has(tx, ['execute'])
}

function queryable(tx: unknown): Queryable {
  return isQueryable(tx) ? tx : expected('tx', 'a transaction of Drizzle', tx)
}

function has(value: unknown, methods: readonly string[]): boolean {
  return methods.every((method) => typeof fieldOf(value, method) === 'function')
}

/** By the same test as in Drizzle. */
function isPool(client: unknown): boolean {
  for (let each = client; typeof each === 'object' && each !== null; each = Object.getPrototypeOf(each)) {
    if (/Pool/.test(each.constructor?.name)) return true
  }
  return false
}

/** Whether an error came from a Drizzle statement, perhaps wrapped by the handler. */
function isQueryError(error: unknown): boolean {
  for (let each = error, depth = 0; depth < 5; each = fieldOf(each, 'cause'), depth++) {
    if (typeof fieldOf(each, 'query') === 'string' && Array.isArray(fieldOf(each, 'params'))) return true
  }
  return false
}

function unsupported(driver: Driver, answer: unknown): never {
  throw new HapaxError(
    'invalid-option',
    `expected db to be ${driver.expected}, got answers that are ${describe(answer)}`,
  )
}
