import { HapaxError, loadClient, noOthers } from '../base/index.ts'
import { fromPglite, isInTransaction, type PgliteTx } from '../connections/pglite.ts'
import type { Store } from '../contracts/index.ts'
import { postgres } from '../stores/postgres/index.ts'
import { type StoreTools, toolsOf } from './tools.ts'

/** A result of a statement. */
export interface TestResult<Row = Record<string, unknown>> {
  rows: Row[]
  affectedRows?: number
  fields: { name: string; dataTypeID: number }[]
}

/** A transaction of PGlite. */
export interface TestTransaction {
  query<Row = Record<string, unknown>>(text: string, params?: unknown[]): Promise<TestResult<Row>>
  sql<Row = Record<string, unknown>>(strings: TemplateStringsArray, ...params: unknown[]): Promise<TestResult<Row>>
  exec(text: string): Promise<TestResult[]>
  rollback(): Promise<void>
  readonly closed: boolean
}

/** A PGlite database, as far as tests use it. */
export interface TestDb {
  query<Row = Record<string, unknown>>(text: string, params?: unknown[]): Promise<TestResult<Row>>
  sql<Row = Record<string, unknown>>(strings: TemplateStringsArray, ...params: unknown[]): Promise<TestResult<Row>>
  exec(text: string): Promise<TestResult[]>
  transaction<T>(work: (tx: TestTransaction) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** SQL, or a function that runs some. */
export type Sql = string | ((db: TestDb) => unknown)

/** Options of `testPostgres`. */
export interface TestPostgresOptions {
  /** Makes your tables, once. @default nothing */
  readonly setup?: Sql
  /** Writes the rows that every test begins with: after `setup`, and again at every reset. @default nothing */
  readonly seed?: Sql
  /** The schema of hapax's tables. @default 'hapax' */
  readonly schema?: string
  /** Options of PGlite itself, such as `extensions`. @default none */
  readonly pglite?: object
}

/** A PostgreSQL in this process. */
export interface TestPostgres<Tx = PgliteTx<TestTransaction>> {
  /** For `testHapax({ store })` or `createHapax({ store })`. */
  readonly store: Store<Tx, TestTransaction>
  /** The database itself, a PGlite. Inside a handler it is refused at once: use `ctx.tx`. */
  readonly db: TestDb
  /** The rows of a statement. */
  query<Row = Record<string, unknown>>(text: string, params?: unknown[]): Promise<Row[]>
  /** Empties all tables, yours and hapax's, starts their counters again, and seeds. Stop workers before. */
  reset(): Promise<void>
  close(): Promise<void>
}

/**
 * Starts a PostgreSQL in this process, with the tables of hapax: handlers with SQL run in unit tests without a server. Needs the
 * package `@electric-sql/pglite`. It takes a second or two, so start one per file, and `reset` it between tests.
 *
 * `bigint` columns are strings and `bytea` columns are Buffers, as with `pg`. If your handlers are typed for `pg`, name their type:
 * `testPostgres<PgTx<PoolClient>>()`.
 */
export async function testPostgres<Tx = PgliteTx<TestTransaction>>(
  options: TestPostgresOptions = {},
): Promise<TestPostgres<Tx>> {
  noOthers('options of testPostgres', options, ['setup', 'seed', 'schema', 'pglite'])
  const { schema = 'hapax' } = options
  const { PGlite } = await loadClient('testPostgres()', ['@electric-sql/pglite'], () => import('@electric-sql/pglite'))
  const raw: TestDb = await PGlite.create({ ...options.pglite, parsers: { ...AS_PG, ...parsersOf(options.pglite) } })
  const db = guarded(raw)
  // What the user says, as with every ORM: PGlite's transaction has what one of `pg` has.
  const store = postgres(fromPglite(raw), { schema }) as unknown as Store<Tx, TestTransaction>
  await store.schema.migrate()
  await runSql(db, options.setup)
  await runSql(db, options.seed)
  const reset = async (): Promise<void> => {
    await raw.exec(await emptying(raw, schema))
    await runSql(db, options.seed)
  }
  toolsOf.set(store, toolsFor(raw, schema, reset))
  return {
    store,
    db,
    query: async <Row>(text: string, params?: unknown[]) => (await db.query<Row>(text, params)).rows,
    reset,
    close: () => raw.close(),
  }
}

/** The types whose values `pg` returns in another shape. */
const AS_PG = {
  20: (value: string) => value,
  17: (value: string) => Buffer.from(value.slice(2), 'hex'),
}

function parsersOf(options: { parsers?: object } = {}): object {
  return options.parsers ?? {}
}

async function runSql(db: TestDb, sql: Sql | undefined): Promise<void> {
  if (typeof sql === 'string') await db.exec(sql)
  else await sql?.(db)
}

/** The database as tests have it: in a handler it would wait for the handler's own transaction until the deadline. */
function guarded(raw: TestDb): TestDb {
  return new Proxy(raw, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        if (isInTransaction(raw)) throw outside(String(name))
        return value.apply(target, args)
      }
    },
  })
}

function outside(name: string): HapaxError {
  return new HapaxError(
    'nested-transaction',
    `db.${name} was called inside a handler or a transaction of hapax: use ctx.tx, or what it writes does not commit with the message`,
  )
}

/** The statement that empties all tables; which of hapax's migrations were applied stays known. */
async function emptying(db: TestDb, schema: string): Promise<string> {
  const text = `select format('%I.%I', schemaname, tablename) as name from pg_tables
where schemaname not in ('pg_catalog', 'information_schema') and (schemaname, tablename) <> ($1, 'migrations')`
  const { rows } = await db.query<{ name: string }>(text, [schema])
  return `truncate ${rows.map(({ name }) => name).join(', ')} restart identity cascade`
}

/** Time is that of PostgreSQL: what waits is moved, and not the clock. */
function toolsFor(db: TestDb, schema: string, reset: () => Promise<void>): StoreTools {
  const tables = ['inbox', 'outbox'].map((name) => `"${schema}".${name}`)
  const waiting = tables.map((name) => `select available_at from ${name} where held_at is null`).join(' union all ')
  const nextMs = `select extract(epoch from min(available_at) - clock_timestamp()) * 1000 as ms from (${waiting}) w`
  return {
    reset,
    nextMs: async () => {
      const { rows } = await db.query<{ ms: string | null }>(nextMs)
      return rows[0]?.ms == null ? undefined : Number(rows[0].ms)
    },
    move: async (ms) => {
      const by = `available_at = available_at - interval '1 millisecond' * ${Math.ceil(ms)}`
      await db.exec(tables.map((name) => `update ${name} set ${by} where held_at is null`).join(';'))
    },
  }
}
