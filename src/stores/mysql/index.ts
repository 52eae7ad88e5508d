import type { Connection } from '../../core/connection.ts'
import { HapaxError } from '../../core/errors.ts'
import { expected, identifier, noOthers, positiveInteger } from '../../core/options.ts'
import { SqlStore } from '../../core/sql/index.ts'
import type { Store } from '../../core/store.ts'
import { MysqlConnection, type MysqlOwn } from './connection.ts'
import { type MysqlCallbacks, type MysqlPool, type MysqlPoolClient, type MysqlTx, promised } from './mysql2.ts'
import { dialect } from './sql.ts'

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

/** How the tables are called. */
export interface MysqlTables {
  /** What the names of the tables of hapax begin with. @default 'hapax_' */
  readonly prefix?: string
}

/** Your own pool of `mysql2`, in promise or callback style; hapax never closes it. */
export interface MysqlPoolOptions<Client extends MysqlPoolClient> extends MysqlTables {
  readonly pool: MysqlPool<Client> | MysqlCallbacks<MysqlPool<Client>>
}

/** A pool that hapax opens and closes itself. */
export interface MysqlUrlOptions extends MysqlTables {
  readonly url: string
  /** Connections at most. @default 10 */
  readonly max?: number
}

/** A store on MariaDB 10.6 or MySQL 8.0 or newer: on your pool, on a URL, or on a connection to an ORM. */
export function mysql<Client extends MysqlPoolClient>(
  options: MysqlPoolOptions<Client>,
): Store<MysqlTx<Client>, MysqlOwn>
export function mysql(options: MysqlUrlOptions): Store<MysqlTx, MysqlOwn>
export function mysql<Tx, Own>(connection: Connection<Tx, Own>, options?: MysqlTables): Store<Tx, Own>
export function mysql(
  given: MysqlPoolOptions<MysqlPoolClient> | MysqlUrlOptions | Connection<unknown, unknown>,
  tables: MysqlTables = {},
): Store<unknown, unknown> {
  if (typeof given === 'object' && given !== null && 'transaction' in given) {
    noOthers('options', tables, ['prefix'])
    return new SqlStore(given, dialect(identifier('prefix', tables.prefix ?? 'hapax_')))
  }
  noOthers('options', given, ['pool', 'url', 'max', 'prefix'])
  const prefix = identifier('prefix', given.prefix ?? 'hapax_')
  return new SqlStore(connectionOf(given) as unknown as Connection<unknown, unknown>, dialect(prefix))
}

function connectionOf(options: MysqlPoolOptions<MysqlPoolClient> | MysqlUrlOptions): MysqlConnection<MysqlPoolClient> {
  if ('pool' in options) {
    const { pool } = options
    if (typeof (pool as MysqlPool | undefined)?.getConnection !== 'function') expected('pool', 'a pool of mysql2', pool)
    const own = promised(pool)
    return new MysqlConnection(
      () => Promise.resolve(own),
      () => Promise.resolve(),
    )
  }
  const { url } = options
  const max = positiveInteger('max', options.max, 10)
  if (typeof url !== 'string' || !/^(mysql|mariadb):\/\//.test(url))
    expected('url', 'a mysql:// URL', url && '(not shown)')
  let opened: Promise<OwnPool> | undefined
  const open = (): Promise<OwnPool> => {
    opened ??= openPool(url, max)
    return opened
  }
  return new MysqlConnection<MysqlPoolClient>(open, async () => (await opened)?.end())
}

interface OwnPool extends MysqlPool {
  end(): Promise<void>
}

const CONNECT_MS = 10_000
const END_MS = 5_000

async function openPool(url: string, max: number): Promise<OwnPool> {
  const mysql2 = await import('mysql2/promise').catch((cause: unknown) => {
    throw new HapaxError('client-missing', 'mysql({ url }) needs the package mysql2: npm install mysql2', { cause })
  })
  const pool = mysql2.createPool({
    uri: url,
    connectionLimit: max,
    connectTimeout: CONNECT_MS,
    enableKeepAlive: true,
  })
  // An idle connection that breaks is replaced; without a listener a second error of it would end the process.
  pool.on('connection', (connection) => void connection.on('error', () => {}))
  return {
    getConnection: () => acquire(pool as unknown as MysqlPool),
    // A connection that does not answer would keep end() waiting for ever.
    end: () => Promise.race([pool.end(), after(END_MS)]),
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

function after(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
