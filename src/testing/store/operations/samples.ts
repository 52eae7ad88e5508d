import assert from 'node:assert/strict'
import type { MinuteSample, Sample } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import type { World } from '../world.ts'
import { assertTexts, ODD } from './world.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

const ONE: Sample = {
  ...{ origin: 'inbox', scope: 'billing', done: 10, duplicates: 2, retried: 3, failed: 1, lagMs: 1_234.5, aged: 9 },
  ...{ waiting: null, oldestMs: null },
}

/** What was counted, minutes added up: the minute may change in the middle of a case. */
async function sums(world: World, scope = 'billing'): Promise<readonly number[]> {
  const rows = (await world.store.samples.list(HOUR_MS)).filter((each) => each.scope === scope)
  const sum = (of: (row: MinuteSample) => number): number => rows.reduce((total, row) => total + of(row), 0)
  return [
    ...[sum((row) => row.done), sum((row) => row.duplicates), sum((row) => row.retried), sum((row) => row.failed)],
    ...[sum((row) => row.lagMs), sum((row) => row.aged)],
  ]
}

export const samples: readonly Case[] = [
  {
    name: 'what workers have counted adds up, over workers and over calls',
    run: async (world) => {
      const { samples: all } = world.store
      await all.add('w1', [ONE], HOUR_MS)
      await all.add('w1', [ONE, { ...ONE, scope: 'shipping', done: 1 }], HOUR_MS)
      await all.add('w2', [{ ...ONE, done: 5 }], HOUR_MS)
      await all.add('w2', [], HOUR_MS)
      assert.deepEqual(await sums(world), [25, 6, 9, 3, 3_703.5, 27])
      assert.deepEqual((await sums(world, 'shipping'))[0], 1)
    },
  },
  {
    name: 'of what waits, a minute has the largest number that a worker knows',
    run: async (world) => {
      const { samples: all } = world.store
      const largest = async (): Promise<readonly (number | null)[]> => {
        const rows = await all.list(HOUR_MS)
        const most = (of: (row: MinuteSample) => number | null): number | null =>
          rows.map(of).reduce((a, b) => (a === null || b === null ? (a ?? b) : Math.max(a, b)))
        return [most((row) => row.waiting), most((row) => row.oldestMs)]
      }
      await all.add('w1', [ONE], HOUR_MS)
      assert.deepEqual(await largest(), [null, null])
      await all.add('w1', [{ ...ONE, waiting: 7, oldestMs: 1.5 }], HOUR_MS)
      await all.add('w1', [{ ...ONE, waiting: 0 }], HOUR_MS)
      assert.deepEqual(await largest(), [7, 1.5])
      await all.add('w2', [{ ...ONE, waiting: 3, oldestMs: 99 }], HOUR_MS)
      assert.deepEqual(await largest(), [7, 99])
    },
  },
  {
    name: 'samples are listed by minute, origin and scope, a row for each',
    run: async (world) => {
      const { samples: all } = world.store
      const named = (['b', 'a', 'B'] as const).map((scope) => ({ ...ONE, scope }))
      const before = Math.floor((await world.store.admin.status()).at.getTime() / MINUTE_MS)
      await all.add('w1', [{ ...ONE, origin: 'outbox', scope: 'a' }, ...named], HOUR_MS)
      await all.add('w2', named, HOUR_MS)
      const listed = await all.list(HOUR_MS)
      assert.ok(listed.every(({ at }) => at.getTime() % MINUTE_MS === 0 && at.getTime() >= before * MINUTE_MS))
      const minutes = Map.groupBy(listed, ({ at }) => at.getTime())
      assert.deepEqual(
        [...minutes.keys()],
        [...minutes.keys()].sort((a, b) => a - b),
      )
      for (const rows of minutes.values()) {
        const names = rows.map(({ origin, scope }) => `${origin} ${scope}`)
        assert.deepEqual(names, [...new Set(names)].sort())
      }
      assert.deepEqual(new Set(listed.map(({ scope }) => scope)), new Set(['B', 'a', 'b']))
    },
  },
  {
    name: 'what is older than asked for is forgotten when something is added',
    run: async (world) => {
      const { samples: all } = world.store
      await all.add('w1', [ONE], HOUR_MS)
      assert.deepEqual((await all.list(HOUR_MS)).length > 0, true)
      // The minute began at some time before now: less than that is kept.
      await world.until(async () => {
        await all.add('w2', [], 0)
        return (await all.list(HOUR_MS)).length === 0
      })
    },
  },
  {
    name: 'workers that write at once do not lose anything',
    run: async (world) => {
      const workers = ['w1', 'w2', 'w3', 'w4', 'w5', 'w6']
      const scopes = ['a', 'b', 'billing'].map((scope) => ({ ...ONE, scope }))
      await Promise.all(workers.map((worker) => world.store.samples.add(worker, scopes, HOUR_MS)))
      assert.equal((await sums(world))[0], 60)
    },
  },
  {
    name: 'any name of a worker or a scope comes back as it was',
    run: async (world) => {
      await world.store.samples.add(ODD, [{ ...ONE, scope: ODD }], HOUR_MS)
      const [found] = await world.store.samples.list(HOUR_MS)
      assertTexts(found?.scope, ODD)
      assert.equal(found?.done, 10)
    },
  },
]
