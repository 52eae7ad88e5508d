// Lets a store work through Knex, with `pg`, `mysql2` or `better-sqlite3`.

import { expected, fieldOf } from '../base/index.ts'
import type { ConnectionSource, Result, SqlDatabase, Statement } from '../contracts/index.ts'
import { amongConnections, type Orm, OrmConnection, sizeOf } from './kit/index.ts'

/** The subset of Knex that hapax needs; `Tx` is its own type of transactions. */
export interface KnexDatabase<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: never): Promise<T>
  raw: (text: never, bindings: never) => unknown
}

/**
 * Lets a store work through Knex: `postgres(fromKnex(knex))`, `mysql(fromKnex(knex), { database })` or `sqlite(fromKnex(knex))`. `ctx.tx` and
 * `publish` then take Knex's own transactions. A `postProcessResponse` that renames columns is refused at the start.
 */
export function fromKnex<Tx extends object>(knex: KnexDatabase<Tx>): ConnectionSource<Tx> {
  if (!isDatabase(knex)) expected('knex', 'a Knex instance', knex)
  if (fieldOf(knex, 'isTransaction') === true) expected('knex', 'a Knex instance', 'one of its transactions')
  return { on: (database) => new OrmConnection(ormOn(database, knex)) }
}

/** What hapax calls, as it calls it. */
interface Raw {
  raw(text: string, bindings: readonly unknown[]): PromiseLike<unknown>
}

interface Database<Tx> extends Raw {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: { isolationLevel: string }): Promise<T>
}

function isDatabase<Tx>(knex: KnexDatabase<Tx>): knex is KnexDatabase<Tx> & Database<Tx> {
  return isRaw(knex) && typeof fieldOf(knex, 'transaction') === 'function'
}

function isRaw(value: unknown): value is Raw {
  return typeof fieldOf(value, 'raw') === 'function'
}

function ormOn<Tx extends object>(database: SqlDatabase, knex: Database<Tx>): Orm<Tx> {
  const client = fieldOf(knex, 'client')
  assertOn(database, client)
  const pool = fieldOf(client, 'pool')
  const orm: Orm<Tx> = {
    name: 'knex',
    database,
    features: { lateUse: 'refused', pool: database === 'sqlite' ? undefined : sizeOf(fieldOf(pool, 'max')) },
    transaction: (work, isolation) => {
      // SQLite has one level, and Knex refuses to set any.
      const config = isolation === undefined || database === 'sqlite' ? undefined : { isolationLevel: isolation }
      return knex.transaction(work, config)
    },
    run: async (tx, statement) => {
      const { text, params } = database === 'postgres' ? withQuestionMarks(statement) : statement
      return toResult(await raw(tx ?? knex).raw(text, params))
    },
    isTransaction: (tx): tx is Tx => isRaw(tx) && fieldOf(tx, 'isTransaction') === true,
    // It takes a transaction for completed as soon as it has sent COMMIT or ROLLBACK.
    ordered: true,
    // Knex passes on the errors of the driver, with the statement in front of their messages.
    isQueryError: () => true,
    isOver: (error) => /Transaction query already complete/.test(String(fieldOf(error, 'message'))),
  }
  if (database === 'sqlite') return orm
  // Knex listens to the errors of its connections itself.
  const taking = isObject(client) ? { pool: client, method: 'acquireConnection' } : undefined
  return { ...orm, taking: () => taking, client: amongConnections(database, () => usedOf(pool)) }
}

const CLIENTS: Readonly<Record<SqlDatabase, RegExp>> = {
  postgres: /^(pg|postgres|postgresql|pgnative|redshift|cockroachdb)$/,
  mysql: /^(mysql2?|mariadb)$/,
  sqlite: /^(better-sqlite3|sqlite3?|node-sqlite)$/,
}

function assertOn(database: SqlDatabase, client: unknown): void {
  const name = fieldOf(fieldOf(client, 'config'), 'client')
  if (typeof name === 'string' && !CLIENTS[database].test(name)) {
    expected('knex', `a Knex instance for ${database}`, `one with the client ${name}`)
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function raw(value: unknown): Raw {
  return isRaw(value) ? value : expected('tx', 'a transaction of Knex', value)
}

/** The connections of its pool, `tarn`, that are in use. */
function usedOf(pool: unknown): unknown {
  const used = fieldOf(pool, 'used')
  return Array.isArray(used) ? used.map((each) => fieldOf(each, 'resource')) : undefined
}

/** Knex has question marks for parameters on every database, and takes a backslash in front of those that are none. */
function withQuestionMarks({ text, params }: Statement): Statement {
  const order: number[] = []
  const written = text.replaceAll('?', '\\?').replace(/\$(\d+)/g, (_, digits: string) => {
    order.push(Number(digits) - 1)
    return '?'
  })
  return { text: written, params: order.map((index) => params[index] ?? null) }
}

/** Results come as the driver has them: of `pg`, of `mysql2` with the fields beside, of `better-sqlite3`. */
function toResult(answer: unknown): Result {
  const first: unknown = Array.isArray(answer) && isPair(answer) ? answer[0] : answer
  const rows = Array.isArray(first) ? first : fieldOf(first, 'rows')
  if (Array.isArray(rows)) return { rows, affected: rows.length > 0 ? rows.length : countOf(first) }
  return { rows: [], affected: countOf(first) }
}

/** What `mysql2` returns: rows or a header, and the fields. */
function isPair(answer: readonly unknown[]): boolean {
  const [first, fields] = answer
  const isHeader = fieldOf(first, 'affectedRows') !== undefined
  return answer.length === 2 && (isHeader || (Array.isArray(first) && (fields === undefined || Array.isArray(fields))))
}

function countOf(answer: unknown): number {
  return Number(fieldOf(answer, 'rowCount') ?? fieldOf(answer, 'affectedRows') ?? fieldOf(answer, 'changes') ?? 0)
}
