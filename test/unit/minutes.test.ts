import { expect, test } from 'vitest'
import { Tally } from '../../src/base/index.ts'
import type { Sample } from '../../src/contracts/index.ts'
import { Minutes, samplesOf } from '../../src/worker/minutes.ts'
import { StillClock } from '../support/still-clock.ts'

const MINUTE = 60_000

const random = { number: () => 0.5, token: () => 'token', bytes: (count: number) => new Uint8Array(count) }

test('the lag of a message is asked for once a second, whatever happens meanwhile', () => {
  const clock = new StillClock()
  const counts = new Tally(clock).of('inbox', 'billing')
  expect(counts.wantsLag).toBe(true)
  counts.lag(40)
  expect(counts.wantsLag).toBe(false)
  clock.pass(1_000)
  expect(counts.wantsLag).toBe(true)
  counts.lag(undefined)
  expect(counts.wantsLag).toBe(false)
  expect(counts.take()).toMatchObject({ lagMs: 40, aged: 1 })
  expect(counts.take()).toMatchObject({ lagMs: 0, aged: 0 })
})

test('every minute of the database gets one sample of a worker', async () => {
  const clock = new StillClock()
  const tally = new Tally(clock)
  const written: number[] = []
  const now = (): number => 1_000 * MINUTE + 12_000 + clock.monotonic()
  const samples: Sample[] = []
  const store = {
    add: async (_: string, added: readonly Sample[]) => {
      written.push(Math.floor(now() / MINUTE) - 1_000)
      samples.push(...added)
    },
  }
  const minutes = new Minutes({ store, tally, clock, databaseClock: { now }, random, worker: 'w', report: () => {} })
  minutes.start()
  const counts = tally.of('inbox', 'billing')
  for (let second = 0; second < 300; second++) {
    counts.done += 1
    clock.pass(1_000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await minutes.stop()
  expect(written.slice(0, 5)).toEqual([0, 1, 2, 3, 4])
  expect(samples.reduce((sum, { done }) => sum + done, 0)).toBe(300)
})

test('what waits is written with what was counted, also of consumers that another process serves', () => {
  const counted = { origin: 'inbox', scope: 'here', done: 3, duplicates: 0, retried: 0, failed: 0, lagMs: 5, aged: 1 }
  const more = { held: 0, failed: 0, unknownEffects: 0, workers: 1 }
  const state = {
    consumers: [
      { consumer: 'here', waiting: 2, retrying: 1, oldestMs: 10.4, ...more },
      { consumer: 'there', waiting: 0, retrying: 0, oldestMs: undefined, ...more },
    ],
    relays: [],
    failed: [],
    workers: undefined,
    rows: [],
  }
  const samples = samplesOf([{ ...counted, origin: 'inbox' }], state)
  expect(samples.map(({ scope, done, waiting, oldestMs }) => [scope, done, waiting, oldestMs])).toEqual([
    ['here', 3, 3, 10],
    ['there', 0, 0, 0],
  ])
  expect(samplesOf([{ ...counted, origin: 'inbox' }], undefined)).toMatchObject([{ waiting: null, oldestMs: null }])
})
