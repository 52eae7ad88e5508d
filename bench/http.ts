import { randomUUID } from 'node:crypto'
import { createHapax, silentLogger } from 'hapax'
import { postgres as postgresStore } from 'hapax/postgres'
import pg from 'pg'
import { heading, loops, report, type Side, sideBySide } from './measure.ts'
import type { Bench, Part } from './part.ts'

export const http: Part = {
  name: 'http',
  about: 'HTTP requests with a key on PostgreSQL: hapax.http / by hand',
  needs: ['postgres'],
  run,
}

const SCHEMA = 'bench_http'
const LOOPS = 4
const INSERT = `insert into ${SCHEMA}.orders (id, amount) values ($1, $2)`

async function run(bench: Bench): Promise<void> {
  const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: 8 })
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  const hapax = createHapax({ store: postgresStore({ pool, schema: SCHEMA }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  await pool.query(`create table ${SCHEMA}.orders (id text not null, amount integer not null)`)
  await pool.query(`create table ${SCHEMA}.keys (key text primary key, status integer, body text)`)
  const handler = hapax.http('orders', { principal: () => 'user-1' }).handler(async (request, ctx) => {
    const order = (await request.json()) as { id: string; amount: number }
    await ctx.tx.query(INSERT, [order.id, order.amount])
    return Response.json({ id: order.id }, { status: 201 })
  })
  const count = bench.size(10_000, 1_000)
  const first = (handle: Handle): Side => over(handle, () => Array.from({ length: count }, () => randomUUID()))
  const keys = Array.from({ length: 500 }, () => randomUUID())
  const again = (handle: Handle): Side =>
    over(handle, () => Array.from({ length: count }, (_, n) => String(keys[n % 500])))
  const hand = byHand(pool)
  for (const key of keys) for (const handle of [handler, hand]) await handle(order(key))

  heading('HTTP requests, one order each')
  report('first requests: hapax.http / by hand', await sideBySide(bench.rounds, first(handler), first(hand)))
  report('repeated requests: hapax.http / by hand', await sideBySide(bench.rounds, again(handler), again(hand)))

  await hapax.close()
  await pool.query(`drop schema ${SCHEMA} cascade`)
  await pool.end()
}

type Handle = (request: Request) => Promise<Response>

function order(key: string): Request {
  return new Request('http://shop.test/orders', {
    method: 'POST',
    headers: { 'idempotency-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ id: key, amount: 1 }),
  })
}

function over(handle: Handle, keys: () => readonly string[]): Side {
  return async () => {
    const all = keys()
    await loops(LOOPS, all, async (key) => {
      const response = await handle(order(key))
      if (response.status !== 201) throw new Error(`expected 201, got ${response.status}`)
      await response.arrayBuffer()
    })
    return all.length
  }
}

/**
 * What people write who know how: the key is inserted first, in the transaction of the order, and the response is stored before the commit. It
 * compares no payloads, knows no senders and keeps no headers.
 */
function byHand(pool: pg.Pool): Handle {
  return async (request) => {
    const key = request.headers.get('idempotency-key')
    const { id, amount } = (await request.json()) as { id: string; amount: number }
    const client = await pool.connect()
    try {
      await client.query('begin')
      const { rowCount } = await client.query(`insert into ${SCHEMA}.keys (key) values ($1) on conflict do nothing`, [
        key,
      ])
      if (rowCount === 0) {
        const { rows } = await client.query(`select status, body from ${SCHEMA}.keys where key = $1`, [key])
        await client.query('rollback')
        return new Response(rows[0].body, { status: rows[0].status, headers: { 'content-type': 'application/json' } })
      }
      await client.query(INSERT, [id, amount])
      const body = JSON.stringify({ id })
      await client.query(`update ${SCHEMA}.keys set status = 201, body = $2 where key = $1`, [key, body])
      await client.query('commit')
      return new Response(body, { status: 201, headers: { 'content-type': 'application/json' } })
    } finally {
      client.release()
    }
  }
}
