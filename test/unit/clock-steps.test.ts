import { createHapax, defineMessage, type HapaxEvents, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { EventHub, systemClock } from '../../src/base/index.ts'
import { DatabaseClock } from '../../src/transaction/index.ts'
import { ClockSteps } from '../../src/worker/clock-steps.ts'

const HOUR_MS = 3_600_000

describe('the clock of the database', () => {
  it('counts as gone back only by what the duration of a query cannot explain', () => {
    let monotonic = 0
    const clock = new DatabaseClock({ ...systemClock, monotonic: () => monotonic })
    const learn = (now: number, began: number, ended: number): number => {
      monotonic = ended
      return clock.learn(new Date(now), began)
    }
    expect(learn(1_000_000, 0, 100)).toBe(0)
    // Read at the beginning of a slow query, at its end, and ahead.
    expect(learn(1_001_000, 1_000, 9_000)).toBe(0)
    expect(learn(1_019_000, 10_000, 19_000)).toBe(0)
    expect(learn(1_999_000, 20_000, 20_100)).toBe(0)
    expect(learn(1_000_000, 21_000, 21_000)).toBe(999_900)
    expect(learn(1_001_000, 22_000, 22_000)).toBe(0)
  })

  it('is noticed to have gone back by a heartbeat of a running worker', async () => {
    let backMs = 0
    const store = memory({ clock: { ...systemClock, now: () => systemClock.now() - backMs } })
    const hapax = createHapax({ store, source: '/test', delivery: 'local', logger: silentLogger })
    const steps: HapaxEvents['clock-went-back'][] = []
    hapax.events.on('clock-went-back', (event) => void steps.push(event))
    const handled: string[] = []
    const Ping = defineMessage('ping')
    const billing = hapax.consumer('billing', { receive: 'store' }).on(Ping, (_, { message }) => {
      handled.push(message.id)
    })
    const worker = hapax.worker({ consume: [billing], takeoverMs: 500, pollMs: 20 })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, undefined, { id: 'a', delayMs: 300 }))
    backMs = HOUR_MS
    await expect.poll(() => handled).toEqual(['a'])
    await expect.poll(() => steps.length).toBe(1)
    expect(steps.map(({ byMs, recounted }) => [Math.round(byMs / 60_000), recounted])).toEqual([[60, 1]])
    await worker.stop()
  })

  it('recounts locked rows at a later heartbeat, and reports the step once', async () => {
    const recounts = [
      { rows: 2, locked: 1 },
      { rows: 1, locked: 0 },
    ]
    let told = 0
    let noted = 0
    let changed = 0
    const events = new EventHub(silentLogger)
    events.on('clock-went-back', () => void told++)
    const databaseClock = { learn: (now: Date) => now.getTime(), now: () => HOUR_MS }
    const clock = { aheadMs: async () => 0, recount: async () => recounts.shift() ?? { rows: 0, locked: 0 } }
    const audited = async () => ({ rows: [], before: undefined })
    const admin = { audited, audit: async () => void noted++ }
    const steps = new ClockSteps({
      engine: {
        clock: { monotonic: () => 0 },
        store: { clock, admin } as never,
        databaseClock,
        events,
        logger: silentLogger,
        worker: 'one',
      },
      changed: () => void changed++,
      report: (error) => expect.unreachable(error.message),
    })
    steps.heard(new Date(HOUR_MS), 0)
    await expect.poll(() => noted).toBe(1)
    steps.heard(new Date(0), 0)
    await expect.poll(() => changed).toBe(2)
    // Nothing remains to be recounted.
    steps.heard(new Date(0), 0)
    await steps.stop()
    expect([told, noted, changed]).toEqual([1, 1, 2])
  })

  it.each([
    [2, 1],
    [0, 0],
  ])('is told of at the start of a worker if it made something wait: %i rows', async (rows, tellings) => {
    let told = 0
    let recounts = 0
    const events = new EventHub(silentLogger)
    events.on('clock-went-back', () => void told++)
    const recount = async () => {
      recounts += 1
      return { rows, locked: 0 }
    }
    const admin = { audited: async () => ({ rows: [], before: undefined }), audit: async () => {} }
    const steps = new ClockSteps({
      engine: {
        clock: systemClock,
        store: { clock: { aheadMs: async () => HOUR_MS, recount }, admin } as never,
        databaseClock: { learn: () => 0, now: () => 0 },
        events,
        logger: silentLogger,
        worker: 'one',
      },
      changed: () => {},
      report: (error) => expect.unreachable(error.message),
    })
    steps.start()
    await steps.stop()
    expect([recounts, told]).toEqual([1, tellings])
  })

  it('is noticed by times in the tables if it went forward and back between two heartbeats', async () => {
    let monotonic = 0
    let aheadMs = 0
    let looks = 0
    const recount = async () => {
      aheadMs = 0
      return { rows: 1, locked: 0 }
    }
    const looked = async () => {
      looks += 1
      return aheadMs
    }
    const told: number[] = []
    const events = new EventHub(silentLogger)
    events.on('clock-went-back', ({ byMs }) => void told.push(byMs))
    const admin = { audited: async () => ({ rows: [], before: undefined }), audit: async () => {} }
    const steps = new ClockSteps({
      engine: {
        clock: { monotonic: () => monotonic },
        store: { clock: { aheadMs: looked, recount }, admin } as never,
        databaseClock: { learn: () => 0, now: () => 0 },
        events,
        logger: silentLogger,
        worker: 'one',
      },
      changed: () => {},
      report: (error) => expect.unreachable(error.message),
    })
    // The heartbeat with which a worker joins comes before its start.
    steps.heard(new Date(0), monotonic)
    await new Promise(setImmediate)
    steps.start()
    await new Promise(setImmediate)
    expect(looks).toBe(1)
    aheadMs = HOUR_MS
    for (; monotonic <= 60_000; monotonic += 3_000) {
      steps.heard(new Date(0), monotonic)
      await new Promise(setImmediate)
    }
    await steps.stop()
    expect(told).toEqual([HOUR_MS])
  })

  it.each(['ends', 'fails'])('is not forgotten if it comes during a recount that %s', async (how) => {
    const recounts: PromiseWithResolvers<{ rows: number; locked: number }>[] = []
    const recount = () => {
      const next = Promise.withResolvers<{ rows: number; locked: number }>()
      recounts.push(next)
      return next.promise
    }
    const admin = { audited: async () => ({ rows: [], before: undefined }), audit: async () => {} }
    const told: number[] = []
    const events = new EventHub(silentLogger)
    events.on('clock-went-back', ({ byMs }) => void told.push(byMs))
    const steps = new ClockSteps({
      engine: {
        clock: { monotonic: () => 0 },
        store: { clock: { aheadMs: async () => 0, recount }, admin } as never,
        databaseClock: { learn: (now) => now.getTime(), now: () => 0 },
        events,
        logger: silentLogger,
        worker: 'one',
      },
      changed: () => {},
      report: (error) => expect(error.message).toBe('the store is away'),
    })
    steps.heard(new Date(HOUR_MS), 0)
    await expect.poll(() => recounts.length).toBe(1)
    steps.heard(new Date(HOUR_MS / 2), 0)
    if (how === 'ends') recounts[0]?.resolve({ rows: 3, locked: 0 })
    else recounts[0]?.reject(new Error('the store is away'))
    await new Promise(setImmediate)
    steps.heard(new Date(0), 0)
    await expect.poll(() => recounts.length).toBe(2)
    recounts[1]?.resolve({ rows: 1, locked: 0 })
    await steps.stop()
    expect(told).toEqual(how === 'ends' ? [HOUR_MS, HOUR_MS / 2] : [HOUR_MS])
  })

  it('has its rows counted again less often, the longer that takes, while a handler has one of them locked', async () => {
    let monotonic = 0
    let recounts = 0
    const recount = async () => {
      recounts += 1
      monotonic += 2_000
      return { rows: 0, locked: 1 }
    }
    const admin = { audited: async () => ({ rows: [], before: undefined }), audit: async () => {} }
    let byMs = HOUR_MS
    const steps = new ClockSteps({
      engine: {
        clock: { monotonic: () => monotonic },
        store: { clock: { aheadMs: async () => 0, recount }, admin } as never,
        databaseClock: { learn: () => byMs, now: () => 0 },
        events: new EventHub(silentLogger),
        logger: silentLogger,
        worker: 'one',
      },
      changed: () => {},
      report: (error) => expect.unreachable(error.message),
    })
    for (let beat = 0; beat < 100; beat++) {
      steps.heard(new Date(0), 0)
      byMs = 0
      // What has begun ends.
      await new Promise(setImmediate)
      monotonic += 1_000
    }
    // Two seconds of recounting and eight of rest, in a hundred seconds of heartbeats.
    expect(recounts).toBeGreaterThan(8)
    expect(recounts).toBeLessThan(16)
    await steps.stop()
  })
})
