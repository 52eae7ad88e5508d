import { randomBytes } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { createHapax, defineMessage, type Hapax, type Store, silentLogger } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer } from '../support/servers.ts'

const Thing = defineMessage<object>('thing.done')
const schema = `link_${randomBytes(6).toString('hex')}`
const url = requireServer('postgres')
const admin = pgPool({ connectionString: url, max: 2 })

beforeAll(async () => {
  await admin.query(`create schema ${schema}`)
  await admin.query(`create table ${schema}.notes (note text)`)
  await postgres({ pool: admin, schema }).schema.migrate()
})

afterAll(async () => {
  await admin.query(`drop schema ${schema} cascade`)
  await admin.end()
})

function poolOf(max = 1, settings: pg.PoolConfig = {}): pg.Pool {
  const pool = pgPool({ connectionString: url, max, ...settings })
  onTestFinished(() => pool.end())
  return pool
}

type Query = (text: string) => Promise<{ readonly rows: readonly Record<string, unknown>[] }>

/** The ways to reach PostgreSQL: a store on a pool, and how a handler runs a statement. */
interface Way {
  store(pool: pg.Pool): Store<never>
  query(tx: never): Query
}

const ways: Readonly<Record<string, Way>> = {
  pg: {
    store: (pool) => postgres({ pool, schema, control: { url } }) as unknown as Store<never>,
    query: (tx) => (text) => (tx as { query: Query }).query(text),
  },
  drizzle: {
    store: (pool) => postgres(fromDrizzle(drizzle(pool), sql), { schema }) as unknown as Store<never>,
    query: (tx) => (text) => (tx as { execute(query: unknown): ReturnType<Query> }).execute(sql.raw(text)),
  },
}

const arrived = (id: string) => ({ id, source: '/test', type: 'thing.done', data: {} })

function hapaxOn(store: Store<never>): Hapax<never, never> {
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  onTestFinished(() => hapax.close())
  return hapax
}

const notes = async (note: string): Promise<number> =>
  (await admin.query(`select from ${schema}.notes where note = '${note}'`)).rows.length

describe.each(Object.entries(ways))('%s', (name, { store, query }) => {
  it('K10: does not use a connection again that has become read-only', async () => {
    const pool = poolOf()
    const consumer = hapaxOn(store(pool)).consumer(`readers-${name}`)
    consumer.on(Thing, async (_, { tx }) => void (await query(tx)(`insert into ${schema}.notes values ('${name}')`)))
    expect((await consumer.handle(arrived('first'))).status).toBe('processed')
    // What a client sees of a primary that has become a standby.
    await pool.query('set session characteristics as transaction read only')
    expect((await consumer.handle(arrived('a'))).status).toBe('processed')
    expect(await notes(name)).toBe(2)
  })

  it('K10: does not use a connection again that became read-only under a handler', async () => {
    const pool = poolOf()
    const consumer = hapaxOn(store(pool)).consumer(`under-${name}`)
    const pids: unknown[] = []
    consumer.on(Thing, async (_, { tx }) => {
      pids.push((await query(tx)('select pg_backend_pid() as pid')).rows[0]?.['pid'])
      if (pids.length > 1) return
      await query(tx)('set session characteristics as transaction read only')
      await query(tx)('set transaction read only')
      await query(tx)(`insert into ${schema}.notes values ('read-only')`)
    })
    const first = await consumer.handle(arrived('a')).catch((error: unknown) => error)
    expect(first).toMatchObject({ ack: false })
    expect((await consumer.handle(arrived('a'))).status).toBe('processed')
    expect(new Set(pids).size).toBe(2)
  })

  it.each<[string, string, string]>([
    ['a role', `set role pg_read_all_settings`, `select current_user as v`],
    ['a search path', `set search_path to pg_catalog`, `select current_setting('search_path') as v`],
    ['a time zone', `set time zone 'Asia/Tokyo'`, `select current_setting('TimeZone') as v`],
    [
      'read only, by a function',
      `do $$ begin perform set_config('default_transaction_read_only', 'on', false); end $$`,
      `select current_setting('default_transaction_read_only') as v`,
    ],
  ])('K10: %s that a handler leaves behind does not reach the next message', async (what, leave, look) => {
    const consumer = hapaxOn(store(poolOf(1))).consumer(`sessions-${name}-${what}`)
    const seen: unknown[] = []
    consumer.on(Thing, async (_, { tx, message: { id } }) => {
      seen.push((await query(tx)(look)).rows[0]?.['v'])
      if (id === 'a') await query(tx)(leave)
    })
    // A role that may not write would keep the publishes of a handler from being written, so it has none.
    for (const id of ['a', 'b']) expect((await consumer.handle(arrived(id))).status).toBe('processed')
    expect(seen[1]).toBe(seen[0])
  })

  it.each(['XX000', '53100', '58030'])(
    'K12: an error of class %s in a handler’s own SQL is an attempt',
    async (code) => {
      const consumer = hapaxOn(store(poolOf(2))).consumer(`attempts-${name}`)
      consumer.on(Thing, async (_, { tx }) => {
        await query(tx)(`do $$ begin raise exception using errcode = '${code}'; end $$`)
      })
      const outcome = await consumer.handle(arrived(code))
      expect(outcome.status).toBe('retrying')
    },
  )

  it('K16: what the client cannot send is no unknown commit', async () => {
    const consumer = hapaxOn(store(poolOf(2))).consumer(`unsent-${name}`)
    // PostgreSQL has no U+0000 in its texts.
    consumer.on(Thing, async (_, ctx) => void (await ctx.publish(Thing, {}, { relay: 'a\0b' })))
    expect((await consumer.handle(arrived('a'))).status).toBe('retrying')
  })
})

