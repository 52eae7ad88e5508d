// Lets a store work through MikroORM 7, with `pg`, `mysql2` or `better-sqlite3`.

import { expected, fieldOf } from '../base/index.ts'
import type { ConnectionSource, SqlDatabase } from '../contracts/index.ts'
import {
  amongConnections,
  type Executable,
  type KyselyExecutor,
  type KyselySession,
  type Orm,
  OrmConnection,
  OVER,
  type PoolUnder,
  runByKysely,
  sizeOf,
  underPool,
} from './kit/index.ts'

/** The subset of an instance of MikroORM that hapax needs; `Tx` is its own type of entity managers. */
export interface MikroOrmInstance<Tx> {
  readonly em: Tx
  readonly config: object
}

/** The subset of its entity managers. */
export interface MikroOrmEntityManager {
  transactional(work: never, options?: never): Promise<unknown>
  fork(options?: never): object
  flush(): Promise<void>
}

/**
 * Lets a store work through MikroORM: `postgres(fromMikroOrm(orm))`, `mysql(fromMikroOrm(orm), { database })` or `sqlite(fromMikroOrm(orm))`.
 * `ctx.tx` is the entity manager of the transaction, and `publish` takes those of `em.transactional(…)` and `em.begin()`. Changes of entities
 * are flushed when the handler has ended.
 */
export function fromMikroOrm<Tx extends MikroOrmEntityManager>(orm: MikroOrmInstance<Tx>): ConnectionSource<Tx> {
  const em: unknown = fieldOf(orm, 'em')
  if (!isManager<Tx>(em)) expected('orm', 'an instance of MikroORM for an SQL database', orm)
  return { on: (database) => new OrmConnection(ormOn(database, em, fieldOf(orm, 'config'))) }
}

// What hapax calls, as it calls it.

interface Manager<Tx> {
  fork(): Manager<Tx>
  transactional<T>(work: (tx: Tx) => Promise<T>, options: { isolationLevel?: string }): Promise<T>
  flush(): Promise<void>
  getTransactionContext(): unknown
  getConnection(): Link
}

interface Link {
  getClient(): Executable
  getNativeClient?(): Promise<object>
}

function isManager<Tx>(value: unknown): value is Manager<Tx> {
  const methods = ['fork', 'transactional', 'flush', 'getTransactionContext', 'getConnection']
  return methods.every((method) => typeof fieldOf(value, method) === 'function')
}

function ormOn<Tx extends object>(database: SqlDatabase, em: Manager<Tx>, config: unknown): Orm<Tx> {
  const link = em.getConnection()
  assertOn(database, link)
  const reached = new Reached<Tx>(link)
  const orm: Orm<Tx> = {
    name: 'mikro-orm',
    database,
    features: {
      lateUse: 'refused',
      pool: database === 'sqlite' ? undefined : sizeOf(fieldOf(setting(config, 'pool'), 'max')),
    },
    transaction: async (work, isolation) => {
      await reached.again()
      // SQLite has one level, and refuses to set any.
      const options = isolation === undefined || database === 'sqlite' ? {} : { isolationLevel: isolation }
      return em.fork().transactional(async (tx) => {
        const context = contextOf(tx)
        if (context !== undefined) await inTurn(context, () => Promise.resolve())
        return work(tx)
      }, options)
    },
    run: async (tx, statement) => {
      if (tx === undefined) {
        // Connects, if that has not been done yet.
        await reached.again()
        return runByKysely(link.getClient(), statement)
      }
      const context = contextOf(tx) ?? expected('tx', 'an entity manager of a transaction', tx)
      return inTurn(context, (session) => runByKysely(session, statement))
    },
    ordered: true,
    // One that `begin` has opened serves the next one, too.
    identity: contextOf,
    settle: (tx) => (isManager(tx) ? tx.flush() : Promise.resolve()),
    isTransaction: (tx): tx is Tx => contextOf(tx) !== undefined,
    // Errors of the driver come as they are, or copied into exceptions of MikroORM.
    isQueryError: () => true,
    isOver: (error) => fieldOf(error, 'message') === OVER,
  }
  if (database === 'sqlite' || ownsDialect(setting(config, 'driverOptions'))) return orm
  const { isBusy, destroy } = amongConnections<Tx>(database, () => undefined)
  // mysql2 drops what is under way on a connection that is destroyed, and MikroORM waits for it.
  const waits = database === 'mysql'
  const taking = () => reached.pool?.taking
  return {
    ...orm,
    waits,
    taking,
    client: { of: (tx, session) => reached.pool?.client.of(tx, session), isBusy, destroy },
  }
}

