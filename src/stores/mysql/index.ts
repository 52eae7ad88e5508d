import {
  budgetOption,
  type ConnectionBudget,
  expected,
  fieldOf,
  heard,
  identifier,
  isText,
  loadClient,
  noOthers,
  positiveInteger,
  refuseUnsetUrl,
  storeClosed,
  systemClock,
  within,
} from '../../base/index.ts'
import type { Connection, ConnectionSource, Store } from '../../contracts/index.ts'
import { connectionOn, type Dialect, fieldsOf, isConnection, sqlStore } from '../sql/index.ts'
import { budgetedPools } from './budgeted.ts'
import { MysqlConnection, type MysqlOwn, type MysqlPools } from './connection.ts'
import { type MysqlCallbacks, type MysqlPool, type MysqlPoolClient, type MysqlTx, promised } from './mysql2.ts'
import { dialect } from './statements/sql.ts'

export type { MysqlOwn } from './connection.ts'
export type {
  MysqlCallbacks,
  MysqlClient,
  MysqlPool,
  MysqlPoolClient,
  MysqlQuery,
  MysqlResult,
  MysqlTx,
} from './mysql2.ts'

/** Where the tables are. */
export interface MysqlTables {
  /** The database that has the tables of hapax. @default that of the URL or of the pool */
  readonly database?: string
  /** What the names of the tables of hapax begin with. @default 'hapax_' */
  readonly prefix?: string
}

/** Your own pool of `mysql2`, in promise or callback style; hapax never closes it. */
export interface MysqlPoolOptions<Client extends MysqlPoolClient> extends MysqlTables {
  readonly pool: MysqlPool<Client> | MysqlCallbacks<MysqlPool<Client>>
  /**
   * Connections of hapax's own for heartbeats and other control work, so that busy handlers cannot starve them.
   * @default two connections of the pool are left free for it
   */
  readonly control?: { readonly url: string | undefined }
}

/** A pool that hapax opens and closes itself, and a small one beside it for control work. */
export interface MysqlUrlOptions extends MysqlTables {
  /** `mysql://user:password@host:3306/database`; undefined, as a missing environment variable is, is refused. */
  readonly url: string | undefined
  /** Connections at most, for handlers. @default 10 */
  readonly max?: number
  /**
   * Bounds the connections of several stores together: what `connectionBudget(n)` returned. Control work has its share there.
   * @default none, and two connections for control work beside `max`
   */
  readonly budget?: ConnectionBudget
}

/**
 * A store on MariaDB 10.6 or MySQL 8.0 or newer: on your pool, on a URL, or on a connection to an ORM, which alone has its options
 * beside it.
 *
 * One signature for all of them: of overloads, the compiler reports only the last one, which may be the wrong one.
 */
export function mysql<Client extends MysqlPoolClient = MysqlPoolClient, Tx = MysqlTx<Client>, Own = MysqlOwn>(
  given: MysqlPoolOptions<Client> | MysqlUrlOptions | Connection<Tx, Own> | ConnectionSource<Tx, Own>,
  options?: MysqlTables,
): Store<Tx, Own>
export function mysql(
  given:
    | MysqlPoolOptions<MysqlPoolClient>
    | MysqlUrlOptions
    | Connection<unknown, unknown>
    | ConnectionSource<unknown, unknown>,
  options: MysqlTables = {},
): Store<unknown, unknown> | Store<MysqlTx, MysqlOwn> {
  if (isConnection(given)) {
    noOthers('options of mysql', options, ['database', 'prefix'])
    return sqlStore(connectionOn('mysql', given), dialectOf(options))
  }
  if (fieldOf(given, 'getConnection') !== undefined)
    expected('options of mysql', 'an object such as { pool }', 'the pool itself')
  noOthers('options of mysql', given, ['pool', 'control', 'url', 'max', 'budget', 'database', 'prefix'])
  noOthers('second argument', options, [])
  return sqlStore(
    connectionOf(given),
    dialectOf({ ...given, database: given.database === undefined ? databaseOf(given) : given.database }),
  )
}

function dialectOf({ database, prefix = 'hapax_' }: { database?: string | undefined; prefix?: string }): Dialect {
  const checked = identifier('prefix', prefix)
  if (!isText(database, 256) || !DATABASE.test(database)) {
    expected('database', 'the name of the database with the tables of hapax', database)
  }
  return dialect(database, checked)
}

