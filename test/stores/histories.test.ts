import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createHapax, defineMessage, messageKey, type Store, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { recordFailure } from '../../src/message/history.ts'
import { ALL_LANES } from '../../src/message/lanes.ts'
import { type DurableStore, durableStores } from '../support/databases.ts'
import { requireServer } from '../support/servers.ts'

type Table = 'inbox' | 'outbox' | 'failed'

/** What a person can do with the column. */
interface Column {
  /** Writes a text into every row of a table. */
  scribble(table: Table, text: string): Promise<unknown>
  /** How many lines and bytes the row of a table has. */
  size(table: Table): Promise<readonly [lines: number, bytes: number]>
}

type Check = <Tx, Own>(store: Store<Tx, Own>, column: Column) => Promise<void>

const Ping = defineMessage<{ n: number }>('ping')
const GARBAGE = [
  '',
  'null',
  '[{"at":1}]',
  'x\ny\n1 1 {"name":',
  '9'.repeat(5_000),
  `${'{'.repeat(900)}\n`.repeat(30),
  'ä\u0001',
]

const places: Readonly<Record<DurableStore, (check: Check) => Promise<void>>> = {
  postgres: async (check) => {
    const schema = `histories_${randomBytes(6).toString('hex')}`
    const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 4 })
    await pool.query(`create schema ${schema}`)
    onTestFinished(async () => {
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    })
    await check(postgres({ pool, schema }), {
      scribble: (table, text) => pool.query(`update ${schema}.${table} set history = $1`, [text]),
      size: async (table) => sizeOf((await pool.query(`select history from ${schema}.${table}`)).rows),
    })
  },
  mysql: async (check) => {
    const database = `hapax_${randomBytes(6).toString('hex')}`
    const admin = await mysql2.createConnection(requireServer('mysql'))
    await admin.query(`create database ${database}`)
    const pool = mysql2.createPool({ uri: requireServer('mysql'), database, connectionLimit: 4 })
    onTestFinished(async () => {
      await pool.end()
      await admin.query(`drop database ${database}`)
      await admin.end()
    })
    await check(mysql({ pool }), {
      scribble: (table, text) => admin.query(`update ${database}.hapax_${table} set history = ?`, [text]),
      size: async (table) => {
        const [rows] = await admin.query<mysql2.RowDataPacket[]>(`select history from ${database}.hapax_${table}`)
        return sizeOf(rows)
      },
    })
  },
  sqlite: async (check) => {
    const directory = await mkdtemp(join(tmpdir(), 'hapax-histories-'))
    const path = join(directory, 'test.db')
    const store = sqlite({ path })
    onTestFinished(async () => {
      await store.close()
      rmSync(directory, { recursive: true, force: true })
    })
    await check(store, {
      scribble: async (table, text) => {
        const database = new DatabaseSync(path, { timeout: 5_000 })
        database.prepare(`update hapax_${table} set history = ?`).run(text)
        database.close()
      },
      size: async (table) => {
        const database = new DatabaseSync(path, { timeout: 5_000, readOnly: true })
        const rows = database.prepare(`select history from hapax_${table}`).all()
        database.close()
        return sizeOf(rows)
      },
    })
  },
}

function sizeOf(rows: readonly Record<string, unknown>[]): readonly [lines: number, bytes: number] {
  const text = String(rows[0]?.['history'])
  return [text.split('\n').length, Buffer.byteLength(text)]
}

const hindersNobody: Check = async (store, { scribble }) => {
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  const traceOf = async (id: string, where: string) =>
    (await hapax.explain(id, '/s')).find((trace) => trace.where === where)
  await hapax.migrate()
  const consumer = hapax.consumer('billing', { retry: { attempts: 2, minDelayMs: 0, maxDelayMs: 0 } })
  consumer.on(Ping, () => Promise.reject(new Error('no')))
  for (const [index, text] of GARBAGE.entries()) {
    const id = String(index)
    await consumer.handle({ id, source: '/s', type: 'ping', data: { n: 1 } })
    await scribble('inbox', text)
    expect(await traceOf(id, 'inbox')).toMatchObject({ failures: 1, history: [] })
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    await worker.stop()
    const [failed] = await hapax.failed.list({ limit: 1 })
    expect(failed).toMatchObject({ failures: 2, history: [{ attempt: 2, message: 'no' }] })
    await scribble('failed', text)
    expect(await hapax.failed.get(String(failed?.seq))).toMatchObject({ failures: 2, history: [] })
    expect(await traceOf(id, 'failed')).toMatchObject({ failures: 2, history: [] })
    await hapax.failed.discard(String(failed?.seq))
  }
}

/** A handler, and then a broker, that fail twenty-five times with an error of a megabyte. */
const staysSmall: Check = async (store, { size }) => {
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  await hapax.migrate()
  const huge = new Error('\u0001ü'.repeat(500_000))
  const consumer = hapax.consumer('billing', { retry: { attempts: 26, minDelayMs: 0, maxDelayMs: 0 } })
  consumer.on(Ping, () => Promise.reject(huge))
  await consumer.handle({ id: 'a', source: '/s', type: 'ping', data: { n: 1 } })
  const failure = recordFailure({ worker: 'w'.repeat(1_000), redact: (text) => text }, huge)
  const seq = String(await store.inbox.find('billing', messageKey('/s', 'a')))
  for (let attempts = 2; attempts <= 25; attempts++) {
    await store.inbox.reschedule({ seq, attempts, lost: 0, delayMs: 0, leaseToken: null, ...failure })
  }
  const worker = hapax.worker({ consume: [consumer] })
  const small = [10, expect.toSatisfy((bytes: number) => bytes < 40_000)]
  expect(await size('inbox')).toEqual(small)
  await worker.start()
  await worker.drain()
  await worker.stop()
  expect(await size('failed')).toEqual(small)
  const [failed] = await hapax.failed.list()
  expect([failed?.failures, failed?.history.length]).toEqual([26, 10])
  await hapax.failed.retry(String(failed?.seq))
  expect(await size('inbox')).toEqual(small)
  await hapax.transaction((tx) => hapax.publishMany(tx, [Ping.of({ n: 1 })]))
  const share = { table: 'outbox', scope: 'default', types: [], lanes: ALL_LANES, limit: 10, after: new Map() } as const
  const [look] = await store.workers.look([share])
  for (let attempts = 1; attempts <= 25; attempts++) {
    await store.outbox.postpone([{ seq: String(look?.entries[0]?.seq), delayMs: 0, ...failure }])
  }
  expect(await size('outbox')).toEqual(small)
}

describe.for(durableStores())('on %s', (name) => {
  const on = places[name]
  it('a history that another version or a person wrote hinders nobody', () => on(hindersNobody))

  it('ten failures are stored, however many there were and whatever they said', () => on(staysSmall))
})
