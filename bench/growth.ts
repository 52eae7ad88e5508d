import { setTimeout as delay } from 'node:timers/promises'
import type { ConsumerOptions } from 'hapax'
import { fillReceipts, fillStuck } from './backlog.ts'
import { heading, type Measured, report, reportValue, sideBySide, type Taken, type Timed } from './measure.ts'
import { CONSUMER, Counted, filled, GROUPS, type Rig, rig, work } from './rig.ts'

const MILLION = 1_000_000
const STUCK_KEYS = 100_000
const RECEIPTS = 10 * MILLION
const MANY = { many: true, group: { size: 500 } } as const

/** What grows must not slow down what can run: each large table beside a small one. */
export async function benchGrowth(url: string): Promise<void> {
  heading('Growth on PostgreSQL')
  report('1,000,000 waiting / 10,000, one call per message', await backlog(url, {}, 3_000), 0.9)
  report('1,000,000 waiting / 10,000, onMany of 500', await backlog(url, MANY, 50_000), 0.9)
  await heldKey(url)
  report('100,000 held keys / none', await stuckKeys(url, 'held'), 0.9)
  report('100,000 keys that wait for an attempt / none', await stuckKeys(url, 'waiting'), 0.9)
  await receipts(url)
}

/** Slices of a million waiting messages, each beside 10,000 that are alone. */
async function backlog(url: string, options: ConsumerOptions & { many?: boolean }, slice: number): Promise<Measured> {
  const [full, few] = [await rig(url, 'bench_full', options), await rig(url, 'bench_few', options)]
  await full.fill({ count: MILLION })
  // The few are vacuumed when they are written.
  const vacuumed: Timed = {
    before: async () => void (await full.pool.query(`vacuum ${full.schema}.inbox`)),
    run: () => work(full, slice),
    after: async () => {},
  }
  const measured = await sideBySide(5, vacuumed, filled(few, { count: 10_000 }))
  await full.close()
  await few.close()
  return measured
}

/** Other keys, with and without a million messages behind one that is held. */
async function heldKey(url: string): Promise<void> {
  const options = { ...GROUPS, order: 'wait' } as const
  const [held, free] = [await rig(url, 'bench_held', options), await rig(url, 'bench_free', options)]
  await held.fill({ count: MILLION, order: 'one held key' })
  const others = { count: 20_000, order: 'many keys' } as const
  report('1,000,000 behind a held key / none', await sideBySide(5, filled(held, others), filled(free, others)), 0.9)
  await held.close()
  await free.close()
}

/** Other keys, with and without very many that cannot run; each of those has a message behind its first one. */
async function stuckKeys(url: string, how: 'held' | 'waiting'): Promise<Measured> {
  const options = { order: 'wait' } as const
  const [stuck, free] = [await rig(url, 'bench_stuck', options), await rig(url, 'bench_free', options)]
  await fillStuck(stuck.pool, { schema: stuck.schema, consumer: CONSUMER, type: Counted.type, count: STUCK_KEYS }, how)
  const worker = stuck.hapax.worker({ consume: [stuck.consumer] })
  const begun = performance.now()
  await worker.start()
  await untilAside(stuck)
  await worker.stop()
  console.log(`  ${how} keys were put aside within ${((performance.now() - begun) / 1000).toFixed(1)} s`)
  const others = { count: 5_000, order: 'many keys' } as const
  const measured = await sideBySide(5, filled(stuck, others), filled(free, others))
  await stuck.close()
  await free.close()
  return measured
}

/** The first looks come upon every stuck key once. */
async function untilAside({ pool, schema }: Rig): Promise<void> {
  const text = `select exists (select from ${schema}.inbox where ordered and not aside) as left`
  while ((await pool.query<{ left: boolean }>(text)).rows[0]?.left) await delay(100)
}

const OLD_DAYS = 20
const DAY_MS = 86_400_000

/** Consuming with ten million receipts, with and without a cleanup at the same time, and with none. */
async function receipts(url: string): Promise<void> {
  const [full, empty] = [await rig(url, 'bench_full', GROUPS), await rig(url, 'bench_empty', GROUPS)]
  const count = 20_000
  const old = { schema: full.schema, consumer: CONSUMER, type: Counted.type, count: RECEIPTS }
  await fillReceipts(full.pool, old, OLD_DAYS)
  await full.pool.query(`vacuum analyze ${full.schema}.receipts`)
  await full.pool.query('checkpoint')
  const others = filled(full, { count })
  report('10,000,000 receipts / none', await sideBySide(5, others, filled(empty, { count })), 0.9)
  const rates: number[] = []
  const cleaning: Timed = { ...others, run: () => whileCleaning(full, count, rates) }
  report('consuming during a cleanup / without', await sideBySide(5, cleaning, others), 0.95)
  const slowest = Math.min(...rates.slice(1))
  reportValue('receipts cleaned up per second meanwhile', slowest.toFixed(0), slowest >= 5_000, '>= 5000')
  await full.close()
  await empty.close()
}

async function whileCleaning(full: Rig, count: number, rates: number[]): Promise<Taken> {
  const stop = new AbortController()
  const begun = performance.now()
  let deleted = { receipts: 0, at: begun }
  const cleaning = full.hapax.cleanup({
    consumer: CONSUMER,
    olderThanMs: (OLD_DAYS / 2) * DAY_MS,
    signal: stop.signal,
    onProgress: ({ receipts: gone }) => {
      deleted = { receipts: gone, at: performance.now() }
    },
  })
  const taken = await work(full, count)
  stop.abort()
  await cleaning
  rates.push((deleted.receipts / (deleted.at - begun)) * 1000)
  return taken
}
