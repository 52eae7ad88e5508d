import { setTimeout as delay } from 'node:timers/promises'
import type { GrownOptions, GrownRig, GrownStore, Stuck } from './grown/grown.ts'
import { grownMysql } from './grown/mysql.ts'
import { grownPostgres } from './grown/postgres.ts'
import { grownSqlite } from './grown/sqlite.ts'
import { heading, progress, report, reportValue, sideBySide, type Taken, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { CONSUMER, filled, work } from './rig.ts'

const MILLION = 1_000_000
const STUCK_KEYS = 100_000
const RECEIPTS = 10 * MILLION
const MANY = { many: true, group: { size: 500 } } as const

type Section = (bench: Bench, store: GrownStore) => Promise<void>

const SECTIONS: Readonly<Record<string, Section>> = {
  calls: (bench, store) => backlog(bench, store, 'one call each', {}, bench.size(3_000, 1_000)),
  many: (bench, store) => backlog(bench, store, 'onMany of 500', MANY, bench.size(10_000, 5_000)),
  behind: heldKey,
  held: (bench, store) => stuckKeys(bench, store, 'held'),
  waiting: (bench, store) => stuckKeys(bench, store, 'waiting'),
  types: otherTypes,
  receipts: (bench, store) => receipts(bench, store, besideNone),
  cleanup: (bench, store) => receipts(bench, store, besideCleanup),
  looks: (bench, store) => receipts(bench, store, looks),
}

/** What grows must not slow down what can run: each large table beside a small one. */
export const growth: Part = growthOn('growth', ['postgres'], (bench) => grownPostgres(bench.url('postgres')))
export const growthMysql: Part = growthOn('growth-mysql', ['mysql'], (bench) => grownMysql(bench.url('mysql')))
export const growthSqlite: Part = growthOn('growth-sqlite', [], () => grownSqlite)

function growthOn(name: string, needs: Part['needs'], open: (bench: Bench) => GrownStore): Part {
  return {
    name,
    about: 'a million waiting messages, 100,000 stuck keys, ten million receipts / few or none',
    needs,
    sections: Object.keys(SECTIONS),
    async run(bench) {
      const store = open(bench)
      heading(`Growth on ${store.title}`)
      if (bench.quick) progress('quick: a twentieth of the full sizes, 500,000 receipts instead of ten million')
      for (const [section, measure] of Object.entries(SECTIONS)) {
        if (!bench.wants(section)) continue
        progress(`${name}/${section}`)
        await measure(bench, store)
      }
    },
  }
}

const text = (count: number): string => count.toLocaleString('en')

/** Slices of a million waiting messages, each beside as many of 10,000, which are filled up again. */
async function backlog(
  bench: Bench,
  store: GrownStore,
  how: string,
  options: GrownOptions,
  slice: number,
): Promise<void> {
  const [full, few] = [await store.open('bench_full', options), await store.open('bench_few', options)]
  const count = bench.size(MILLION, MILLION / 20)
  await full.fill({ count })
  progress('filled')
  const small = bench.size(10_000, 2_000)
  const sliced = (rig: GrownRig, fill: (round: number) => Promise<void>): Timed => ({
    before: fill,
    run: () => work(rig, slice),
    after: async () => {},
  })
  const measured = await sideBySide(
    bench.rounds,
    sliced(full, () => full.tidy()),
    sliced(few, (round) => few.fill({ count: round === 0 ? Math.max(small, slice) : slice })),
  )
  report(`${text(count)} waiting / ${text(small)}, ${how}`, measured, 0.9)
  await full.close()
  await few.close()
}

/** Other keys, with and without a million messages behind one that is held. */
async function heldKey(bench: Bench, store: GrownStore): Promise<void> {
  const options = { order: 'wait' } as const
  const [held, free] = [await store.open('bench_held', options), await store.open('bench_free', options)]
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
async function stuckKeys(bench: Bench, store: GrownStore, how: Stuck): Promise<void> {
  const count = bench.size(STUCK_KEYS, STUCK_KEYS / 20)
  const options = { order: 'wait' } as const
  const [stuck, free] = [await store.open('bench_stuck', options), await store.open('bench_free', options)]
  await stuck.fillStuck(count, how)
  const worker = stuck.worker()
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
async function untilAside(stuck: GrownRig): Promise<void> {
  while (await stuck.hasStuckInFront()) await delay(100)
}

/** Beside a million messages of a type that another process handles, all of them older. */
async function otherTypes(bench: Bench, store: GrownStore): Promise<void> {
  const [full, free] = [await store.open('bench_full', {}), await store.open('bench_free', {})]
  const count = bench.size(MILLION, MILLION / 20)
  await full.fill({ count, unserved: true })
  progress('filled')
  const others = { count: bench.size(5_000, 1_000) }
  const measured = await sideBySide(bench.rounds, filled(full, others), filled(free, others))
  report(`${text(count)} of types handled elsewhere / none`, measured, 0.9)
  await full.close()
  await free.close()
}

const OLD_DAYS = 20
const DAY_MS = 86_400_000

/** Consuming with ten million receipts. */
async function receipts(
  bench: Bench,
  store: GrownStore,
  measure: (bench: Bench, store: GrownStore, full: GrownRig, count: number) => Promise<void>,
): Promise<void> {
  const full = await store.open('bench_full', {})
  const count = bench.size(RECEIPTS, RECEIPTS / 20)
  await full.fillReceipts(count, OLD_DAYS, (written) => progress(`${text(written)} receipts`))
  await measure(bench, store, full, count)
  await full.close()
}

async function besideNone(bench: Bench, store: GrownStore, full: GrownRig, count: number): Promise<void> {
  const empty = await store.open('bench_empty', {})
  const some = { count: bench.size(20_000, 2_000) }
  const measured = await sideBySide(bench.rounds, filled(full, some), filled(empty, some))
  report(`${text(count)} receipts / none`, measured, 0.95)
  await empty.close()
}

async function besideCleanup(bench: Bench, _store: GrownStore, full: GrownRig, count: number): Promise<void> {
  const rates: number[] = []
  const more = { count: bench.size(40_000, 4_000) }
  const others = filled(full, more)
  const cleaning: Timed = { ...others, run: () => whileCleaning(full, more.count, rates) }
  const measured = await sideBySide(bench.size(7, bench.rounds), cleaning, others)
  report(`consuming during a cleanup of ${text(count)} receipts / without`, measured, 0.95)
  const slowest = Math.min(...rates.slice(1))
  reportValue('receipts cleaned up, slowest round', slowest, '/s', { aim: { of: 'hapax', least: 5_000 } })
}

/** What people and samplers look at, beside as many receipts and a million messages that wait. */
async function looks(bench: Bench, _store: GrownStore, full: GrownRig, count: number): Promise<void> {
  const backlog = bench.size(MILLION, MILLION / 20)
  await full.fill({ count: backlog, order: 'many keys' })
  await full.tidy()
  progress('filled')
  const { hapax } = full
  const commands = {
    status: () => hapax.status(),
    doctor: () => hapax.doctor(),
    'explain, a UUIDv7': () => hapax.explain('019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'),
    'explain, another id': () => hapax.explain('order-17'),
    'explain, another id and its source': () => hapax.explain('order-17', '/bench'),
  }
  for (const [name, look] of Object.entries(commands)) {
    const times: number[] = []
    for (let round = 0; round < 4 * bench.rounds; round++) {
      const begun = performance.now()
      await look()
      times.push(performance.now() - begun)
    }
    const median = times.toSorted((a, b) => a - b)[times.length / 2] ?? Number.NaN
    reportValue(`${name}, ${text(count)} receipts, ${text(backlog)} waiting`, median, 'ms', {
      aim: { of: 'hapax', most: 50 },
    })
  }
}

async function whileCleaning(full: GrownRig, count: number, rates: number[]): Promise<Taken> {
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
