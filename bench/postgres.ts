import { randomUUID } from 'node:crypto'
import { createHapax, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { chunks, heading, loops, type Measured, report, sideBySide } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'

const CONNECTIONS = 8
const GROUP_CONNECTIONS = 4
const ROUNDS = 5

/** Compares hapax on PostgreSQL with the same work written by hand on `pg`. */
export async function benchPostgres(url: string): Promise<void> {
  const admin = new pg.Pool({ connectionString: url, max: 2 })
  await admin.query('drop schema if exists hapax cascade; drop schema if exists bench cascade; create schema bench')
  await admin.query('create table bench.business (id text not null, amount integer not null)')
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS })
  const hapax = createHapax({ store: postgres({ pool }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  // By hand: the same columns and the same key as the receipts of hapax.
  await admin.query('create table bench.receipts (like hapax.receipts including all)')

  const { version } = (await admin.query<{ version: string }>('select version()')).rows[0] ?? { version: '' }
  heading(`PostgreSQL (${version.split(' ')[1]}, pg ${CONNECTIONS} connections)`)
  const single = await singles(hapax, pool)
  report('one transaction per message / four statements', single, 0.9)
  const grouped = await groups(hapax, pool)
  report('group of 100 / the same transaction by hand', grouped, 0.7)
  report('group of 100 / one transaction per message', versus(grouped.hapax, single.hapax), 5)
  report('onMany of 500 / bulk inserts by hand', await many(hapax, pool), 0.6)
  await fullTable(admin, hapax, pool)
  await receiptSize(admin)
  await hapax.close()
  await pool.end()
  await admin.end()
}

const versus = (hapax: number, other: number): Measured => ({ hapax, other, ratio: hapax / other })

const INSERT_EFFECT = 'insert into bench.business (id, amount) values ($1, $2)'
const INSERT_RECEIPT = `
insert into bench.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning message_key`
const INSERT_RECEIPTS = `
insert into bench.receipts (consumer, message_key, token, source, id, type, fingerprint)
select $1, k, $2, $3, i, $4, $5 from unnest($6::uuid[], $7::text[]) as m (k, i)
on conflict do nothing returning message_key`

function consumerOf(hapax: HapaxOnPg, name: string, size = 1) {
  const consumer = hapax.consumer(name, { group: { size }, concurrency: CONNECTIONS })
  return consumer.on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
  })
}

type HapaxOnPg = Hapax<PgTx<pg.PoolClient>, unknown>

function singles(hapax: HapaxOnPg, pool: pg.Pool, count = 3000): Promise<Measured> {
  const consumer = consumerOf(hapax, 'billing')
  const fingerprint = Buffer.alloc(8)
  return sideBySide(
    ROUNDS,
    async () => {
      await loops(CONNECTIONS, messages(count), (message) => consumer.handle(message))
      return count
    },
    async () => {
      await loops(CONNECTIONS, messages(count), async ({ id, source, type, data }) => {
        const client = await pool.connect()
        await client.query('begin')
        await client.query(INSERT_RECEIPT, ['by-hand', id, randomUUID(), source, id, type, fingerprint])
        await client.query(INSERT_EFFECT, [data.orderId, data.amount])
        await client.query('commit')
        client.release()
      })
      return count
    },
  )
}

function groups(hapax: HapaxOnPg, pool: pg.Pool, count = 20_000, size = 100): Promise<Measured> {
  const consumer = consumerOf(hapax, 'grouped', size)
  return sideBySide(
    ROUNDS,
    async () => {
      await loops(GROUP_CONNECTIONS, chunks(messages(count), size), (group) => consumer.handleMany(group))
      return count
    },
    async () => {
      await loops(GROUP_CONNECTIONS, chunks(messages(count), size), async (group) => {
        const client = await pool.connect()
        await client.query('begin')
        await client.query(INSERT_RECEIPTS, bulkReceipts(group.map((message) => message.id)))
        for (const { data } of group) await client.query(INSERT_EFFECT, [data.orderId, data.amount])
        await client.query('commit')
        client.release()
      })
      return count
    },
  )
}

const INSERT_EFFECTS = 'insert into bench.business (id, amount) select * from unnest($1::text[], $2::integer[])'

function many(hapax: HapaxOnPg, pool: pg.Pool, count = 60_000, size = 500): Promise<Measured> {
  const consumer = hapax.consumer('stock', { group: { size }, concurrency: CONNECTIONS })
  consumer.onMany(OrderPlaced, async (items, ctx) => {
    const orders = items.map((item) => item.data)
    await ctx.tx.query(INSERT_EFFECTS, [orders.map((order) => order.orderId), orders.map((order) => order.amount)])
  })
  return sideBySide(
    ROUNDS,
    async () => {
      await loops(GROUP_CONNECTIONS, chunks(messages(count), size), (group) => consumer.handleMany(group))
      return count
    },
    async () => {
      await loops(GROUP_CONNECTIONS, chunks(messages(count), size), async (group) => {
        const client = await pool.connect()
        await client.query('begin')
        await client.query(INSERT_RECEIPTS, bulkReceipts(group.map((message) => message.id)))
        const orders = group.map((message) => message.data)
        await client.query(INSERT_EFFECTS, [orders.map((order) => order.orderId), orders.map((order) => order.amount)])
        await client.query('commit')
        client.release()
      })
      return count
    },
  )
}

function bulkReceipts(ids: readonly string[]): unknown[] {
  return ['by-hand', randomUUID(), '/shop', OrderPlaced.type, Buffer.alloc(8), ids, ids]
}

/** The same work with a million receipts of the same consumer already there, beside a consumer without any. */
async function fullTable(admin: pg.Pool, hapax: HapaxOnPg, pool: pg.Pool): Promise<void> {
  const full = createHapax({ store: postgres({ pool, schema: 'bench_full' }), source: '/bench', logger: silentLogger })
  await admin.query('drop schema if exists bench_full cascade')
  await full.migrate()
  const consumer = full.consumer('full').on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
  })
  await admin.query(`
insert into bench_full.receipts (consumer, message_key, token, source, id, type, fingerprint)
select 'full', (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 1000000 + n), 12, '0') || '8' || substr(md5(n::text), 1, 19))::uuid,
  gen_random_uuid(), '/shop', gen_random_uuid()::text, 'order.placed', '\\x0011223344556677'
from generate_series(1, 1000000) as n order by 2`)
  await admin.query('vacuum analyze bench_full.receipts')
  await admin.query('checkpoint')
  const empty = consumerOf(hapax, 'empty')
  const count = 3000
  const measured = await sideBySide(
    ROUNDS,
    async () => {
      await loops(CONNECTIONS, messages(count), (message) => consumer.handle(message))
      return count
    },
    async () => {
      await loops(CONNECTIONS, messages(count), (message) => empty.handle(message))
      return count
    },
  )
  report('1,000,000 receipts already there / few', measured, 0.9)
  await admin.query('drop schema bench_full cascade')
}

async function receiptSize(admin: pg.Pool): Promise<void> {
  const { rows } = await admin.query<{ heap: string; index: string; count: string }>(`
select pg_relation_size('hapax.receipts') as heap, pg_indexes_size('hapax.receipts') as index, count(*) as count from hapax.receipts`)
  const { heap, index, count } = rows[0] ?? { heap: '0', index: '0', count: '1' }
  const [perHeap, perIndex] = [Number(heap) / Number(count), Number(index) / Number(count)]
  console.log(
    `bytes per receipt: ${(perHeap + perIndex).toFixed(0)} (heap ${perHeap.toFixed(0)}, index ${perIndex.toFixed(0)}; aim <= 200)`,
  )
}
