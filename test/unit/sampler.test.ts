import { silentLogger } from 'hapax'
import { beforeEach, describe, expect, it } from 'vitest'
import { EventHub, type State, systemRandom } from '../../src/base/index.ts'
import { LeapingClock } from '../../src/testing/clock.ts'
import { until } from '../../src/testing/wait.ts'
import { Sampler, Unserved } from '../../src/worker/index.ts'

const state = (workers: number, waiting = 1): State => ({
  consumers: [],
  relays: [{ relay: 'default', waiting, held: 0, failed: 0, oldestMs: 5, workers }],
  failed: [],
  workers: undefined,
  rows: [],
})

describe('a sampler', () => {
  let clock: LeapingClock
  let events: EventHub
  let looks: PromiseWithResolvers<State>[]
  let shown: (State | undefined)[]
  let reported: Error[]
  let mine: boolean | undefined
  let sampler: Sampler

  beforeEach(() => {
    clock = new LeapingClock()
    events = new EventHub(silentLogger)
    looks = []
    shown = []
    reported = []
    mine = true
    sampler = new Sampler({
      engine: { clock, random: systemRandom, events },
      look: () => {
        const look = Promise.withResolvers<State>()
        looks.push(look)
        return look.promise
      },
      isSampler: () => mine,
      horizons: () => [],
      watch: () => undefined,
      report: (error) => void reported.push(error),
    })
    events.on('sampled', (event) => void shown.push(event.state))
    sampler.start()
  })

  const looked = (count: number): Promise<void> =>
    until(() => {
      if (looks.length < count) clock.leap(1_000)
      return looks.length === count
    })

  it('reports a failure once, and shows the next success', async () => {
    for (const count of [1, 2, 3]) {
      await looked(count)
      looks.at(-1)?.reject(new Error('away'))
    }
    await looked(4)
    looks.at(-1)?.resolve(state(1))
    await until(() => shown.length === 1)
    expect(reported.map(({ message }) => message)).toEqual(['away'])
    await sampler.stop()
  })

  it('gives up a look that takes too long, and begins no other one while it is under way', async () => {
    await looked(1)
    await until(() => {
      clock.leap(1_000)
      return reported.length === 1
    })
    for (let second = 0; second < 60; second++) {
      clock.leap(1_000)
      await new Promise(setImmediate)
    }
    expect(looks).toHaveLength(1)
    looks[0]?.resolve(state(1))
    await looked(2)
    expect(shown).toEqual([])
    looks[1]?.resolve(state(2))
    await until(() => shown.length === 1)
    await sampler.stop()
  })

  it('leaves what it has shown while it does not know whether it is still the one, and withdraws it then', async () => {
    await looked(1)
    looks[0]?.resolve(state(1))
    await until(() => shown.length === 1)
    mine = undefined
    for (let second = 0; second < 60; second++) {
      clock.leap(1_000)
      await new Promise(setImmediate)
    }
    expect([looks.length, shown.length]).toEqual([1, 1])
    mine = false
    await until(() => {
      clock.leap(1_000)
      return shown.length === 2
    })
    expect(shown[1]).toBe(undefined)
    await sampler.stop()
  })
})

describe('what is not served', () => {
  it('is warned of if two looks in a row have found it, and once', () => {
    const warned: string[] = []
    const logger = { ...silentLogger, warn: (_: object, message: string) => void warned.push(message) }
    const unserved = new Unserved({ workers: { list: async () => [] }, clock: new LeapingClock(), logger })
    for (const workers of [0, 1, 0, 1]) unserved.watch(state(workers))
    expect(warned).toEqual([])
    for (const workers of [0, 0, 0]) unserved.watch(state(workers))
    expect(warned).toEqual(['messages wait in the outbox for the relay default, but no live worker serves it'])
  })

  it('is nothing where nothing waits', () => {
    const warned: string[] = []
    const logger = { ...silentLogger, warn: (_: object, message: string) => void warned.push(message) }
    const unserved = new Unserved({ workers: { list: async () => [] }, clock: new LeapingClock(), logger })
    for (const waiting of [0, 0]) unserved.watch(state(0, waiting))
    expect(warned).toEqual([])
  })
})
