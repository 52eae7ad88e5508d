import { Socket } from 'node:net'
import {
  budgetOption,
  type ConnectionBudget,
  contained,
  expected,
  fieldOf,
  flag,
  identifier,
  loadClient,
  noOthers,
  positiveInteger,
  refuseUnsetUrl,
  storeClosed,
  systemClock,
  within,
} from '../../base/index.ts'
import type { Connection, ConnectionSource, Store } from '../../contracts/index.ts'
import { connectionOn, type Dialect, isConnection, sqlStore } from '../sql/index.ts'
import { budgetedPools } from './budgeted.ts'
import { PgConnection, type PgPools } from './connection.ts'
import { HostsPool, type OwnPool, urlsOf } from './hosts.ts'
import { PgListener } from './listener.ts'
import type { PgClient, PgClientOf, PgPool, PgPoolClient, PgTx } from './pg.ts'
import { dialect } from './statements/sql.ts'

export type { PgClient, PgClientOf, PgPool, PgPoolClient, PgResult, PgTx } from './pg.ts'

/** Where the tables are, and whether processes tell each other what they have written there. */
export interface PostgresSchema {
  /** The schema that holds the tables of hapax. @default 'hapax' */
  readonly schema?: string
  /**
   * Whether processes tell each other by `NOTIFY` that they have committed something, so that workers need not wait for their next
   * look. Listening takes one more connection, which exists with `url` or `control`; it has to be direct, not through a pooler.
   * @default true
   */
  readonly listen?: boolean
}

/** How statements are sent. */
export interface PostgresStatements {
  /**
   * Whether statements of hapax, and those that `ctx.tx.query` repeats, are prepared: the server then parses them once per
   * connection. `true` is for a pooler that knows prepared statements, such as PgBouncer 1.21 or newer with `max_prepared_statements`.
   * @default on direct connections, not behind a pooler
   */
  readonly prepare?: boolean
}

/** Your own pool of `pg`; hapax never closes it. */
export interface PostgresPoolOptions<Pool extends PgPool> extends PostgresSchema, PostgresStatements {
  readonly pool: Pool
  /**
   * Connections of hapax's own for heartbeats and other control work, so that busy handlers cannot starve them.
   * @default two connections of the pool are left free for it
   */
  readonly control?: { readonly url: string | undefined }
}

/** A pool that hapax opens and closes itself, and a small one beside it for control work. */
export interface PostgresUrlOptions extends PostgresSchema, PostgresStatements {
  /**
   * `postgres://user:password@host:5432/database`; undefined, as a missing environment variable is, is refused. Several hosts,
   * `postgres://one,two/database?target_session_attrs=read-write`, are tried in turn until one takes writes.
   */
  readonly url: string | undefined
  /** Connections at most, for handlers. @default 10 */
  readonly max?: number
  /**
   * Bounds the connections of several stores together: what `connectionBudget(n)` returned. Control work has its share there, and
   * nothing is listened to. @default none, and two connections for control work and one to listen beside `max`
   */
  readonly budget?: ConnectionBudget
}

/**
 * A store on PostgreSQL 13 or newer: on your pool, on a URL, or on a connection such as `fromDrizzle(db, sql)`, which alone has its
 * options beside it.
 *
 * One signature for all of them: of overloads, the compiler reports only the last one, which may be the wrong one.
 */
export function postgres<Pool extends PgPool = PgPool, Tx = PgTx<PgClientOf<Pool>>, Own = PgClient>(
  given: PostgresPoolOptions<Pool> | PostgresUrlOptions | Connection<Tx, Own> | ConnectionSource<Tx, Own>,
  options?: PostgresSchema,
): Store<Tx, Own>
export function postgres(
  given:
    | PostgresPoolOptions<PgPool>
    | PostgresUrlOptions
    | Connection<unknown, unknown>
    | ConnectionSource<unknown, unknown>,
  options: PostgresSchema = {},
): Store<unknown, unknown> | Store<PgTx, PgClient> {
  if (isConnection(given)) {
    noOthers('options of postgres', options, ['schema', 'listen'])
    return sqlStore(connectionOn('postgres', given), dialectOf(options))
  }
  if (fieldOf(given, 'connect') !== undefined)
    expected('options of postgres', 'an object such as { pool }', 'the pool itself')
  noOthers('options of postgres', given, ['pool', 'control', 'url', 'max', 'budget', 'schema', 'listen', 'prepare'])
  noOthers('second argument', options, [])
  return sqlStore(connectionOf(given), dialectOf(given))
}

function dialectOf(options: PostgresSchema): Dialect {
  return dialect(quoted(options), flag('listen', options.listen, true))
}

/** Quoted, so that a word of SQL can be a schema as well. */
function quoted({ schema = 'hapax' }: PostgresSchema): string {
  return `"${identifier('schema', schema)}"`
}

