// Server and session settings that change the meaning of statements. Some are defaults of servers or pools.
import { randomBytes } from 'node:crypto'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromKysely } from 'hapax/kysely'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { Kysely, MysqlDialect } from 'kysely'
import callbacks from 'mysql2'
import { createConnection, createPool, type RowDataPacket } from 'mysql2/promise'
import { describe, expect, it, onTestFinished } from 'vitest'
import { essentials } from '../support/essentials.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'

const MYSQL = [
  'sql_safe_updates = 1',
  'sql_select_limit = 1',
  "completion_type = 'CHAIN'",
  "completion_type = 'RELEASE'",
  'autocommit = 0',
  "sql_mode = 'ANSI'",
  "sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'",
  "sql_mode = 'TRADITIONAL,ONLY_FULL_GROUP_BY,NO_AUTO_VALUE_ON_ZERO,REAL_AS_FLOAT'",
  "sql_mode = 'SIMULTANEOUS_ASSIGNMENT'",
  "sql_mode = 'TIME_ROUND_FRACTIONAL'",
  "sql_mode = ''",
  'sql_auto_is_null = 1',
  'sql_big_selects = 0, max_join_size = 10',
  'max_statement_time = 30',
  'unique_checks = 0, foreign_key_checks = 0',
  "time_zone = '+11:00'",
  'group_concat_max_len = 4',
  "character_set_connection = latin1, collation_connection = 'latin1_german2_ci'",
  "tx_isolation = 'READ-UNCOMMITTED'",
  "tx_isolation = 'SERIALIZABLE'",
  'updatable_views_with_limit = 0, div_precision_increment = 0, sql_notes = 0',
]

const POSTGRES = [
  'search_path=nowhere',
  'standard_conforming_strings=off',
  'backslash_quote=on',
  'DateStyle=German,DMY',
  'IntervalStyle=iso_8601',
  'TimeZone=Asia/Kathmandu',
  'bytea_output=escape',
  'extra_float_digits=-15',
  'row_security=off',
  'transform_null_equals=on',
  'array_nulls=off',
  'default_transaction_deferrable=on',
  'default_transaction_isolation=serializable',
  'synchronous_commit=off',
  'session_replication_role=replica',
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'check_function_bodies=off',
  'client_min_messages=debug1',
  'quote_all_identifiers=on',
  'statement_timeout=30000',
  'lock_timeout=20000',
]

let server: Promise<PrivateServer> | undefined

describe.skipIf(noPrivateServer('mysql') !== undefined)('MariaDB', () => {
  /** A new database on a server with other defaults. */
  async function databaseWith(setting: string): Promise<string> {
    server ??= privateServer('mysql')
    const { url } = await server
    const name = `set_${randomBytes(5).toString('hex')}`
    const admin = await createConnection({ uri: url })
    onTestFinished(() => admin.end())
    await admin.query(`create database ${name}`)
    const names = [...setting.matchAll(/(\w+) = /g)].map(([, each = '']) => each)
    const [rows] = await admin.query<RowDataPacket[]>(`select ${names.map((each) => `@@global.${each} as ${each}`)}`)
    const set = (values: string): Promise<unknown> =>
      admin.query(`set ${values.replaceAll(/(\w+) = /g, 'global $1 = ')}`)
    onTestFinished(() =>
      set(names.map((each) => `${each} = ${admin.escape(rows[0]?.[each])}`).join(', ')).then(() => {}),
    )
    await set(setting)
    const place = new URL(url)
    place.pathname = `/${name}`
    return place.href
  }

  it.for(MYSQL)('works on a server with %s', async (setting) => {
    await essentials(mysql({ url: await databaseWith(setting) }))
  })

  it('works on a pool that sets unsuitable values in each session', async () => {
    const pool = createPool({ uri: await databaseWith('sql_notes = 1'), connectionLimit: 8 })
    onTestFinished(() => pool.end())
    const settings = "set sql_safe_updates = 1, sql_select_limit = 1, completion_type = 'CHAIN', sql_big_selects = 0"
    pool.on('connection', (connection) => void connection.query(settings))
    await essentials(mysql({ pool }))
  })

  it('works through an ORM on a server with unsuitable values', async () => {
    const url = await databaseWith("sql_safe_updates = 1, sql_select_limit = 1, completion_type = 'CHAIN'")
    const pool = callbacks.createPool({ uri: url, connectionLimit: 8 })
    const db = new Kysely<object>({ dialect: new MysqlDialect({ pool }) })
    onTestFinished(() => db.destroy())
    await essentials(mysql(fromKysely(db, { pool }), { database: new URL(url).pathname.slice(1) }))
  })

  it('works on a pool that resets each session to unsuitable values when it is released', async () => {
    const uri = await databaseWith("sql_select_limit = 1, completion_type = 'CHAIN'")
    const pool = createPool({ uri, connectionLimit: 8, resetOnRelease: true })
    onTestFinished(() => pool.end())
    await essentials(mysql({ pool }))
  })

  it.for(['ORACLE', 'EMPTY_STRING_IS_NULL'])('refuses a server whose sql_mode is %s', async (mode) => {
    const store = mysql({ url: await databaseWith(`sql_mode = '${mode}'`) })
    onTestFinished(() => store.close())
    await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'unsupported-sql-mode' })
    await expect(store.schema.ready()).rejects.toThrow(`expected an sql_mode without ${mode}`)
  })

  it('delivers local messages to every consumer from a caller-owned session, whatever its sql_select_limit', async () => {
    const url = await databaseWith('sql_select_limit = 1')
    const pool = createPool(url)
    onTestFinished(() => pool.end())
    const hapax = createHapax({ store: mysql({ pool }), source: '/test', delivery: 'local', logger: silentLogger })
    onTestFinished(() => hapax.close())
    await hapax.migrate()
    const Ping = defineMessage('ping')
    const ran: string[] = []
    const consumers = ['a', 'b', 'c'].map((name) => hapax.consumer(name).on(Ping, () => void ran.push(name)))
    const worker = hapax.worker({ consume: consumers })
    await worker.start()
    onTestFinished(() => worker.stop())
    const own = await createConnection(url)
    onTestFinished(() => own.end())
    await own.beginTransaction()
    await hapax.publishMany(own, [Ping.of({}), Ping.of({})])
    await own.commit()
    await expect.poll(() => ran.toSorted(), { timeout: 10_000 }).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
  })
})

let postgresServer: Promise<PrivateServer> | undefined

describe.skipIf(noPrivateServer('postgres') !== undefined)('PostgreSQL', () => {
  async function urlWith(setting: string): Promise<string> {
    postgresServer ??= privateServer('postgres')
    const url = new URL((await postgresServer).url)
    url.searchParams.set('options', `-c ${setting}`)
    return url.href
  }
  const schema = (): string => `set_${randomBytes(5).toString('hex')}`

  it.for(POSTGRES)('works in sessions with %s', async (setting) => {
    await essentials(postgres({ url: await urlWith(setting), schema: schema() }))
  })

  it('refuses read-only sessions before it takes any message', async () => {
    const store = postgres({ url: await urlWith('default_transaction_read_only=on'), schema: schema() })
    onTestFinished(() => store.close())
    await expect(store.schema.migrate()).rejects.toThrow(/read-only/)
  })
})