describe('what a handler leaves behind', () => {
  const NOTHING = { v: null, t: null }

  it.each([
    `select set_config('app.tenant', 'one', false)`,
    `set app.tenant = 'one'`,
    `create temp table left_behind (id int)`,
  ])('K10: is gone for the next message: %s', async (leave) => {
    const consumer = hapaxOn(
      postgres({ pool: poolOf(1), schema, control: { url } }) as unknown as Store<never>,
    ).consumer(leave)
    const seen: unknown[] = []
    consumer.on(Thing, async (_, { tx }) => {
      const query = ways['pg']?.query(tx) as Query
      const look = `select nullif(current_setting('app.tenant', true), '') as v, to_regclass('left_behind')::text as t`
      seen.push((await query(look)).rows[0])
      await query(leave)
    })
    for (const id of ['a', 'b']) expect((await consumer.handle(arrived(id))).status).toBe('processed')
    expect(seen).toEqual([NOTHING, NOTHING])
  })

  it('K10: keeps its connection where it is only set for the transaction', async () => {
    const consumer = hapaxOn(
      postgres({ pool: poolOf(1), schema, control: { url } }) as unknown as Store<never>,
    ).consumer('local')
    const pids = new Set<unknown>()
    consumer.on(Thing, async (_, { tx }) => {
      const query = ways['pg']?.query(tx) as Query
      pids.add((await query('select pg_backend_pid() as pid')).rows[0]?.['pid'])
      await query(`set local search_path to pg_catalog`)
      await query(`select set_config('app.tenant', 'one', true)`)
    })
    for (const id of ['a', 'b']) expect((await consumer.handle(arrived(id))).status).toBe('processed')
    expect(pids.size).toBe(1)
  })
})

