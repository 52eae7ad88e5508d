import assert from 'node:assert/strict'
import { describe, expect, it } from 'vitest'
import { systemRandom } from '../../src/base/index.ts'
import type { Destination } from '../../src/contracts/index.ts'
import { delayMs } from '../../src/endpoints/deliveries.ts'
import { wants } from '../../src/endpoints/directory.ts'
import { Gates } from '../../src/endpoints/gates.ts'
import { webhooks } from '../../src/http/webhooks/index.ts'
import { createHapax, silentLogger } from '../../src/index.ts'
import type { OutgoingMessage } from '../../src/message/index.ts'
import { memory } from '../../src/stores/memory/index.ts'
import { altered } from '../../src/testing/altered.ts'
import { WorkerCore } from '../../src/worker/index.ts'

/** A clock that stands still until it is moved. */
class StandingClock {
  time = 0
  now = (): number => this.time
  monotonic = (): number => this.time
  after = (): (() => void) => () => {}
}

const settings = { perEndpoint: 2, breaker: { failures: 3, pauseMs: 1_000 } }
const opened = (clock: StandingClock): Gates => new Gates({ clock, random: systemRandom, settings })

describe('the pause after a failed delivery', () => {
  const schedule = { scheduleMs: [5_000, 300_000] }
  it('is that of the schedule, with a jitter of a tenth', () => {
    expect([0, 0.5, 1].map((random) => delayMs(schedule, 1, random, 0))).toEqual([4_500, 5_000, 5_500])
    expect(delayMs(schedule, 2, 0.5, 0)).toBe(300_000)
  })
  it('is at least what the receiver asks for, within a day', () => {
    expect(delayMs(schedule, 1, 0.5, 20_000)).toBe(20_000)
    expect(delayMs(schedule, 2, 0.5, 20_000)).toBe(300_000)
    expect(delayMs(schedule, 1, 0.5, 10 ** 12)).toBe(86_400_000)
  })
})

describe('types that an endpoint wants', () => {
  it.each([
    ['all', 'anything', true],
    [['order.*'], 'order.placed', true],
    [['order.*'], 'order', false],
    [['order.*'], 'orders.placed', false],
    [['order.placed'], 'order.placed', true],
    [['order.placed'], 'order.placed.v2', false],
  ] as const)('%s: %s %s', (types, type, wanted) => {
    expect(wants({ types }, type)).toBe(wanted)
  })
})

describe('a gate', () => {
  it('lets so many deliveries pass at once, and puts off the others one after another', () => {
    const gates = opened(new StandingClock())
    expect([gates.enter('a'), gates.enter('a')]).toEqual([undefined, undefined])
    const delays = [gates.enter('a'), gates.enter('a'), gates.enter('a')].map(Number)
    expect(delays.toSorted((a, b) => a - b)).toEqual(delays)
    expect(new Set(delays).size).toBe(3)
    expect(gates.enter('b')).toBeUndefined()
    gates.leave('a')
    expect(gates.enter('a')).toBeUndefined()
  })

  it('closes after failures in a row, and opens for one delivery at a time', () => {
    const clock = new StandingClock()
    const gates = opened(clock)
    const fail = (): boolean => {
      expect(gates.enter('a')).toBeUndefined()
      const closed = gates.failed('a', 10, undefined)
      gates.leave('a')
      return closed
    }
    expect([fail(), fail(), fail()]).toEqual([false, false, true])
    expect(gates.enter('a')).toBeGreaterThanOrEqual(1_000)
    clock.time = 1_000
    expect(gates.enter('a')).toBeUndefined()
    expect(gates.enter('a')).toBeGreaterThan(0)
    gates.failed('a', 10, undefined)
    gates.leave('a')
    expect(gates.enter('a')).toBeGreaterThanOrEqual(1_000)
    clock.time = 2_000
    expect(gates.enter('a')).toBeUndefined()
    gates.succeeded('a', 10)
    expect(gates.enter('a')).toBeUndefined()
  })

  it('lets fewer deliveries pass at once while they fail: dead endpoints would take all places until their gates close', () => {
    const gates = opened(new StandingClock())
    gates.enter('a')
    gates.failed('a', 10, undefined)
    expect(gates.enter('a')).toBeGreaterThan(0)
    gates.leave('a')
    expect(gates.enter('a')).toBeUndefined()
    gates.succeeded('a', 10)
    expect(gates.enter('a')).toBeUndefined()
  })

  it('closes for as long as the receiver asks, at most ten minutes', () => {
    const clock = new StandingClock()
    const gates = opened(clock)
    gates.enter('a')
    gates.failed('a', 10, 5_000)
    gates.leave('a')
    expect(gates.enter('a')).toBeGreaterThanOrEqual(5_000)
    clock.time = 5_000
    gates.enter('a')
    gates.failed('a', 10, 86_400_000)
    gates.leave('a')
    clock.time = 5_000 + 600_000
    expect(gates.enter('a')).toBeUndefined()
  })

  it('puts off for longer, the longer an endpoint does not answer', () => {
    const clock = new StandingClock()
    const gates = opened(clock)
    gates.enter('a')
    gates.enter('a')
    clock.time = 10_000
    gates.enter('a')
    expect(gates.enter('a')).toBeGreaterThan(5_000)
  })
})