/** The pool of the driver. MikroORM makes it when it connects, and makes another one when it is closed and connects again. */
class Reached<Tx extends object> {
  readonly #link: Link
  #native: object | undefined
  pool: PoolUnder<Tx> | undefined

  constructor(link: Link) {
    this.#link = link
  }

  async again(): Promise<void> {
    // What keeps it from connecting is reported by the transaction.
    const native = await this.#link.getNativeClient?.().catch(() => undefined)
    if (native === this.#native) return
    this.#native = native
    this.pool = underPool(native)
    this.pool?.listen()
  }
}

/** A transaction of Kysely's that MikroORM commits or rolls back. */
interface Context {
  isCommitted: boolean
  isRolledBack: boolean
  commit(): unknown
  rollback(): unknown
  getExecutor(): KyselyExecutor
}

function contextOf(tx: unknown): Context | undefined {
  const context = isManager(tx) ? tx.getTransactionContext() : undefined
  return isContext(context) ? context : undefined
}

function isContext(value: unknown): value is Context {
  return ['commit', 'rollback', 'getExecutor'].every((method) => typeof fieldOf(value, method) === 'function')
}

/** Calls `work` with the connection of a transaction when nothing else runs on it, unless the transaction is over by then. */
function inTurn<T>(context: Context, work: (session: KyselySession) => Promise<T>): Promise<T> {
  watch(context)
  return context.getExecutor().provideConnection(async (session) => {
    if (ending.has(context) || context.isCommitted || context.isRolledBack) throw new Error(OVER)
    letGo(session)
    return work(session)
  })
}

const watched = new WeakSet<Context>()
const ending = new WeakSet<Context>()

/** Kysely sends COMMIT and ROLLBACK past the statements that wait for their turn: those would come after it. */
function watch(context: Context): void {
  if (watched.has(context)) return
  watched.add(context)
  for (const end of ['commit', 'rollback'] as const) {
    const usual = context[end].bind(context)
    context[end] = () => {
      ending.add(context)
      return usual()
    }
  }
}

const sessions = new WeakSet<KyselySession>()

/**
 * Kysely keeps the connection of a transaction whose ROLLBACK fails, as on a connection that has broken: the pool would run dry. MikroORM ignores
 * such errors too; if Kysely does not see them, it gives the connection back, and the pool drops it.
 */
function letGo(session: KyselySession): void {
  if (sessions.has(session)) return
  sessions.add(session)
  const execute = session.executeQuery.bind(session)
  session.executeQuery = (query, ...more) => {
    const sent = execute(query, ...more)
    return fieldOf(query, 'sql') === 'rollback' ? sent.catch(() => ({ rows: [] })) : sent
  }
}

/** With a dialect or a database of Kysely's own in its options, MikroORM does not know the pool. */
function ownsDialect(options: unknown): boolean {
  return (
    typeof options === 'function' ||
    typeof fieldOf(options, 'executeQuery') === 'function' ||
    typeof fieldOf(options, 'createDriver') === 'function'
  )
}

function setting(config: unknown, name: string): unknown {
  const get = fieldOf(config, 'get')
  return typeof get === 'function' ? get.call(config, name) : undefined
}

const PLATFORMS: Readonly<Record<SqlDatabase, RegExp>> = {
  postgres: /^Postgre/,
  mysql: /^(MySql|MariaDb)/,
  sqlite: /Sqlite|LibSql/i,
}

function assertOn(database: SqlDatabase, link: Link): void {
  const getPlatform = fieldOf(link, 'getPlatform')
  const platform: unknown = typeof getPlatform === 'function' ? getPlatform.call(link) : undefined
  const name = String(fieldOf(fieldOf(platform, 'constructor'), 'name'))
  const of = Object.values(PLATFORMS).find((names) => names.test(name))
  if (of !== undefined && of !== PLATFORMS[database])
    expected('orm', `a MikroORM for ${database}`, `one with the ${name}`)
}
