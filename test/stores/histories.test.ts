import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createHapax, defineMessage, type Store, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { requireServer } from '../support/servers.ts'

/** Writes a text into the history of every row of a table, as a person would. */
type Scribble = (table: 'inbox' | 'failed', text: string) => Promise<unknown>

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

const places: Readonly<Record<string, () => Promise<void>>> = {
  postgres: async () => {
    const schema = `histories_${randomBytes(6).toString('hex')}`
    const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 4 })
    await pool.query(`create schema ${schema}`)
    onTestFinished(async () => {
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    })
    await hindersNobody(postgres({ pool, schema }), (table, text) =>
      pool.query(`update ${schema}.${table} set history = $1`, [text]),
    )
  },
  mysql: async () => {
    const database = `hapax_${randomBytes(6).toString('hex')}`
    const admin = await mysql2.createConnection(requireServer('mysql'))
    await admin.query(`create database ${database}`)
    const pool = mysql2.createPool({ uri: requireServer('mysql'), database, connectionLimit: 4 })
    onTestFinished(async () => {
      await pool.end()
      await admin.query(`drop database ${database}`)
      await admin.end()
    })
    await hindersNobody(mysql({ pool }), (table, text) =>
      admin.query(`update ${database}.hapax_${table} set history = ?`, [text]),
    )
  },
  sqlite: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'hapax-histories-'))
    const path = join(directory, 'test.db')
    const store = sqlite({ path })
    onTestFinished(async () => {
      await store.close()
      rmSync(directory, { recursive: true, force: true })
    })
    await hindersNobody(store, async (table, text) => {
      const database = new DatabaseSync(path, { timeout: 5_000 })
      database.prepare(`update hapax_${table} set history = ?`).run(text)
      database.close()
    })
  },
}

async function hindersNobody<Tx, Own>(store: Store<Tx, Own>, scribble: Scribble): Promise<void> {
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

it.for(Object.entries(places))('%s: a history that another version or a person wrote hinders nobody', ([, run]) =>
  run(),
)