describe('many deliveries to dead endpoints', () => {
  /** Puts off `count` deliveries to each of these closed endpoints. Returns how many of them come back within ten minutes. */
  function returning(names: readonly string[], count: number): number {
    const gates = opened(new StandingClock())
    for (const name of names) {
      for (let n = 0; n < settings.breaker.failures; n++) gates.failed(name, 10_000, undefined)
    }
    const delays = names.flatMap((name) => Array.from({ length: count }, () => Number(gates.enter(name))))
    return delays.filter((ms) => ms < 600_000).length
  }

  it('come back no faster than others can bear, however many there are', () => {
    expect(returning(['a'], 1_000)).toBe(1_000)
    expect(returning(['a'], 100_000)).toBeLessThan(31_000)
    expect(returning(['a', 'b', 'c', 'd', 'e'], 100_000)).toBeLessThan(75_000)
  })

  it('do not slow down an endpoint that is busy', () => {
    const gates = opened(new StandingClock())
    for (let n = 0; n < 100_000; n++) gates.enter('a')
    for (const each of ['b', 'b']) expect(gates.enter(each)).toBeUndefined()
    for (let n = 0; n < 200; n++) gates.succeeded('b', 2)
    const delays = Array.from({ length: 1_000 }, () => Number(gates.enter('b')))
    expect(Math.max(...delays)).toBeLessThan(1_200)
  })
})

describe('spreading', () => {
  /** A relay whose store notes what it stores. `stored` is called before each transaction. */
  async function relayOf(endpoints: number, stored: (rows: number) => void): Promise<Relay> {
    const store = memory()
    const put: typeof store.inbox.store = (options, copies) => {
      stored(copies.messages.length)
      return store.inbox.store(options, copies)
    }
    const hapax = createHapax({
      store: altered(store, { inbox: { store: put } }),
      source: '/shop',
      logger: silentLogger,
    })
    for (let n = 0; n < endpoints; n++) await hapax.endpoints.add({ url: 'https://example.com', id: `ep_${n}` })
    const worker = hapax.worker({ relay: webhooks() })
    assert.ok(worker instanceof WorkerCore)
    const [destination] = worker.destinations
    assert.ok(destination)
    return { destination, close: () => hapax.close() }
  }

  interface Relay {
    readonly destination: Destination
    close(): Promise<void>
  }

  const messages = (count: number): OutgoingMessage[] =>
    Array.from({ length: count }, (_, n) => ({ id: `${n}`, source: '/shop', type: 'a', key: 'k', data: Buffer.of() }))

  const settled = (relay: Relay, count: number, signal: AbortSignal, told: (text: string) => void): Promise<void> =>
    new Promise((resolve) => {
      let left = count
      relay.destination.publish(messages(count), signal, (index, { status }) => {
        told(`${index} ${status}`)
        left -= 1
        if (left === 0) resolve()
      })
    })

  it('confirms each message as soon as all endpoints have it, not when all messages are spread', async () => {
    const log: string[] = []
    const relay = await relayOf(400, (rows) => log.push(`store ${rows}`))
    await settled(relay, 5, new AbortController().signal, (text) => log.push(text))
    expect(log).toEqual([
      ...['store 800', '0 confirmed', '1 confirmed', 'store 800', '2 confirmed', '3 confirmed'],
      ...['store 400', '4 confirmed'],
    ])
    await relay.close()
  })

  it('stops when the relay has given up, so that nothing of it is spread twice', async () => {
    const given = new AbortController()
    const log: string[] = []
    const relay = await relayOf(400, (rows) => {
      log.push(`store ${rows}`)
      given.abort()
    })
    await settled(relay, 5, given.signal, (text) => log.push(text))
    expect(log.slice(0, 3)).toEqual(['store 800', '0 confirmed', '1 confirmed'])
    expect(log.slice(3)).toEqual(['2 unavailable', '3 unavailable', '4 unavailable'])
    await relay.close()
  })

  it('fails for what came meanwhile if a call fails, because that may be of the same keys', async () => {
    const store = memory()
    let away = true
    const list: typeof store.endpoints.list = async (relay) => {
      await new Promise((resolve) => setImmediate(resolve))
      if (!away) return store.endpoints.list(relay)
      away = false
      throw new Error('no answer')
    }
    const hapax = createHapax({ store: altered(store, { endpoints: { list } }), source: '/shop', logger: silentLogger })
    await hapax.endpoints.add({ url: 'https://example.com', id: 'ep_a' })
    const worker = hapax.worker({ relay: webhooks() })
    assert.ok(worker instanceof WorkerCore)
    const [destination] = worker.destinations
    const told: string[] = []
    const publish = (id: string): Promise<void> =>
      new Promise((resolve) => {
        const message = { id, source: '/shop', type: 'a', key: 'k', data: Buffer.of() }
        destination?.publish([message], AbortSignal.timeout(60_000), (_, { status }) => {
          told.push(`${id} ${status}`)
          resolve()
        })
      })
    await Promise.all([publish('1'), publish('2')])
    expect(told).toEqual(['1 unavailable', '2 unavailable'])
    await Promise.all([publish('1'), publish('2')])
    expect(told.slice(2)).toEqual(['1 confirmed', '2 confirmed'])
    await hapax.close()
  })
})
