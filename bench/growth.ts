import { setTimeout as delay } from 'node:timers/promises'
import type { ConsumerOptions } from 'hapax'
import { fillReceipts, fillStuck } from './backlog.ts'
import { heading, progress, report, reportValue, sideBySide, type Taken, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { CONSUMER, Counted, filled, type Rig, rig, work } from './rig.ts'

const MILLION = 1_000_000
const STUCK_KEYS = 100_000
const RECEIPTS = 10 * MILLION
const MANY = { many: true, group: { size: 500 } } as const

const SECTIONS: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  calls: (bench) => backlog(bench, 'one call each', {}, bench.size(3_000, 1_000)),
  many: (bench) => backlog(bench, 'onMany of 500', MANY, bench.size(10_000, 5_000)),
  behind: heldKey,
  held: (bench) => stuckKeys(bench, 'held'),
  waiting: (bench) => stuckKeys(bench, 'waiting'),
  receipts: (bench) => receipts(bench, besideNone),
  cleanup: (bench) => receipts(bench, besideCleanup),
}

/** What grows must not slow down what can run: each large table beside a small one. */
export const growth: Part = {
  name: 'growth',
  about: 'a million waiting messages, 100,000 stuck keys, ten million receipts / few or none, on PostgreSQL',
  needs: ['postgres'],
  sections: Object.keys(SECTIONS),
  async run(bench) {
    heading('Growth on PostgreSQL')
    if (bench.quick) progress('quick: a twentieth of the full sizes, 500,000 receipts instead of ten million')
    for (const [name, section] of Object.entries(SECTIONS)) {
      if (!bench.wants(name)) continue
      progress(`growth/${name}`)
      await section(bench)
    }
  },
}

const text = (count: number): string => count.toLocaleString('en')

/** Slices of a million waiting messages, each beside 10,000 that are alone. */
async function backlog(
  bench: Bench,
  how: string,
  options: ConsumerOptions & { many?: boolean },
  slice: number,
): Promise<void> {
  const url = bench.url('postgres')
  const [full, few] = [await rig(url, 'bench_full', options), await rig(url, 'bench_few', options)]
  const count = bench.size(MILLION, MILLION / 20)
  await full.fill({ count })
  progress('filled')
  // The few are vacuumed when they are written.
  const vacuumed: Timed = {
    before: async () => void (await full.pool.query(`vacuum ${full.schema}.inbox`)),
    run: () => work(full, slice),
    after: async () => {},
  }
  const small = bench.size(10_000, 2_000)
  const measured = await sideBySide(bench.rounds, vacuumed, filled(few, { count: small }))
  report(`${text(count)} waiting / ${text(small)}, ${how}`, measured, 0.9)
  await full.close()
  await few.close()
}

/** Other keys, with and without a million messages behind one that is held. */
async function heldKey(bench: Bench): Promise<void> {
  const url = bench.url('postgres')
  const options = { order: 'wait' } as const
  const [held, free] = [await rig(url, 'bench_held', options), await rig(url, 'bench_free', options)]
  const count = bench.size(MILLION, MILLION / 20)
  await held.fill({ count, order: 'one held key' })
  progress('filled')
  const others = { count: bench.size(20_000, 1_000), order: 'many keys' } as const
  const measured = await sideBySide(bench.rounds, filled(held, others), filled(free, others))
  report(`${text(count)} behind a held key / none`, measured, 0.9)
  await held.close()
  await free.close()
}

/** Other keys, with and without very many that cannot run; each of those has a message behind its first one. */
async function stuckKeys(bench: Bench, how: 'held' | 'waiting'): Promise<void> {
  const url = bench.url('postgres')
  const count = bench.size(STUCK_KEYS, STUCK_KEYS / 20)
  const options = { order: 'wait' } as const
  const [stuck, free] = [await rig(url, 'bench_stuck', options), await rig(url, 'bench_free', options)]
  await fillStuck(stuck.pool, { schema: stuck.schema, consumer: CONSUMER, type: Counted.type, count }, how)
  const worker = stuck.hapax.worker({ consume: [stuck.consumer] })
  const begun = performance.now()
  await worker.start()
  await untilAside(stuck)
  await worker.stop()
  const note = `they were put aside within ${((performance.now() - begun) / 1000).toFixed(1)} s`
  const others = { count: bench.size(5_000, 1_000), order: 'many keys' } as const
  const measured = await sideBySide(bench.rounds, filled(stuck, others), filled(free, others))
  report(`${text(count)} keys that ${how === 'held' ? 'are held' : 'wait'} / none`, measured, 0.9, { note })
  await stuck.close()
  await free.close()
}

/** The first looks come upon every stuck key once. */
async function untilAside({ pool, schema }: Rig): Promise<void> {
  const text = `select exists (select from ${schema}.inbox where ordered and not aside) as left`
  while ((await pool.query<{ left: boolean }>(text)).rows[0]?.left) await delay(100)
}

const OLD_DAYS = 20
const DAY_MS = 86_400_000

/** Consuming with ten million receipts. */
async function receipts(
  bench: Bench,
  measure: (bench: Bench, full: Rig, count: number) => Promise<void>,
): Promise<void> {
  const full = await rig(bench.url('postgres'), 'bench_full')
  const count = bench.size(RECEIPTS, RECEIPTS / 20)
  const old = { schema: full.schema, consumer: CONSUMER, type: Counted.type, count }
  await fillReceipts(full.pool, old, OLD_DAYS, (written) => progress(`${text(written)} receipts`))
  await measure(bench, full, count)
  await full.close()
}

async function besideNone(bench: Bench, full: Rig, count: number): Promise<void> {
  const empty = await rig(bench.url('postgres'), 'bench_empty')
  const some = { count: bench.size(20_000, 2_000) }
  const measured = await sideBySide(bench.rounds, filled(full, some), filled(empty, some))
  report(`${text(count)} receipts / none`, measured, 0.95)
  await empty.close()
}

async function besideCleanup(bench: Bench, full: Rig, count: number): Promise<void> {
  const rates: number[] = []
  const more = { count: bench.size(40_000, 4_000) }
  const others = filled(full, more)
  const cleaning: Timed = { ...others, run: () => whileCleaning(full, more.count, rates) }
  const measured = await sideBySide(bench.size(7, bench.rounds), cleaning, others)
  report(`consuming during a cleanup of ${text(count)} receipts / without`, measured, 0.95)
  const slowest = Math.min(...rates.slice(1))
  reportValue('receipts cleaned up, slowest round', slowest, '/s', { aim: { of: 'hapax', least: 5_000 } })
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
