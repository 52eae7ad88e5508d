import { setTimeout as delay } from 'node:timers/promises'
import type { ConsumerOptions } from 'hapax'
import { fillReceipts, fillStuck } from './backlog.ts'
import { heading, type Measured, report, reportValue, sideBySide, type Taken, type Timed } from './measure.ts'
import { CONSUMER, Counted, filled, GROUPS, type Rig, rig, work } from './rig.ts'

const MILLION = 1_000_000
const STUCK_KEYS = 100_000
const RECEIPTS = 10 * MILLION
const MANY = { many: true, group: { size: 500 } } as const

type Part = (url: string) => Promise<void>

const PARTS: ReadonlyMap<string, Part> = new Map<string, Part>([
  ['calls', async (url) => report('1,000,000 waiting / 10,000, one call each', await backlog(url, {}, 3_000), 0.9)],
  ['many', async (url) => report('1,000,000 waiting / 10,000, onMany of 500', await backlog(url, MANY, 10_000), 0.9)],
  ['behind', heldKey],
  ['held', async (url) => report('100,000 held keys / none', await stuckKeys(url, 'held'), 0.9)],
  ['waiting', async (url) => report('100,000 keys that wait / none', await stuckKeys(url, 'waiting'), 0.9)],
  ['receipts', (url) => receipts(url, besideNone)],
  ['cleanup', (url) => receipts(url, besideCleanup)],
])

/** What grows must not slow down what can run: each large table beside a small one. All parts, or those that are named. */
export async function benchGrowth(url: string, wanted: readonly string[]): Promise<void> {
  heading('Growth on PostgreSQL')
  const named = [...PARTS.keys()].filter((name) => wanted.includes(name))
  for (const [name, part] of PARTS) {
    if (named.length > 0 && !named.includes(name)) continue
    progress(`growth ${name}`)
    await part(url)
  }
}

/** Filling takes minutes. */
function progress(text: string): void {
  console.error(`  ${new Date().toISOString().slice(11, 19)} ${text}`)
}

/** Slices of a million waiting messages, each beside 10,000 that are alone. */
async function backlog(url: string, options: ConsumerOptions & { many?: boolean }, slice: number): Promise<Measured> {
  const [full, few] = [await rig(url, 'bench_full', options), await rig(url, 'bench_few', options)]
  await full.fill({ count: MILLION })
  progress('filled')
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
  progress('filled')
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

/** Consuming with ten million receipts. */
async function receipts(url: string, measure: (url: string, full: Rig) => Promise<void>): Promise<void> {
  const full = await rig(url, 'bench_full', GROUPS)
  const old = { schema: full.schema, consumer: CONSUMER, type: Counted.type, count: RECEIPTS }
  await fillReceipts(full.pool, old, OLD_DAYS, (count) => progress(`${count.toLocaleString('en')} receipts`))
  await measure(url, full)
  await full.close()
}

const SOME = { count: 20_000 } as const
const MORE = { count: 40_000 } as const

async function besideNone(url: string, full: Rig): Promise<void> {
  const empty = await rig(url, 'bench_empty', GROUPS)
  report('10,000,000 receipts / none', await sideBySide(5, filled(full, SOME), filled(empty, SOME)), 0.9)
  await empty.close()
}

async function besideCleanup(_url: string, full: Rig): Promise<void> {
  const rates: number[] = []
  const others = filled(full, MORE)
  const cleaning: Timed = { ...others, run: () => whileCleaning(full, MORE.count, rates) }
  report('consuming during a cleanup / without', await sideBySide(7, cleaning, others), 0.95)
  const slowest = Math.min(...rates.slice(1))
  reportValue('receipts cleaned up per second, slowest round', slowest.toFixed(0), slowest >= 5_000, '>= 5000')
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
