import { setTimeout as delay } from 'node:timers/promises'
import { type Consumer, type ConsumerOptions, createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { type Backlog, fillInbox, fillReceipts } from './backlog.ts'
import { heading, report, reportValue, sideBySide, type Taken, type Timed } from './measure.ts'

const CONSUMER = 'bench'
const CONCURRENCY = 4
const MILLION = 1_000_000

const Counted = defineMessage<number>('counted')

/** What the worker costs and what it keeps up under load. */
export async function benchEngine(url: string): Promise<void> {
  heading('Engine on PostgreSQL')
  await backlog(url)
  await heldKey(url)
  await cleanup(url)
  await latency(url)
  await idle(url)
}

/** A hapax in a schema of its own, with one consumer that writes one row per message. */
interface Rig {
  readonly pool: pg.Pool
  readonly hapax: Hapax<PgTx<pg.PoolClient>, unknown>
  readonly consumer: Consumer<PgTx<pg.PoolClient>>
  /** When the first handler was called since `undefined` was written here. */
  firstCall: number | undefined
  fill(backlog: Pick<Backlog, 'count' | 'order'>): Promise<void>
  effects(): Promise<number>
  close(): Promise<void>
}

async function rig(
  url: string,
  schema: string,
  options: ConsumerOptions = {},
  config: pg.PoolConfig = {},
): Promise<Rig> {
  const pool = new pg.Pool({ connectionString: url, max: 2 * CONCURRENCY + 2, ...config })
  await pool.query(`drop schema if exists ${schema} cascade`)
  const store = postgres({ pool, schema })
  const hapax = createHapax({ store, source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  await pool.query(`create table ${schema}.business (id text not null, number integer not null)`)
  const consumer = hapax.consumer(CONSUMER, { group: { size: 100 }, concurrency: CONCURRENCY, ...options })
  const made: Rig = {
    pool,
    hapax,
    consumer,
    firstCall: undefined,
    fill: (rows) => fillInbox(pool, { schema, consumer: CONSUMER, type: Counted.type, ...rows }),
    async effects() {
      const { rows } = await pool.query(`select count(distinct id)::integer as count from ${schema}.business`)
      return rows[0].count
    },
    async close() {
      await hapax.close()
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    },
  }
  consumer.on(Counted, async (number, ctx) => {
    made.firstCall ??= performance.now()
    await ctx.tx.query(`insert into ${schema}.business (id, number) values ($1, $2)`, [ctx.message.id, number])
  })
  return made
}

/** Works until `count` more messages are committed, and takes the time from the first call of a handler. */
async function work(rig: Rig, count: number): Promise<Taken> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let left = count
  const { events } = rig.hapax
  const listeners = [
    events.on('processed', () => {
      left -= 1
      if (left === 0) resolve(performance.now())
    }),
    events.on('retrying', ({ error }) => reject(error)),
    events.on('worker-error', ({ error }) => reject(error)),
  ]
  rig.firstCall = undefined
  const worker = rig.hapax.worker({ consume: [rig.consumer] })
  await worker.start()
  const finished = await promise
  await worker.stop()
  for (const forget of listeners) forget()
  return { messages: count, ms: finished - (rig.firstCall ?? 0) }
}

/** Fills and works the same number of messages, and checks that each took effect once. */
function filled(rig: Rig, backlog: Pick<Backlog, 'count' | 'order'>): Timed {
  let before = 0
  return {
    async before() {
      await rig.fill(backlog)
      before = await rig.effects()
    },
    run: () => work(rig, backlog.count),
    async after() {
      const made = (await rig.effects()) - before
      if (made !== backlog.count) throw new Error(`expected ${backlog.count} effects, got ${made}`)
    },
  }
}

/** Slices of a million waiting messages, each beside 10,000 that are alone. */
async function backlog(url: string): Promise<void> {
  const [full, few] = [await rig(url, 'bench_full'), await rig(url, 'bench_few')]
  await full.fill({ count: MILLION })
  const slices = 8
  // A worker that stops finishes what it has in hand: each slice takes a little more than was asked for.
  const slice = Math.floor(MILLION / (slices + 1)) - 2_000
  const measured = await sideBySide(slices, () => work(full, slice), filled(few, { count: 10_000 }))
  const left = MILLION - (await full.effects())
  if (left > 0) await work(full, left)
  if ((await full.effects()) !== MILLION) throw new Error('expected every message of the backlog to take effect')
  report('1,000,000 waiting / 10,000 waiting', measured, 0.9)
  await full.close()
  await few.close()
}

/** Other keys, with and without a million messages behind one that is held. */
async function heldKey(url: string): Promise<void> {
  const [held, free] = [
    await rig(url, 'bench_held', { order: 'wait' }),
    await rig(url, 'bench_free', { order: 'wait' }),
  ]
  await held.fill({ count: MILLION, order: 'one held key' })
  const others = { count: 20_000, order: 'many keys' } as const
  report('1,000,000 behind a held key / none', await sideBySide(5, filled(held, others), filled(free, others)), 0.9)
  await held.close()
  await free.close()
}

const OLD_DAYS = 20
const DAY_MS = 86_400_000

/** Consuming with and without a cleanup at the same time. */
async function cleanup(url: string): Promise<void> {
  const [cleaned, quiet] = [await rig(url, 'bench_cleaned'), await rig(url, 'bench_quiet')]
  const old = { consumer: CONSUMER, type: Counted.type, count: 300_000 }
  const rates: number[] = []
  const withReceipts = (side: Rig, schema: string, run: () => Promise<Taken>): Timed => {
    const { before, after } = filled(side, { count: 40_000 })
    return {
      async before(round) {
        await side.pool.query(`truncate ${schema}.receipts`)
        await fillReceipts(side.pool, { ...old, schema }, OLD_DAYS)
        await before(round)
      },
      run,
      after,
    }
  }
  const whileCleaning = async (): Promise<Taken> => {
    const stop = new AbortController()
    const begun = performance.now()
    let deleted = { receipts: 0, at: begun }
    const cleaning = cleaned.hapax.cleanup({
      consumer: CONSUMER,
      olderThanMs: (OLD_DAYS / 2) * DAY_MS,
      signal: stop.signal,
      onProgress: ({ receipts }) => {
        deleted = { receipts, at: performance.now() }
      },
    })
    const taken = await work(cleaned, 40_000)
    stop.abort()
    await cleaning
    rates.push((deleted.receipts / (deleted.at - begun)) * 1000)
    return taken
  }
  const measured = await sideBySide(
    5,
    withReceipts(cleaned, 'bench_cleaned', whileCleaning),
    withReceipts(quiet, 'bench_quiet', () => work(quiet, 40_000)),
  )
  report('consuming during a cleanup / without', measured, 0.95)
  const slowest = Math.min(...rates.slice(1))
  reportValue('receipts cleaned up per second meanwhile', slowest.toFixed(0), slowest >= 5_000, '>= 5000')
  await cleaned.close()
  await quiet.close()
}

/** One message at a time, from the call of the transaction that publishes it to the commit of its effect. */
async function latency(url: string): Promise<void> {
  const { hapax, consumer, close } = await rig(url, 'bench_latency')
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  let arrived = (): void => {}
  hapax.events.on('processed', () => arrived())
  const times: number[] = []
  for (let number = 0; number < 520; number++) {
    await delay(5 + Math.random() * 25)
    const { promise, resolve } = Promise.withResolvers<number>()
    arrived = () => resolve(performance.now())
    const begun = performance.now()
    await hapax.transaction((tx) => hapax.publish(tx, Counted, number))
    times.push((await promise) - begun)
  }
  await worker.stop()
  const sorted = times.slice(20).sort((a, b) => a - b)
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)]
  reportValue('latency from publish to effect, p50 in ms', p50.toFixed(1), p50 <= 5, '<= 5')
  reportValue('latency from publish to effect, p99 in ms', p99.toFixed(1), p99 <= 20, '<= 20')
  await close()
}

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** What a worker asks of the database when there is nothing to do. */
async function idle(url: string): Promise<void> {
  let queries = 0
  class CountingClient extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: pg has an overload for every way to call it, and all of them are passed on.
    override query(...args: any[]): any {
      queries += 1
      return super.query(...(args as [string]))
    }
  }
  const { hapax, consumer, close } = await rig(url, 'bench_idle', {}, { Client: CountingClient })
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  await delay(5_000)
  queries = 0
  const seconds = 20
  await delay(seconds * 1_000)
  const perSecond = queries / seconds
  reportValue('queries per second of an idle worker', perSecond.toFixed(2), perSecond <= 2, '<= 2')
  await worker.stop()
  await close()
}