describe('deliveries that are stored', () => {
  const storing = (pool: pg.Pool, name: string) =>
    hapaxOn(postgres({ pool, schema, control: { url } }) as unknown as Store<never>)
      .consumer(name, { receive: 'store' })
      .on(Thing, () => {})

  it('cost one round trip, receipts and all', async () => {
    const pool = poolOf(1)
    const clients = new Set<unknown>()
    pool.on('connect', (client) => clients.add(client))
    const consumer = storing(pool, 'one-trip')
    await consumer.handle(arrived('before'))
    // Not on the client itself: one whose own method was replaced gets texts only.
    const query = vi.spyOn(pg.Client.prototype, 'query')
    onTestFinished(() => query.mockRestore())
    const ids = Array.from({ length: 200 }, (_, index) => `trip-${index}`)
    const outcomes = await consumer.handleMany(ids.map(arrived))
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['stored']))
    // Others in this process, such as control connections, are left out.
    expect(query.mock.contexts.filter((client) => clients.has(client))).toHaveLength(1)
  })

  it('K10: are not written in a session that a handler has changed', async () => {
    const pool = poolOf(1)
    let connections = 0
    pool.on('connect', () => (connections += 1))
    const hapax = hapaxOn(postgres({ pool, schema, control: { url } }) as unknown as Store<never>)
    // By a function, where the statement does not show it.
    await admin.query(`
create function ${schema}.leave() returns text language sql as $$ select set_config('synchronous_commit', 'off', false) $$`)
    const leaving = hapax
      .consumer('leaving')
      .on(Thing, async (_, { tx }) => void (await ways['pg']?.query(tx)(`select ${schema}.leave()`)))
    const consumer = hapax.consumer('not-there', { receive: 'store' }).on(Thing, () => {})
    expect(await leaving.handle(arrived('a'))).toMatchObject({ status: 'processed' })
    expect(connections).toBe(1)
    expect(await consumer.handle(arrived('a'))).toMatchObject({ status: 'stored' })
    expect(connections).toBe(2)
  })
})

describe('a single client', () => {
  it('K5: is refused: two transactions at the same time would be one', () => {
    const client = new pg.Client(url)
    expect(() => postgres(fromDrizzle(drizzle(client), sql))).toThrow(
      'expected db to be a Drizzle database on a Pool of pg',
    )
    expect(() => postgres({ pool: client as never })).toThrow('expected pool to be a pool of pg')
  })
})

describe('results that are not what was asked for', () => {
  /** What plugins for camelCase do. */
  function camelCase(pool: pg.Pool): pg.Pool {
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<pg.QueryResult>
      const renamed = ({ rows }: pg.QueryResult) => {
        for (const [at, row] of rows.entries()) {
          rows[at] = Object.fromEntries(
            Object.entries(row).map(([key, value]) => [
              key.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase()),
              value,
            ]),
          )
        }
      }
      client.query = (async (...args: unknown[]) => {
        const answer = await query(...args)
        // Not in callback style.
        for (const each of [answer ?? []].flat()) renamed(each)
        return answer
      }) as never
    })
    return pool
  }

  /** What `types` of a pool do. */
  const parsing = (oid: number, parse: (text: string) => unknown) => ({
    types: { getTypeParser: (id: number, format?: never) => (id === oid ? parse : pg.types.getTypeParser(id, format)) },
  })

  const BIGINT = 20
  it.each(['pg', 'drizzle'])('K3: names in camelCase are refused (%s)', async (name) => {
    const ready = ways[name]?.store(camelCase(poolOf(2))).schema.ready()
    await expect(ready).rejects.toMatchObject({ code: 'unrecognised-result' })
  })

  it.each<[string, number, (text: string) => unknown]>([
    ['bytes as texts', 17, (text) => text],
    ['truth values as words', 16, (text) => (text === 't' ? 'yes' : 'no')],
    ['texts that are trimmed', 25, (text) => text.trim()],
  ])('K3: %s are refused', async (_, oid, parse) => {
    const ready = ways['pg']?.store(poolOf(2, parsing(oid, parse) as never)).schema.ready()
    await expect(ready).rejects.toMatchObject({ code: 'unrecognised-result' })
  })

  it('K3: a message is not handled twice where names are in camelCase', async () => {
    for (const [name, { store }] of Object.entries(ways)) {
      const consumer = hapaxOn(store(camelCase(poolOf(2)))).consumer(`camels-${name}`)
      let calls = 0
      consumer.on(Thing, () => {
        calls += 1
      })
      for (let delivery = 0; delivery < 3; delivery++) await consumer.handle(arrived('a')).catch(() => {})
      expect(calls).toBeLessThan(2)
    }
  })

  it('K3: large numbers as bigints are as good', async () => {
    for (const { store } of Object.values(ways)) await store(poolOf(2, parsing(BIGINT, BigInt) as never)).schema.ready()
  })
})

