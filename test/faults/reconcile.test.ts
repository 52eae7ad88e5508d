import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { Child } from '../support/child.ts'
import {
  type Checker,
  countEffects,
  durableStores,
  effectsByProcess,
  makePlace,
  openStore,
} from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import { seed, seeded } from '../support/seeded.ts'
import type { ReconcileJob } from './reconcile-child.ts'

const WORKERS = 3
const KILLS = 6
/** How many messages there are to do before each kill. */
const WAVE = 300
const CONCURRENCY = 3
const GROUP = 20
/** What a worker may have committed and not counted when it is killed: one group in each of its places. */
const IN_HAND = CONCURRENCY * GROUP

/** A worker, and what its counter says, also after its death. */
interface Counted {
  readonly child: Child<object>
  readonly counted: () => number
}

class Rig implements AsyncDisposable {
  readonly #checker: Checker
  readonly #directory = mkdtempSync(join(tmpdir(), 'hapax-reconcile-'))
  readonly all: Counted[] = []
  delivered = 0

  constructor(checker: Checker) {
    this.#checker = checker
  }

  async start(): Promise<Counted> {
    const file = join(this.#directory, String(this.all.length))
    const job: ReconcileJob = { place: this.#checker.place, file, concurrency: CONCURRENCY, group: GROUP }
    const child = new Child<object>(new URL('./reconcile-child.ts', import.meta.url), job, 170_000)
    const worker = { child, counted: () => Number(readFileSync(file, 'utf8')) }
    this.all.push(worker)
    await child.next()
    return worker
  }

  /** Delivers what the workers have to do. */
  async deliver(count: number): Promise<void> {
    const hapax = createHapax({ store: await openStore(this.#checker.place), source: '/soak', logger: silentLogger })
    const consumer = hapax.consumer('ledger', { receive: 'store' }).on(defineMessage<number>('entry'), () => {})
    const ids = Array.from({ length: count }, () => `m-${this.delivered++}`)
    await consumer.handleMany(ids.map((id) => ({ id, source: '/sender', type: 'entry', data: 1 })))
    await hapax.close()
  }

  /** Waits until every message has taken effect, and lets the workers end. */
  async finish(): Promise<void> {
    await until(async () => (await countEffects(this.#checker)).size === this.delivered, 'all effects')
    for (const { child } of this.all) child.tell({ stop: true })
    await Promise.all(this.all.map(({ child }) => child.ended))
  }

  /** By worker: what it committed, and what it counted. */
  async books(): Promise<readonly { readonly rows: number; readonly counted: number; readonly missing: number }[]> {
    const effects = await effectsByProcess(this.#checker)
    return this.all.map(({ child, counted }) => {
      const rows = effects.get(child.pid) ?? 0
      return { rows, counted: counted(), missing: rows - counted() }
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.all) child.kill('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** The first worker that has done so much from now on: it is in the middle of its work. */
async function busy(workers: readonly Counted[], enough: number): Promise<Counted> {
  const before = new Map(workers.map((worker) => [worker, worker.counted()]))
  const found: Counted[] = []
  await until(() => {
    found.push(...workers.filter((worker) => worker.counted() >= (before.get(worker) ?? 0) + enough))
    return found.length > 0
  }, 'a worker is busy')
  return found[0] as Counted
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)

/** Several processes share one database: not for a file, which has one writer. */
const stores = oneInTest(
  durableStores().filter((store) => store !== 'sqlite'),
  'postgres',
)

if (stores.length === 0) it.skip('this needs a database server, and this run has none')

describe.each(stores)('%s: counters and tables', (store) => {
  it('are equal if nothing is killed', async () => {
    await using checker = await makePlace(store)
    await using rig = new Rig(checker)
    await rig.deliver(3 * WAVE)
    for (let count = 0; count < WORKERS; count++) await rig.start()
    await rig.finish()
    const books = await rig.books()
    expect(books.map(({ missing }) => missing)).toEqual(books.map(() => 0))
    expect(sum(books.map(({ counted }) => counted))).toBe(rig.delivered)
  })

  it(`differ by no more than what was in hand when workers were killed (seed ${seed})`, async () => {
    await using checker = await makePlace(store)
    await using rig = new Rig(checker)
    const random = seeded(seed)
    const workers = await Promise.all(Array.from({ length: WORKERS }, () => rig.start()))
    const killed: Counted[] = []
    for (let kills = 0; kills < KILLS; kills++) {
      const [worker] = await Promise.all([busy(workers, 1 + Math.floor(random() * (WAVE / 5))), rig.deliver(WAVE)])
      worker.child.kill('SIGKILL')
      await worker.child.ended
      killed.push(worker)
      workers[workers.indexOf(worker)] = await rig.start()
    }
    await rig.finish()
    const books = await rig.books()
    const lost = books.filter((_, index) => killed.includes(rig.all[index] as Counted))
    const kept = books.filter((_, index) => !killed.includes(rig.all[index] as Counted))
    console.log(
      `counters after ${killed.length} kills on ${store} (seed ${seed}): ${sum(books.map(({ counted }) => counted))} counted ` +
        `of ${rig.delivered} committed, not counted at each kill: ${lost.map(({ missing }) => missing).join(', ')}`,
    )
    expect(sum(books.map(({ rows }) => rows))).toBe(rig.delivered)
    expect(kept.map(({ missing }) => missing)).toEqual(kept.map(() => 0))
    for (const { missing } of lost) {
      // A counter never says more than was committed.
      expect(missing).toBeGreaterThanOrEqual(0)
      expect(missing).toBeLessThanOrEqual(IN_HAND)
    }
  })
})
