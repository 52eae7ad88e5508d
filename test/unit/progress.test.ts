import { silentLogger } from 'hapax'
import { beforeEach, expect, it } from 'vitest'
import { detached } from '../../src/base/detached.ts'
import { HapaxError } from '../../src/base/errors.ts'
import { EventHub } from '../../src/base/events.ts'
import { systemRandom } from '../../src/base/random.ts'
import { Progress } from '../../src/worker/progress.ts'

let now = 0
let heardAt = 0
let through = false
let changes: boolean[] = []
const clock = {
  now: () => now,
  monotonic: () => now,
  after: (_ms: number, call: () => void) => void setImmediate(call),
}

beforeEach(() => {
  now = 1_000
  heardAt = 0
  through = false
  changes = []
})

function progress(): Progress {
  const after = (ms: number, call: () => void): (() => void) => {
    clock.after(ms, call)
    return () => {}
  }
  return new Progress({
    engine: {
      clock: { ...clock, after },
      random: systemRandom,
      detached,
      events: new EventHub(silentLogger),
      logger: silentLogger,
    },
    signal: new AbortController().signal,
    consumers: () => ['billing'],
    heardSince: (time) => heardAt > time,
    probe: async () => {
      if (!through) throw away()
    },
    changed: (stuck) => changes.push(stuck),
  })
}

const away = (): HapaxError => new HapaxError('store-unavailable', 'away')
const exhausted = (): HapaxError => new HapaxError('store-unavailable', 'no connection', { fields: { waitedMs: 1 } })

it('K9: is stuck at once when the pool hands out nothing, and until something comes through', async () => {
  const watched = progress()
  watched.failed(exhausted())
  expect([watched.stuck, changes]).toEqual([true, [true]])
  through = true
  await expect.poll(() => watched.stuck).toBe(false)
  expect(changes).toEqual([true, false])
})

it('K9: is stuck when nothing came through for a while, although heartbeats did', () => {
  const watched = progress()
  watched.failed(away())
  now += 9_999
  heardAt = now
  watched.failed(away())
  expect(watched.stuck).toBe(false)
  now += 1
  watched.failed(away())
  expect(watched.stuck).toBe(true)
  watched.made()
  expect(changes).toEqual([true, false])
})

it('is not stuck when the database is away for heartbeats too, after a success, or because of other errors', () => {
  const watched = progress()
  watched.failed(away())
  now += 20_000
  watched.failed(away())
  expect(watched.stuck).toBe(false)
  heardAt = now
  watched.made()
  watched.failed(away())
  watched.failed(new Error('a bug'))
  expect([watched.stuck, changes]).toEqual([false, []])
})
