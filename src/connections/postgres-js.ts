// Lets a store work through postgres.js.

import { expected, fieldOf } from '../base/index.ts'
import type { Connection, Result } from '../contracts/index.ts'
import { causesOf } from '../stores/sql/index.ts'
import { lent } from './kit/handle.ts'
import { type Orm, OrmConnection, sizeOf, type Track } from './kit/index.ts'
import { inOwn, PostgresJsSession, type Sql, unlessStale } from './kit/postgres-js.ts'

/** The subset of `sql` of postgres.js that hapax needs; `Tx` is its own type of transactions. */
export interface PostgresJsSql<Tx> {
  begin(options: string, work: (tx: Tx) => Promise<unknown>): Promise<unknown>
  unsafe(text: string, values?: never): PromiseLike<unknown>
}

/**
 * Lets a store work through postgres.js: `postgres(fromPostgresJs(sql))`. `ctx.tx` and `publish` then take its own transactions, those
 * that `sql.begin` opens.
 */
export function fromPostgresJs<Tx extends object>(sql: PostgresJsSql<Tx>): Connection<Tx> {
  if (!isSql(sql)) expected('sql', 'the sql that postgres() of postgres.js returns', sql)
  return new OrmConnection<Tx>(ormOn(sql))
}

/** A transaction of hapax's, and what takes the handler's statements. */
interface Begun {
  readonly session: PostgresJsSession
  readonly track: Track
}

function ormOn<Tx extends object>(sql: Sql): Orm<Tx> {
  const begun = new WeakMap<object, Begun>()
  return {
    name: 'postgres.js',
    database: 'postgres',
    features: { lateUse: 'refused', pool: sizeOf(fieldOf(fieldOf(sql, 'options'), 'max')) },
    tracks: true,
    transaction: async (work, isolation, track) => {
      const text = isolation === undefined ? 'begin' : `begin isolation level ${isolation}`
      const session = await PostgresJsSession.begin(sql, text)
      begun.set(session.own, { session, track })
      let value: Awaited<ReturnType<typeof work>>
      try {
        value = await work(asTx<Tx>(session.own))
      } catch (error) {
        await session.rollback()
        throw error
      }
      await session.commit()
      return value
    },
    run: async (tx, { text, params }) => {
      if (tx === undefined) return toResult(await unlessStale(() => sql.unsafe(text, params)))
      const own = asTx<Pick<Sql, 'unsafe'>>(tx)
      return toResult(await (begun.has(tx) ? own.unsafe(text, params) : inOwn(own, text, params)))
    },
    isTransaction,
    isQueryError: (error) => [...causesOf(error)].some(isOfDriver),
    client: {
      of: (tx) => begun.get(tx)?.session.link,
      isBusy: (link) => sessionOf(link)?.isBusy === true,
      destroy: (link) => sessionOf(link)?.destroy(),
    },
    lend: (tx, isClosed) => {
      const { session, track } = begun.get(tx) ?? expected('tx', 'a transaction of postgres.js', tx)
      return lent(asTx<Tx>(session.handle({ isClosed, track })), isClosed)
    },
  }
}

function sessionOf(link: object): PostgresJsSession | undefined {
  const session = fieldOf(link, 'session')
  return session instanceof PostgresJsSession ? session : undefined
}

function isOfDriver(error: object): boolean {
  return fieldOf(error, 'name') === 'PostgresError' || /^CONNECT/.test(String(fieldOf(error, 'code')))
}

function isSql(sql: unknown): sql is Sql {
  const methods = ['begin', 'unsafe', 'file'].every((name) => typeof fieldOf(sql, name) === 'function')
  return typeof sql === 'function' && methods
}

/** What only a transaction has. */
function isTransaction<Tx>(tx: unknown): tx is Tx {
  return typeof tx === 'function' && ['unsafe', 'savepoint'].every((name) => typeof fieldOf(tx, name) === 'function')
}

function asTx<Tx>(tx: object): Tx {
  return isTransaction<Tx>(tx) ? tx : expected('tx', 'a transaction of postgres.js', tx)
}

/** Results are arrays of rows. */
function toResult(answer: unknown): Result {
  if (!Array.isArray(answer)) return expected('sql', 'postgres.js, whose results are arrays', answer)
  return { rows: [...answer], affected: Number(fieldOf(answer, 'count') ?? 0) }
}