/** What can stand in quotes in a statement, also for `mysql2`, which takes ? for a parameter there. */
const DATABASE = /^[^`?\0]{1,64}$/

/** The database that new connections use, if it can be told. */
function databaseOf(options: MysqlPoolOptions<MysqlPoolClient> | MysqlUrlOptions): string | undefined {
  if (!('pool' in options)) {
    const { pathname, searchParams } = new URL(checkedUrl('url', options.url))
    return searchParams.get('database') ?? (decodeURIComponent(pathname.slice(1)) || undefined)
  }
  const { config }: { config?: { connectionConfig?: { database?: string } } } = innerPool(options.pool)
  return config?.connectionConfig?.database
}

function connectionOf(options: MysqlPoolOptions<MysqlPoolClient> | MysqlUrlOptions): MysqlConnection<MysqlPoolClient> {
  if ('pool' in options && 'url' in options && options.url !== undefined)
    expected('options', 'either a pool or a url', 'both')
  if ('pool' in options && fieldOf(options, 'budget') !== undefined)
    expected('options', 'a url beside a budget', 'a pool, whose connections nobody can count')
  return new MysqlConnection('pool' in options ? given(options) : opened(options))
}

/** Connections that are kept for control work. */
const CONTROL = 2

function given({ pool, control }: MysqlPoolOptions<MysqlPoolClient>): MysqlPools<MysqlPoolClient> {
  if (!hasConnections(pool)) expected('pool', 'a pool of mysql2', pool)
  const promise = promised(pool)
  const handlers = (): Promise<MysqlPool> => Promise.resolve(promise)
  const max = sizeOf(pool)
  const size = max === undefined ? undefined : { max, control: control === undefined ? CONTROL : 0 }
  const inner = innerPool(pool)
  if (control === undefined) return { size, given: inner, handlers, control: handlers, close: () => Promise.resolve() }
  noOthers('control', control, ['url'])
  refuseUnsetUrl(control, undefined, 'control.url')
  const own = lazyPool(checkedUrl('control.url', control.url), CONTROL)
  return { size, given: inner, handlers, control: own.get, close: own.close }
}

function hasConnections(pool: unknown): boolean {
  const { getConnection }: { getConnection?: unknown } = fieldsOf(pool)
  return typeof getConnection === 'function'
}

function opened(options: MysqlUrlOptions): MysqlPools<MysqlPoolClient> {
  refuseUnsetUrl(options)
  const most = positiveInteger('max', options.max, 10)
  const url = checkedUrl('url', options.url)
  const budget = budgetOption(options.budget)
  if (budget !== undefined) {
    return budgetedPools(url, budget, { handlers: Math.min(most, budget.forOne), control: CONTROL })
  }
  const [handlers, control] = [lazyPool(url, most), lazyPool(url, CONTROL)]
  const close = async (): Promise<void> => void (await Promise.all([handlers.close(), control.close()]))
  return { size: { max: most, control: 0 }, handlers: handlers.get, control: control.get, close }
}

function checkedUrl(name: string, url: string | undefined): string {
  if (typeof url !== 'string' || !/^(mysql|mariadb):\/\//.test(url))
    expected(name, 'a mysql:// URL', url && '(not shown)')
  return url
}

/** The promise form of a pool wraps the one in callback style. */
function innerPool(given: object): object {
  const { pool = given }: { pool?: object } = given
  return pool
}

/** The size of a pool of `mysql2`; other pools do not tell. */
function sizeOf(given: object): number | undefined {
  const { config }: { config?: { connectionLimit?: unknown } } = innerPool(given)
  return typeof config?.connectionLimit === 'number' ? config.connectionLimit : undefined
}

/** A pool that is opened when it is needed. */
function lazyPool(url: string, max: number): { get(): Promise<OwnPool>; close(): Promise<void> } {
  let pool: Promise<OwnPool> | undefined
  let closing: Promise<void> | undefined
  const end = async (): Promise<void> => (await pool)?.end()
  return {
    get: () => {
      if (closing !== undefined) return Promise.reject(storeClosed())
      pool ??= openPool(url, max)
      return pool
    },
    close: () => {
      closing ??= end()
      return closing
    },
  }
}

interface OwnPool extends MysqlPool {
  end(): Promise<void>
}

/** How long a connection may take to open, or to become free. */
const CONNECT_MS = 10_000
/** How long the pool may take to end. */
const END_MS = 5_000
/** How long a link may be silent before the system asks whether it is still there; by itself it waits for two hours. */
const KEEP_ALIVE_MS = 10_000

async function openPool(url: string, max: number): Promise<OwnPool> {
  const mysql2 = await loadClient('mysql({ url })', ['mysql2'], () => import('mysql2/promise'))
  const pool = mysql2.createPool({
    uri: url,
    connectionLimit: max,
    connectTimeout: CONNECT_MS,
    enableKeepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  })
  // An idle connection that breaks is replaced; without a listener a second error of it would end the process.
  pool.on('connection', (connection) => void heard(connection))
  return {
    getConnection: () => acquire(pool),
    // end() would wait forever for a connection that does not answer.
    end: () => within(systemClock, END_MS, pool.end(), () => {}),
  }
}

/** A connection in time: the pool of mysql2 itself would wait for ever. */
function acquire(pool: MysqlPool): Promise<MysqlPoolClient> {
  const acquiring = pool.getConnection()
  return new Promise((resolve, reject) => {
    let late = false
    const timer = setTimeout(() => {
      late = true
      reject(Object.assign(new Error(`no connection within ${CONNECT_MS} ms`), { code: 'ETIMEDOUT' }))
    }, CONNECT_MS)
    acquiring.then((client) => (late ? client.release() : resolve(client)), reject).finally(() => clearTimeout(timer))
  })
}
