import { createHapax, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import type { StoreStatus } from '../../src/contracts/admin.ts'
import type { Statement } from '../../src/contracts/connection.ts'
import type { Dialect } from '../../src/stores/sql/index.ts'
import { until } from '../../src/testing/wait.ts'
import { Called } from '../support/called.ts'
import { type DurableStore, durableStores, makePlace, openStore } from '../support/databases.ts'
import { doEverything, Grown } from '../support/everything.ts'
import { fillTables, know, knowFewRows, statisticsOf } from '../support/large-tables.ts'
import { scansOf } from '../support/plans.ts'
import { Recorded } from '../support/recorded.ts'
import { inThisRun } from '../support/runs.ts'

/** What people ask for, who may wait: some of it is counted, or looked for, in all rows. */
const ASKED =
  /^(status.exact|traces.all|lists|admin\.keys|failed\.(list|count|groups|seqs|freeze)|sent\.(list|seqs|freeze))/

/** What is only used where another statement cannot do it all, or after something that the test does not do. */
const RARE = [
  ...['inbox.blocked', 'inbox.lockAll', 'outbox.left', 'leases.leased', 'leases.renewable', 'traces.all', 'writeLocal'],
  // After the clock went back, all waiting rows are read, page by page.
  ...['clock.heartbeats', 'clock.operations', 'clock.waiting', 'clock.recount'],
  // Only where the end of a process can be detected: by a connection that listens, or by the processes of this host.
  ...['workers.attend', 'workers.session.isThere'],
  ...['aside.outbox.next', 'aside.outbox.forward', 'held.inbox.toFailed', 'held.outbox.toFailed'],
]

/** A look at what waits reads a thousand rows, each through an index and in the table, and a few more to find its way. */
const PAGE_OF_A_LIST = 4_000

/** How many rows of each kind: enough for a planner that looks at sizes. A million in the inbox takes minutes, on others many of them. */
const sizesOf = (name: DurableStore): readonly number[] => (name === 'postgres' ? [50_000, 350_000] : [50_000])

const grown = inThisRun(
  durableStores().flatMap((name) => sizesOf(name).map((rows) => ({ name, rows }))),
  ({ rows }) => rows < 100_000,
)

describe.each(grown)('K8: tables of $rows rows of each kind on $name', ({ name, rows }) => {
  it('no statement of the engine reads a table from end to end', { timeout: 1_200_000 }, async () => {
    await using checker = await makePlace(name)
    await knowFewRows(checker)
    await fillTables(checker, rows)
    const [recorded, called] = [new Recorded(), new Called()]
    const statements = (dialect: Dialect) => called.watch(dialect)
    await doEverything(await openStore(checker.place, { seams: recorded.seams, statements }))
    expect(called.missing.filter((each) => !RARE.includes(each))).toEqual([])
    const own = [...recorded.statements.values()].filter((each) => !ASKED.test(called.nameOf(each)))
    const nameOf = (each: Statement): string => called.nameOf(each)
    const lists = own.filter((each) => nameOf(each).startsWith('waiting.'))
    for (const statistics of statisticsOf(checker)) {
      await know(checker, statistics)
      expect(await scansOf(checker, own, nameOf), `with ${statistics} statistics`).toEqual([])
      expect(await scansOf(checker, lists, nameOf, PAGE_OF_A_LIST), `lists with ${statistics} statistics`).toEqual([])
    }
  })
})

describe.each(durableStores())('K8: numbers of large tables on %s', (name: DurableStore) => {
  it('are exact up to a limit, and of the right size beyond it', { timeout: 600_000 }, async () => {
    await using checker = await makePlace(name)
    await fillTables(checker, 20, 'few')
    await fillTables(checker, 25_000)
    await know(checker, 'new')
    const store = await openStore(checker.place)
    expectClose(await store.admin.status(), await store.admin.status({ exact: true }))
    await store.close()
  })
})

/** What was counted is exact; what was estimated, once the statistics are up to date, is not off by more than a factor of two. */
function expectClose(quick: StoreStatus, exact: StoreStatus): void {
  const numbers = ({ consumers, relays, failed }: StoreStatus) => [
    ...consumers.flatMap(({ consumer, waiting, retrying, held, failed, estimated }) =>
      Object.entries({ waiting, retrying, held, failed }).map(([what, n]) => ({
        of: `${consumer} ${what}`,
        n,
        estimated,
      })),
    ),
    ...relays.flatMap(({ relay, waiting, held, estimated }) =>
      Object.entries({ waiting, held }).map(([what, n]) => ({ of: `relay ${relay} ${what}`, n, estimated })),
    ),
    ...failed.map(({ scope, reason, count: n, estimated }) => ({ of: `${scope} ${reason}`, n, estimated })),
  ]
  const counted = new Map(numbers(exact).map(({ of, n }) => [of, n]))
  const found = numbers(quick)
  expect(found.some(({ estimated, n }) => estimated && n > 10_000)).toBe(true)
  expect(found.some(({ estimated, n }) => !estimated && n > 0)).toBe(true)
  const off = found.filter(({ of, n, estimated }) => {
    const real = counted.get(of) ?? 0
    return estimated && real > 10_000 ? n < real / 2 || n > real * 2 : n !== real
  })
  expect(off.map(({ of, n }) => `${of}: ${n} instead of ${counted.get(of)}`)).toEqual([])
}

describe.each(durableStores())('K8: keys that stand aside on %s', (name: DurableStore) => {
  it('a row that stands aside with nothing in front of it is found', async () => {
    await using checker = await makePlace(name)
    const store = await openStore(checker.place)
    const hapax = createHapax({ store, source: '/test', delivery: 'local', logger: silentLogger })
    const done: number[] = []
    const consumer = hapax.consumer('keyed', { order: 'wait' }).on(Grown, async (number) => void done.push(number))
    await hapax.transaction((tx) => hapax.publish(tx, Grown, 1, { key: 'k' }))
    const inbox = checker.place.store === 'postgres' ? `${checker.place.schema}.inbox` : 'hapax_inbox'
    await checker.query(`update ${inbox} set aside = ${checker.place.store === 'postgres' ? 'true' : '1'}`)
    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    await until(() => done.length > 0)
    await hapax.close()
    expect(done).toEqual([1])
  })
})
