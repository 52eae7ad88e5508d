import type { Connection } from '../../core/connection.ts'
import { HapaxError } from '../../core/errors.ts'
import { expected, identifier, noOthers } from '../../core/options.ts'
import { SqlStore } from '../../core/sql/index.ts'
import type { Store } from '../../core/store.ts'
import { PgConnection } from './connection.ts'
import type { PgClient, PgClientOf, PgPool, PgPoolClient, PgTx } from './pg.ts'
import { dialect } from './sql.ts'

export type { PgClient, PgClientOf, PgPool, PgPoolClient, PgResult, PgTx } from './pg.ts'

/** Where the tables are. */
export interface PostgresSchema {
  /** The schema that holds the tables of hapax. @default 'hapax' */
  readonly schema?: string
}

/** Your own pool of `pg`; hapax never closes it. */
export interface PostgresPoolOptions<Pool extends PgPool> extends PostgresSchema {
  readonly pool: Pool
}

/** A pool that hapax opens and closes itself. */
export interface PostgresUrlOptions extends PostgresSchema {
  readonly url: string
  /** Connections at most. @default 10 */
  readonly max?: number
}

/** A store on PostgreSQL 13 or newer: on your pool, on a URL, or on a connection such as `fromDrizzle(db, sql)`. */
export function postgres<Pool extends PgPool>(
  options: PostgresPoolOptions<Pool>,
): Store<PgTx<PgClientOf<Pool>>, PgClient>
export function postgres(options: PostgresUrlOptions): Store<PgTx, PgClient>
export function postgres<Tx, Own>(connection: Connection<Tx, Own>, options?: PostgresSchema): Store<Tx, Own>
export function postgres(
  given: PostgresPoolOptions<PgPool> | PostgresUrlOptions | Connection<unknown, unknown>,
  schemaOptions: PostgresSchema = {},
): Store<unknown, unknown> {
  if (typeof given === 'object' && given !== null && 'transaction' in given) {
    noOthers('options', schemaOptions, ['schema'])
    return new SqlStore(given, dialect(quoted(schemaOptions)))
  }
  noOthers('options', given, ['pool', 'url', 'max', 'schema'])
  return new SqlStore(connectionOf(given) as unknown as Connection<unknown, unknown>, dialect(quoted(given)))
}

/** Quoted, so that a word of SQL can be a schema as well. */
function quoted({ schema = 'hapax' }: PostgresSchema): string {
  return `"${identifier('schema', schema)}"`
}

function connectionOf(options: PostgresPoolOptions<PgPool> | PostgresUrlOptions): PgConnection<PgPoolClient> {
  if ('pool' in options) {
    const { pool } = options
    if (typeof pool?.connect !== 'function') expected('pool', 'a pool of pg', pool)
    listen(pool)
    return new PgConnection(
      () => Promise.resolve(pool),
      () => Promise.resolve(),
    )
  }
  const { url, max = 10 } = options
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//.test(url))
    expected('url', 'a postgres:// URL', url && '(not shown)')
  let opened: Promise<OwnPool> | undefined
  const open = (): Promise<OwnPool> => {
    opened ??= openPool(url, max)
    return opened
  }
  return new PgConnection<PgPoolClient>(open, async () => (await opened)?.end())
}

type OwnPool = PgPool & { end(): Promise<void>; on(event: 'error', listener: (error: Error) => void): unknown }

async function openPool(url: string, max: number): Promise<OwnPool> {
  const pg = await import('pg').catch((cause: unknown) => {
    throw new HapaxError('client-missing', 'postgres({ url }) needs the package pg: npm install pg', { cause })
  })
  const pool = new pg.default.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    application_name: 'hapax',
  }) as unknown as OwnPool
  listen(pool)
  return pool
}

/** An idle connection that breaks is replaced by the next query; without a listener it would end the process. */
function listen(pool: object): void {
  ;(pool as { on?(event: 'error', listener: (error: Error) => void): unknown }).on?.('error', () => {})
}
