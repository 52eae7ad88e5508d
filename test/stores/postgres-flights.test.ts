import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { type PostgresStatements, postgres } from 'hapax/postgres'
import type pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, serverVariables } from '../support/servers.ts'

const connectionString = requireServer('postgres')
const admin = pgPool({ connectionString, max: 2 })
afterAll(() => admin.end())

const Ping = defineMessage<{ n: number }>('ping')
const message = (id: string) => ({ id, source: '/s', type: 'ping', data: { n: 1 } })
let opened = 0

async function setUp(config: pg.PoolConfig = {}, options: PostgresStatements = {}) {
  const schema = `flights_${process.pid}_${++opened}`
  await admin.query(`create schema ${schema}; create table ${schema}.business (label text primary key, more bytea)`)
  const pool = pgPool({ connectionString, max: 2, ...config })
  onTestFinished(async () => {
    await pool.end()
    await admin.query(`drop schema ${schema} cascade`)
  })
  const hapax = createHapax({ store: postgres({ pool, schema, ...options }), source: '/test', logger: silentLogger })
  await createHapax({ store: postgres({ pool: admin, schema }), source: '/test' }).migrate()
  const labels = async (): Promise<string[]> => {
    const { rows } = await admin.query(`select label from ${schema}.business order by label`)
    return rows.map(({ label }) => label)
  }
  return { schema, pool, hapax, labels, insert: `insert into ${schema}.business (label) values ($1)` }
}

/** Counts what is written to the server: each piece is one way of a round trip. */
function counting(): { config: pg.PoolConfig; writes(): number; reset(): void } {
  let count = 0
  // Not write(): connect() sets that anew.
  class CountingSocket extends Socket {
    override _write(...args: Parameters<Socket['_write']>): void {
      count += 1
      super._write(...args)
    }
  }
  const stream = (): Socket => new CountingSocket()
  const config = { stream }
  return {
    config,
    writes: () => count,
    reset: () => {
      count = 0
    },
  }
}

describe('the statements of one step', () => {
  it('are one write, and the statements that a handler sends together are another', async () => {
    const { config, writes, reset } = counting()
    const { hapax, labels, insert } = await setUp({ ...config, max: 1 })
    const consumer = hapax.consumer('c').on(Ping, async (_, { tx, message: { id } }) => {
      await Promise.all(['x', 'y', 'z'].map((label) => tx.query(insert, [`${id} ${label}`])))
    })
    for (const id of ['a', 'b', 'c', 'd']) await consumer.handle(message(id))
    reset()
    await consumer.handle(message('e'))
    expect(writes()).toBe(3)
    expect(await labels()).toHaveLength(15)
  })

  it('are parsed once per connection', async () => {
    const { hapax, pool, insert } = await setUp({ max: 1 })
    const consumer = hapax.consumer('c').on(Ping, async (_, { tx, message: { id } }) => {
      await tx.query(insert, [id])
    })
    const names = async (): Promise<number> => {
      const { rows } = await pool.query(`select count(*)::int from pg_prepared_statements where name like 'hapax_%'`)
      return rows[0].count
    }
    for (const id of ['a', 'b', 'c', 'd']) await consumer.handle(message(id))
    const before = await names()
    expect(before).toBeGreaterThan(4)
    for (const id of ['e', 'f', 'g']) await consumer.handle(message(id))
    expect(await names()).toBe(before)
  })

  it.each<[string, boolean]>([
    ['in pipeline mode', true],
    ['one by one', false],
  ])('travel on the pool of a user whose clients work %s, which stays so', async (_, pipeline) => {
    const { hapax, pool, labels, insert } = await setUp({ max: 1, pipeline } as pg.PoolConfig)
    const consumer = hapax.consumer('c').on(Ping, async (_data, { tx, message: { id } }) => {
      await Promise.all([tx.query(insert, [`${id} 1`]), tx.query(insert, [`${id} 2`])])
    })
    expect(await consumer.handle(message('a'))).toMatchObject({ status: 'processed' })
    const client = await pool.connect()
    expect(Boolean(Reflect.get(client, 'pipeline'))).toBe(pipeline)
    client.release()
    expect(await labels()).toEqual(['a 1', 'a 2'])
  })
})

