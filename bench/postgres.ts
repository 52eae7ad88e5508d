import { randomUUID } from 'node:crypto'
import { createHapax, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres as postgresStore } from 'hapax/postgres'
import pg from 'pg'
import { chunks, heading, loops, type Measured, report, reportValue, sideBySide } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'

export const postgres: Part = {
  name: 'postgres',
  about: 'transactions on PostgreSQL / the same work by hand on pg',
  needs: ['postgres'],
  run,
}

const SCHEMA = 'bench_postgres'
const CONNECTIONS = 8
const GROUP_CONNECTIONS = 4

async function run(bench: Bench): Promise<void> {
  const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: CONNECTIONS })
  await pool.query(`drop schema if exists ${SCHEMA} cascade; drop schema if exists bench cascade; create schema bench`)
  await pool.query('create table bench.business (id text not null, amount integer not null)')
  const hapax = createHapax({ store: postgresStore({ pool, schema: SCHEMA }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  // By hand: the same columns and the same key as the receipts of hapax.
  await pool.query(`create table bench.receipts (like ${SCHEMA}.receipts including all)`)

  heading(`PostgreSQL, ${CONNECTIONS} connections`)
  report('one transaction per message / four statements by hand', await singles(bench, hapax, pool), 1)
  const inTurn = await groups(bench, hapax, pool, { size: 100, together: false })
  report('group of 100, handlers in turn / the same by hand', inTurn, 1.1)
  const byDefault = await groups(bench, hapax, pool, undefined)
  report('100 at a time, default options / by hand in turn', byDefault, 2.5)
  report('onMany of 500 / bulk inserts by hand', await many(bench, hapax, pool), 0.75)
  await receiptSize(pool)
  await hapax.close()
  await pool.end()
}

type HapaxOnPg = Hapax<PgTx<pg.PoolClient>, unknown>

const INSERT_EFFECT = 'insert into bench.business (id, amount) values ($1, $2)'
const INSERT_EFFECTS = 'insert into bench.business (id, amount) select * from unnest($1::text[], $2::integer[])'
const INSERT_RECEIPT = `
insert into bench.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning message_key`
const INSERT_RECEIPTS = `
insert into bench.receipts (consumer, message_key, token, source, id, type, fingerprint)
select $1, k, $2, $3, i, $4, $5 from unnest($6::uuid[], $7::text[]) as m (k, i)
on conflict do nothing returning message_key`

function singles({ rounds, size }: Bench, hapax: HapaxOnPg, pool: pg.Pool): Promise<Measured> {
  const count = size(3000, 600)
  const consumer = hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
  })
  const fingerprint = Buffer.alloc(8)
  return sideBySide(
    rounds,
    async () => {
      await loops(CONNECTIONS, messages(count), (message) => consumer.handle(message))
      return count
    },
    async () => {
      await loops(CONNECTIONS, messages(count), ({ id, source, type, data }) =>
        byHand(pool, async (client) => {
          await client.query(INSERT_RECEIPT, ['by-hand', id, randomUUID(), source, id, type, fingerprint])
          await client.query(INSERT_EFFECT, [data.orderId, data.amount])
        }),
      )
      return count
    },
  )
}

type Group = ReturnType<typeof messages>

function groups(
  { rounds, size }: Bench,
  hapax: HapaxOnPg,
  pool: pg.Pool,
  group: { readonly size: number; readonly together: boolean } | undefined,
): Promise<Measured> {
  const consumer = hapax
    .consumer(group === undefined ? 'default' : 'in-turn', group && { group })
    .on(OrderPlaced, async (order, ctx) => {
      await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
    })
  return grouped(rounds, size(20_000, 4000), 100, {
    hapax: (each) => consumer.handleMany(each),
    other: (each) =>
      byHand(pool, async (client) => {
        await client.query(INSERT_RECEIPTS, receiptsOf(each))
        for (const { data } of each) await client.query(INSERT_EFFECT, [data.orderId, data.amount])
      }),
  })
}

function many({ rounds, size }: Bench, hapax: HapaxOnPg, pool: pg.Pool): Promise<Measured> {
  const consumer = hapax.consumer('stock', { group: { size: 500 } }).onMany(OrderPlaced, async (items, ctx) => {
    await ctx.tx.query(INSERT_EFFECTS, effectsOf(items))
  })
  return grouped(rounds, size(60_000, 15_000), 500, {
    hapax: (each) => consumer.handleMany(each),
    other: (each) =>
      byHand(pool, async (client) => {
        await client.query(INSERT_RECEIPTS, receiptsOf(each))
        await client.query(INSERT_EFFECTS, effectsOf(each))
      }),
  })
}

type WorkGroup = (group: Group) => Promise<unknown>

function grouped(
  rounds: number,
  count: number,
  size: number,
  sides: { readonly hapax: WorkGroup; readonly other: WorkGroup },
): Promise<Measured> {
  const side = (work: WorkGroup) => async (): Promise<number> => {
    await loops(GROUP_CONNECTIONS, chunks(messages(count), size), work)
    return count
  }
  return sideBySide(rounds, side(sides.hapax), side(sides.other))
}

async function byHand(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<unknown>): Promise<void> {
  const client = await pool.connect()
  await client.query('begin')
  await work(client)
  await client.query('commit')
  client.release()
}

function receiptsOf(group: Group): unknown[] {
  const ids = group.map(({ id }) => id)
  return ['by-hand', randomUUID(), '/shop', OrderPlaced.type, Buffer.alloc(8), ids, ids]
}

function effectsOf(items: readonly { readonly data: Group[number]['data'] }[]): unknown[] {
  return [items.map(({ data }) => data.orderId), items.map(({ data }) => data.amount)]
}

async function receiptSize(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ bytes: string; count: string }>(
    `select pg_total_relation_size('${SCHEMA}.receipts') as bytes, count(*) as count from ${SCHEMA}.receipts`,
  )
  const { bytes, count } = rows[0] ?? { bytes: '0', count: '1' }
  const aim = { of: 'hapax', most: 200 } as const
  reportValue('bytes per receipt, with its index', Number(bytes) / Number(count), 'bytes', { aim })
}