function connectionOf(options: PostgresPoolOptions<PgPool> | PostgresUrlOptions): PgConnection<PgPoolClient> {
  if (options.prepare !== undefined && typeof options.prepare !== 'boolean') {
    expected('prepare', 'true or false', options.prepare)
  }
  if ('pool' in options && 'url' in options && options.url !== undefined)
    expected('options', 'either a pool or a url', 'both')
  if ('pool' in options && fieldOf(options, 'budget') !== undefined)
    expected('options', 'a url beside a budget', 'a pool, whose connections nobody can count')
  return new PgConnection('pool' in options ? given(options) : opened(options), options.prepare)
}

/** Connections that are kept for control work. */
const CONTROL = 2

function given({ pool, control }: PostgresPoolOptions<PgPool>): PgPools<PgPoolClient> {
  if (typeof pool?.connect !== 'function' || isClient(pool)) expected('pool', 'a pool of pg', pool)
  listenForErrors(pool)
  const handlers = (): PgPool => pool
  const max = sizeOf(pool)
  const size = max === undefined ? undefined : { max, control: control === undefined ? CONTROL : 0 }
  if (control === undefined) return { size, given: pool, handlers, control: handlers, close: () => Promise.resolve() }
  noOthers('control', control, ['url'])
  refuseUnsetUrl(control, undefined, 'control.url')
  const url = checkedUrl('control.url', control.url)
  const own = lazyPool(url, CONTROL)
  return { size, given: pool, handlers, control: own.get, doubted: own.doubt, listen: listenOn(url), close: own.close }
}

function opened(options: PostgresUrlOptions): PgPools<PgPoolClient> {
  refuseUnsetUrl(options)
  const most = positiveInteger('max', options.max, 10)
  const url = checkedUrl('url', options.url)
  const budget = budgetOption(options.budget)
  if (budget !== undefined) {
    return budgetedPools(url, budget, { handlers: Math.min(most, budget.forOne), control: CONTROL })
  }
  const [handlers, control] = [lazyPool(url, most), lazyPool(url, CONTROL)]
  const close = async (): Promise<void> => void (await Promise.all([handlers.close(), control.close()]))
  const doubted = (): void => {
    for (const pool of [handlers, control]) pool.doubt()
  }
  const size = { max: most, control: 0 }
  return { size, handlers: handlers.get, control: control.get, doubted, listen: listenOn(url), close }
}

function listenOn(url: string): PgPools<PgPoolClient>['listen'] {
  return (options) => {
    const listener = new PgListener(url, options)
    return () => listener.end()
  }
}

function checkedUrl(name: string, url: string | undefined): string {
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//.test(url))
    expected(name, 'a postgres:// URL', url && '(not shown)')
  urlsOf(name, url)
  return url
}

/** A single client has `connect` as well. */
function isClient(given: object): boolean {
  return 'escapeLiteral' in given
}

/** The size of a pool of `pg`; other pools do not tell. */
function sizeOf(pool: object): number | undefined {
  const { options }: { options?: { max?: unknown } } = pool
  return typeof options?.max === 'number' ? options.max : undefined
}

interface LazyPool {
  get(): OwnPool | Promise<OwnPool>
  doubt(): void
  close(): Promise<void>
}

/** A pool that is opened when it is needed. */
function lazyPool(url: string, max: number): LazyPool {
  let opened: OwnPool | Promise<OwnPool> | undefined
  let closing: Promise<void> | undefined
  const end = async (): Promise<void> => {
    const pool = await opened
    // end() would wait forever for a connection that does not answer.
    if (pool !== undefined) await within(systemClock, END_MS, pool.end(), () => {})
  }
  return {
    get: () => {
      if (closing !== undefined) throw storeClosed()
      if (opened !== undefined) return opened
      const opening = openPool(url, max)
      opened = opening
      // From now on there is nothing to wait for.
      opening.then(
        (pool) => {
          opened = pool
        },
        () => {},
      )
      return opening
    },
    doubt: () => {
      if (opened instanceof HostsPool) opened.doubt()
    },
    close: () => {
      closing ??= end()
      return closing
    },
  }
}

/** How long the pool may take to end. */
const END_MS = 5_000
/** How long a link may be silent before the system asks whether it is still there; by itself it waits for two hours. */
const KEEP_ALIVE_MS = 10_000

async function openPool(url: string, max: number): Promise<OwnPool> {
  const pg = await loadClient('postgres({ url })', ['pg'], () => import('pg'))
  const pools = urlsOf('url', url).map((connectionString) => {
    const pool = new pg.default.Pool({
      connectionString,
      max,
      stream: () => contained(new Socket()),
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      application_name: 'hapax',
    })
    listenForErrors(pool)
    // With TLS another socket is put around the first one.
    pool.on('connect', containStream)
    return pool
  })
  const [only] = pools
  return only !== undefined && pools.length === 1 ? only : new HostsPool(pools)
}

function containStream(client: object): void {
  const { connection }: { connection?: { stream?: object } } = client
  if (connection?.stream !== undefined) contained(connection.stream)
}

const heard = new WeakSet<object>()

/** An idle connection that breaks is replaced by the next query; without a listener it would end the process. */
function listenForErrors(pool: object): void {
  if (heard.has(pool)) return
  heard.add(pool)
  const emitter: { on?(event: 'error', listener: (error: Error) => void): unknown } = pool
  emitter.on?.('error', () => {})
}