describe('statements that a handler sends together', () => {
  it('get the results that pg would give, each its own', async () => {
    const { hapax, insert, schema } = await setUp()
    const result = await hapax.transaction(async (tx) => {
      const bytes = Buffer.from([0, 255, 92])
      const [inserted, selected, none, other] = await Promise.all([
        tx.query(insert, ['a']),
        tx.query('select $1::int as n, $2::text as text, $3::bytea as bytes, $4::jsonb as json, $5::text as nothing', [
          7,
          `a'b\\c`,
          bytes,
          { x: [1] },
          null,
        ]),
        tx.query(`select 1 from ${schema}.business where label = $1`, ['nobody']),
        tx.query('select 1 as one; select 2 as two'),
      ])
      return { inserted, selected, none, other }
    })
    expect(result.inserted).toMatchObject({ command: 'INSERT', rowCount: 1 })
    expect(result.selected.rows).toEqual([
      { n: 7, text: `a'b\\c`, bytes: Buffer.from([0, 255, 92]), json: { x: [1] }, nothing: null },
    ])
    expect(result.none).toMatchObject({ rows: [], rowCount: 0 })
    expect(result.other).toMatchObject([{ rows: [{ one: 1 }] }, { rows: [{ two: 2 }] }])
  })

  it('fail as they would one by one: those behind the first error were not run', async () => {
    const { hapax, labels, insert } = await setUp()
    const ended = hapax.transaction(async (tx) => {
      const settled = await Promise.allSettled(['a', 'a', 'b'].map((label) => tx.query(insert, [label])))
      const codes = settled.map((each) => (each.status === 'rejected' ? each.reason.code : 'done'))
      expect(codes).toEqual(['done', '23505', '25P02'])
      throw new Error('over')
    })
    await expect(ended).rejects.toThrow('over')
    expect(await labels()).toEqual([])
  })

  it('keep their order beside those of the client', async () => {
    const { hapax, insert, schema } = await setUp()
    await hapax.transaction(async (tx) => {
      const first = tx.query(insert, ['a'])
      const second = tx.client.query(`select label from ${schema}.business`)
      const third = tx.query(insert, ['b'])
      await Promise.all([first, third])
      expect((await second).rows).toEqual([{ label: 'a' }])
    })
  })
})

describe('what a handler sends', () => {
  it('keeps its order when statements with and without values wait for the client', async () => {
    const { hapax, insert, schema } = await setUp()
    const seen = await hapax.transaction(async (tx) => {
      const all = `select string_agg(label, ' ' order by label) as labels from ${schema}.business`
      const sent = [
        tx.query(insert, ['a']),
        tx.query(`insert into ${schema}.business (label) values ('b')`),
        tx.query(insert, ['c']),
        tx.client.query(all),
      ]
      return (await Promise.all(sent)).at(-1)?.rows
    })
    expect(seen).toEqual([{ labels: 'a b c' }])
  })

  it('may have as many values as with pg', async () => {
    const { hapax, schema, labels } = await setUp()
    const places = Array.from({ length: 40_000 }, (_, index) => `($${index + 1})`)
    await hapax.transaction((tx) => tx.query(`insert into ${schema}.business (label) values ${places.join()}`, places))
    expect(await labels()).toHaveLength(40_000)
  })

  it('fails where it was sent if the client cannot take it at all', async () => {
    const { hapax, insert } = await setUp()
    const nothing: string = JSON.parse('null')
    const codes = await hapax.transaction(async (tx) => {
      const sent = [tx.query(insert, ['a']), tx.query(nothing), tx.query(insert, ['b'])]
      return (await Promise.allSettled(sent)).map(({ status }) => status)
    })
    expect(codes).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  })
})

describe('names that the server does not know', () => {
  it('cost no message where someone has discarded them', async () => {
    const { hapax, pool, labels, insert } = await setUp({ max: 1 })
    const attempts: number[] = []
    const consumer = hapax.consumer('c').on(Ping, async (_, { tx, message: { id }, attempt }) => {
      attempts.push(attempt)
      await tx.query(insert, [id])
    })
    for (let n = 0; n < 12; n++) {
      if (n % 3 === 2) await pool.query('deallocate all')
      expect(await consumer.handle(message(`m${n}`))).toMatchObject({ status: 'processed' })
    }
    expect(await labels()).toHaveLength(12)
    expect(new Set(attempts)).toEqual(new Set([1]))
  })

  const pgbouncer = process.env[serverVariables.pgbouncer]
  it.skipIf(!pgbouncer)('are given up behind a pooler, with one warning (skipped without PgBouncer)', async () => {
    const warnings: string[] = []
    const listen = (warning: Error & { code?: string }): void => void warnings.push(String(warning.code))
    process.on('warning', listen)
    onTestFinished(() => void process.off('warning', listen))
    const { hapax, labels, insert } = await setUp({ connectionString: pgbouncer, max: 8 }, { prepare: true })
    const consumer = hapax.consumer('c', { concurrency: 8 }).on(Ping, async (_, { tx, message: { id } }) => {
      await tx.query(insert, [id])
      await delay(1)
    })
    for (let round = 0; round < 20; round++) {
      const ids = Array.from({ length: 16 }, (_, index) => `m${round} ${index}`)
      const outcomes = await Promise.all(ids.map((id) => consumer.handle(message(id))))
      expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['processed']))
    }
    expect(await labels()).toHaveLength(320)
    expect(warnings.filter((code) => code === 'HAPAX_NO_PREPARED_STATEMENTS').length).toBeLessThanOrEqual(1)
  })
})