describe('a handler that outlives its time in a session that control work may not end', () => {
  it('has used up an attempt: its server is there, and tells that it goes on', async () => {
    const role = `other_${randomBytes(6).toString('hex')}`
    await admin.query(`create role ${role} login`)
    await admin.query(
      `grant usage on schema ${schema} to ${role}; grant all on all tables in schema ${schema} to ${role}`,
    )
    const other = new URL(url)
    other.username = role
    const hapax = createHapax({
      store: postgres({ pool: poolOf(2), schema, control: { url: other.href } }),
      source: '/test',
      logger: silentLogger,
    })
    try {
      const consumer = hapax.consumer('patient', { timeoutMs: 300 })
      consumer.on(Thing, async (_, ctx) => void (await ctx.tx.query('select pg_sleep(6.5)')))
      const outcome = await consumer.handle(arrived('slow'))
      expect(outcome).toMatchObject({ status: 'retrying', error: { code: 'handler-timeout' } })
    } finally {
      await hapax.close()
      await admin.query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})

describe('a handler that outlives its time while control work', () => {
  const slow = async (control: string, before: (hapax: Hapax<never, never>) => unknown): Promise<unknown> => {
    const store = postgres({ pool: poolOf(2), schema, control: { url: control } }) as unknown as Store<never>
    const hapax = hapaxOn(store)
    await before(hapax)
    const consumer = hapax.consumer('slow', { timeoutMs: 300 })
    consumer.on(Thing, async (_, { tx }) => void (await ways['pg']?.query(tx)('select pg_sleep(2)')))
    return consumer.handle(arrived(randomBytes(6).toString('hex'))).catch((error: unknown) => error)
  }

  it('gets no connection has used up an attempt: that does not mean that its server is gone', async () => {
    await using proxy = await LinkProxy.open(url)
    const outcome = await slow(proxy.url, () => proxy.freeze())
    expect(outcome).toMatchObject({ status: 'retrying', error: { code: 'handler-timeout' } })
  })

  it('gets no answer on its connection has not: it may have waited for a server that is gone', async () => {
    await using proxy = await LinkProxy.open(url)
    const outcome = await slow(proxy.url, async (hapax) => {
      await hapax.status()
      proxy.freeze()
    })
    expect(outcome).toMatchObject({ ack: false })
  })

  it('gets no connection has not, if that is because the others get no answer', async () => {
    await using proxy = await LinkProxy.open(url)
    const unanswered: Promise<unknown>[] = []
    const outcome = await slow(proxy.url, async (hapax) => {
      await hapax.status()
      proxy.freeze()
      for (let n = 0; n < 4; n++) unanswered.push(hapax.status().catch(() => {}))
    })
    expect(outcome).toMatchObject({ ack: false })
    proxy.refuse()
    await Promise.all(unanswered)
  })

  it('is refused has not', async () => {
    await using proxy = await LinkProxy.open(url)
    expect(await slow(proxy.url, () => proxy.refuse())).toMatchObject({ ack: false })
  })
})

it.each(['direct', 'store'] as const)(
  'A4: a handler that commits and then loses its session fails as broken atomicity: %s',
  async (receive) => {
    const hapax = createHapax({ store: postgres({ pool: poolOf(4), schema }), source: '/test', logger: silentLogger })
    const consumer = hapax.consumer(`ends ${receive}`, { receive }).on(Thing, async (_, { tx }) => {
      const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
      await tx.query(`insert into ${schema}.notes values ('${receive}')`)
      await tx.query('commit')
      await admin.query('select pg_terminate_backend($1, 10000)', [rows[0]?.pid])
      await tx.query(`insert into ${schema}.notes values ('after')`)
    })
    await consumer.handle({ id: receive, source: '/test', type: Thing.type, data: {} })
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    await worker.stop()
    const failed = await hapax.failed.list({ consumer: `ends ${receive}` })
    expect(failed.map(({ reason }) => reason)).toEqual(['broken-atomicity'])
    await hapax.close()
  },
)
