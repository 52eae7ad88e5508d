import { describe, expect, it } from 'vitest'
import { type Checker, countEffects, durableStores, makePlace } from '../../support/databases.ts'
import { oneInTest } from '../../support/runs.ts'
import { type Lags, perMille, runDeaths } from './deaths.ts'

async function expectExact(checker: Checker, { published }: Lags): Promise<void> {
  expect(await countEffects(checker)).toEqual(new Map(published.map((id) => [`deaths ${id}`, 1])))
}

describe.each(oneInTest(durableStores(), 'postgres'))('%s: workers that are killed', (store) => {
  it.each(store === 'sqlite' ? [20] : [20, 180])(
    'at %i messages a second without order, hardly any message waits until a death is certain',
    async (perSecond) => {
      await using checker = await makePlace(store)
      const takeoverMs = 60_000
      const load = { ordered: false, perSecond, ms: 15_000, killEveryMs: 5_000, takeoverMs }
      const deaths = await runDeaths(checker, load)
      expect(deaths.kills).toBe(2)
      await expectExact(checker, deaths)
      // Messages that a dead worker had in hand may wait until it is presumed dead.
      expect(perMille(deaths, 950)).toBeLessThan(takeoverMs / 3)
    },
  )

  // Each worker is seen by the others, at a heartbeat, before it is killed.
  it.skipIf(store === 'mysql')(
    'with order, messages wait until the end of a session is noticed, and no longer',
    async () => {
      await using checker = await makePlace(store)
      const takeoverMs = 30_000
      const load = { ordered: true, perSecond: 20, ms: 27_000, killEveryMs: 12_000, takeoverMs }
      const deaths = await runDeaths(checker, load)
      expect(deaths.kills).toBe(2)
      await expectExact(checker, deaths)
      expect(perMille(deaths, 1_000)).toBeLessThan(0.6 * takeoverMs)
    },
  )
})
