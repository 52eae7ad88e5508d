import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Store } from 'hapax'
import type { Connection } from 'hapax/contracts'
import { createConnection, createPool } from 'mysql2/promise'
import pg from 'pg'
import { type Dialect, sqlStore } from '../../src/stores/sql/index.ts'
import type { Seams } from './seams.ts'
import { requireServer, type StoreName, testStores } from './servers.ts'

/** The stores whose data survives the end of a process. */
export type DurableStore = Exclude<StoreName, 'memory'>

/** The durable stores to test. */
export function durableStores(): DurableStore[] {
  return testStores().filter((name) => name !== 'memory')
}

/** A part of a database for one test, as plain data that can be sent to other processes. */
export interface Place {
  readonly store: DurableStore
  /** A URL, or the path of a file. */
  readonly url: string
  /** The schema on PostgreSQL. */
  readonly schema: string
}

/** The transaction that every store gives to handlers. */
export interface RigTx {
  query(text: string, params?: readonly unknown[]): Promise<{ readonly rows: readonly unknown[] }>
  readonly client: unknown
}

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A plain connection without hapax, to count what is really there. */
export interface Checker extends AsyncDisposable {
  readonly place: Place
  query(text: string): Promise<Rows>
}

/** Creates a place with the tables of hapax and a table `effects` that has no key at all: on the shared server, or on that of a URL. */
export async function makePlace(store: DurableStore, url?: string): Promise<Checker> {
  const checker = await makeEmptyPlace(store, url)
  const hapax = await openStore(checker.place, { max: 1 })
  await hapax.schema.migrate()
  await hapax.close()
  return checker
}

/** Creates a place without the tables of hapax. */
export async function makeEmptyPlace(store: DurableStore, url?: string): Promise<Checker> {
  const name = `faults_${randomBytes(5).toString('hex')}`
  const checker = await checkers[store](name, url)
  const type = 'varchar(200) not null'
  await checker.query(`create table ${effects(checker.place)} (consumer ${type}, id ${type}, process integer)`)
  return checker
}

const checkers: Record<DurableStore, (name: string, url?: string) => Promise<Checker>> = {
  postgres: async (schema, url = requireServer('postgres')) => {
    const client = new pg.Client(url)
    // If the server dies, the next query fails.
    client.on('error', () => {})
    await client.connect()
    await client.query(`create schema ${schema}`)
    return {
      place: { store: 'postgres', url, schema },
      query: async (text) => (await client.query(text)).rows,
      [Symbol.asyncDispose]: async () => {
        await client.query(`drop schema ${schema} cascade`)
        await client.end()
      },
    }
  },
  mysql: async (name, server = requireServer('mysql')) => {
    const url = new URL(server)
    const client = await createConnection(url.href)
    client.on('error', () => {})
    await client.query(`create database ${name}`)
    await client.query(`use ${name}`)
    url.pathname = `/${name}`
    return {
      place: { store: 'mysql', url: url.href, schema: '' },
      query: async (text) => (await client.query(text))[0] as unknown as Rows,
      [Symbol.asyncDispose]: async () => {
        await client.query(`drop database ${name}`)
        await client.end()
      },
    }
  },
  sqlite: async (name) => {
    const directory = mkdtempSync(join(tmpdir(), `hapax-${name}-`))
    const path = join(directory, 'database')
    const client = new DatabaseSync(path, { timeout: 10_000 })
    return {
      place: { store: 'sqlite', url: path, schema: '' },
      query: async (text) => client.prepare(text).all(),
      [Symbol.asyncDispose]: async () => {
        client.close()
        rmSync(directory, { recursive: true, force: true })
      },
    }
  },
}

/** The name of the table of effects. */
function effects(place: Place): string {
  return place.store === 'postgres' ? `${place.schema}.business` : 'effects'
}

/** The name of a table of hapax. */
export function table(place: Place, name: 'receipts' | 'inbox' | 'outbox' | 'failed'): string {
  return place.store === 'postgres' ? `${place.schema}.${name}` : `hapax_${name}`
}

/** The statement that makes an effect; ids of the rigs are plain words. */
export function insertEffect(place: Place, consumer: string, id: string): string {
  return `insert into ${effects(place)} (consumer, id, process) values ('${consumer}', '${id}', ${process.pid})`
}

/** A text column; some databases keep text as bytes. */
export function asText(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString() : String(value)
}

/** How often each (consumer, id) took effect. */
export async function countEffects(checker: Checker): Promise<Map<string, number>> {
  const rows = await checker.query(
    `select consumer, id, count(*) as n from ${effects(checker.place)} group by consumer, id`,
  )
  return new Map(rows.map((row) => [`${asText(row['consumer'])} ${asText(row['id'])}`, Number(row['n'])]))
}

/** How many effects each process made. */
export async function effectsByProcess(checker: Checker): Promise<Map<number, number>> {
  const rows = await checker.query(`select process, count(*) as n from ${effects(checker.place)} group by process`)
  return new Map(rows.map((row) => [Number(row['process']), Number(row['n'])]))
}

/** Ends every connection that hapax has to this place, as an administrator or a failover does. */
export async function terminateAll(checker: Checker): Promise<number> {
  const { store, schema, url } = checker.place
  if (store === 'postgres') {
    const ended = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = '${schema}'`
    return (await checker.query(ended)).length
  }
  const database = new URL(url).pathname.slice(1)
  const list = `select id from information_schema.processlist where db = '${database}' and id <> connection_id()`
  const rows = await checker.query(list)
  // A connection that ended in between makes the statement fail, which is fine.
  for (const { id } of rows) await checker.query(`kill ${id}`).catch(() => {})
  return rows.length
}

/** How a store is opened for a rig. */
export interface OpenOptions {
  /** Connections at most. */
  readonly max?: number
  /** Reaches the server another way, for example through a proxy. */
  readonly url?: string
  /** Watches the calls of the store. */
  readonly seams?: Seams
  /** Watches the statements of the store. */
  readonly statements?: (dialect: Dialect) => Dialect
}

/** Opens the store of a place. */
export async function openStore(place: Place, options: OpenOptions = {}): Promise<Store<RigTx>> {
  const { seams } = options
  const watch = (connection: object): Connection<RigTx> =>
    seams?.connection(connection as Connection<RigTx>) ?? (connection as Connection<RigTx>)
  const store = await openers[place.store](place, options, watch)
  return seams?.store(store) ?? store
}

const itself = (dialect: Dialect): Dialect => dialect

type Opener = (
  place: Place,
  options: OpenOptions,
  watch: (connection: object) => Connection<RigTx>,
) => Promise<Store<RigTx>>

// Imported one by one, because a process of a rig lives for some milliseconds.
const openers: Record<DurableStore, Opener> = {
  postgres: async ({ url, schema }, { url: detour, max = 4, seams, statements = itself }, watch) => {
    const { PgConnection } = await import('../../src/stores/postgres/connection.ts')
    const { dialect } = await import('../../src/stores/postgres/statements/sql.ts')
    const open = (most: number): pg.Pool => {
      const pool = new pg.Pool({
        connectionString: detour ?? url,
        max: most,
        connectionTimeoutMillis: 10_000,
        application_name: schema,
      })
      pool.on('error', () => {})
      if (seams) pool.on('connect', (client) => seams.client(client, 'query'))
      return pool
    }
    const pool = open(max)
    const control = open(1)
    const connection = new PgConnection({
      // Silenced: rigs have fewer connections than their consumers have places.
      size: undefined,
      handlers: async () => pool,
      control: async () => control,
      close: async () => void (await Promise.all([pool.end(), control.end()])),
    })
    return sqlStore(watch(connection), statements(dialect(`"${schema}"`)))
  },
  mysql: async ({ url }, { url: detour, max = 4, seams, statements = itself }, watch) => {
    const { MysqlConnection } = await import('../../src/stores/mysql/connection.ts')
    const { dialect } = await import('../../src/stores/mysql/statements/sql.ts')
    const open = (most: number): ReturnType<typeof createPool> => {
      const pool = createPool({ uri: detour ?? url, connectionLimit: most, connectTimeout: 10_000 })
      pool.on('connection', (client) => {
        client.on('error', () => {})
        seams?.client(client as object as { query(): void; execute(): void }, 'query', 'execute')
      })
      return pool
    }
    const pool = open(max)
    const control = open(1)
    const connection = new MysqlConnection({
      // Silenced: rigs have fewer connections than their consumers have places.
      size: undefined,
      handlers: async () => pool as never,
      control: async () => control as never,
      close: async () => void (await Promise.all([pool.end(), control.end()])),
    })
    return sqlStore(watch(connection), statements(dialect(new URL(url).pathname.slice(1), 'hapax_')))
  },
  sqlite: async ({ url }, { seams, statements = itself }, watch) => {
    const { SqliteConnection } = await import('../../src/stores/sqlite/connection.ts')
    const { dialect } = await import('../../src/stores/sqlite/statements/sql.ts')
    seams?.sqlite()
    return sqlStore(watch(new SqliteConnection(url, 'hapax_')), statements(dialect('hapax_')))
  },
}
