import { beforeEach, describe, expect, it } from 'vitest'
import { Deliveries, type Handle, type Incoming } from '../../src/brokers/kit/deliveries.ts'
import type { Delivery, Prefetch } from '../../src/contracts/broker.ts'
import type { Arrival } from '../../src/message/arrival.ts'
import { StillClock } from '../support/still-clock.ts'

interface Named extends Handle {
  readonly name: string
}

let clock: StillClock
let log: string[]
let received: Delivery[]
let counts: boolean

beforeEach(() => {
  clock = new StillClock()
  log = []
  received = []
  counts = false
})

function deliveries(prefetch: Partial<Prefetch> = {}): Deliveries<Named> {
  return new Deliveries<Named>({
    prefetch: { messages: 10, bytes: 1_000, ...prefetch },
    receive: (all) => received.push(...all),
    answered: () => log.push('answered'),
    clock,
  })
}

function incoming(name: string, bytes = 10): Incoming<Named> {
  const arrival: Arrival = {
    body: Buffer.from(name),
    contentType: undefined,
    attributes: {},
    headers: {},
    properties: {},
    redelivered: false,
    refused: undefined,
  }
  const handle: Named = {
    name,
    ack: () => log.push(`ack ${name}`),
    giveBack: () => log.push(`give back ${name}`),
    reject: (delayMs) => {
      if (counts) log.push(`reject ${name} ${delayMs}`)
      return counts
    },
  }
  return { arrival, bytes, handle }
}

const names = (all: readonly Delivery[] = received): readonly string[] =>
  all.map(({ arrival }) => `${Buffer.from(arrival.body)}${arrival.redelivered ? ' again' : ''}`)

const take = (at: number): Delivery => received[at] as Delivery

describe('what a reader has in hand', () => {
  it('is handed out in order, in one call', () => {
    const calls: number[] = []
    const hand = new Deliveries({ prefetch: { messages: 3, bytes: 100 }, receive: (all) => calls.push(all.length) })
    hand.hand([incoming('a'), incoming('b')])
    hand.hand([])
    expect(calls).toEqual([2])
    expect(hand.size).toBe(2)
  })

  it('is acked once', () => {
    const hand = deliveries()
    hand.hand([incoming('a')])
    take(0).ack()
    take(0).ack()
    take(0).retry(0)
    take(0).reject(0)
    expect(log).toEqual(['ack a', 'answered'])
    expect(hand.size).toBe(0)
  })

  it('leaves room by messages and by bytes, and always room for one', () => {
    const hand = deliveries({ messages: 3, bytes: 100 })
    expect([hand.room, hand.roomBytes]).toEqual([3, 100])
    hand.hand([incoming('a', 40)])
    expect([hand.room, hand.roomBytes]).toEqual([2, 60])
    hand.hand([incoming('b', 500)])
    expect([hand.room, hand.roomBytes]).toEqual([0, 1])
    take(1).ack()
    expect([hand.room, hand.roomBytes]).toEqual([2, 60])
    take(0).ack()
    hand.hand([incoming('c'), incoming('d'), incoming('e'), incoming('f')])
    expect(hand.room).toBe(0)
  })

  it('waits here to be tried again, and takes its room meanwhile', () => {
    const hand = deliveries({ messages: 2 })
    hand.hand([incoming('a'), incoming('b')])
    take(0).retry(100)
    expect(log).toEqual([])
    expect(hand.room).toBe(0)
    clock.pass(99)
    expect(names()).toEqual(['a', 'b'])
    clock.pass(1)
    expect(names()).toEqual(['a', 'b', 'a again'])
    take(2).ack()
    expect(log).toEqual(['ack a', 'answered'])
    expect(hand.room).toBe(1)
  })

  it('is handed out again as a delivery of its own: answers to the one before do nothing', () => {
    const hand = deliveries()
    hand.hand([incoming('a')])
    take(0).retry(100)
    for (const answer of ['ack', 'retry', 'reject'] as const) take(0)[answer](0)
    expect(log).toEqual([])
    expect(clock.timers).toBe(1)
    clock.pass(100)
    for (const answer of ['ack', 'retry', 'reject'] as const) take(0)[answer](0)
    expect(log).toEqual([])
    expect(clock.timers).toBe(0)
    expect(names([take(0)])).toEqual(['a'])
    take(1).retry(5)
    clock.pass(5)
    expect(names()).toEqual(['a', 'a again', 'a again'])
    expect(hand.handles.map(({ name }) => name)).toEqual(['a'])
  })

  it('is rejected by the broker where it counts, and waits here where it does not', () => {
    const hand = deliveries()
    hand.hand([incoming('a'), incoming('b')])
    take(0).reject(50)
    clock.pass(50)
    expect(names()).toEqual(['a', 'b', 'a again'])
    counts = true
    take(1).reject(70)
    take(1).ack()
    expect(log).toEqual(['reject b 70', 'answered'])
    expect(hand.handles.map(({ name }) => name)).toEqual(['a'])
  })

  it('goes back to the broker when the reader pauses, if it waits or is put back later', () => {
    const hand = deliveries()
    hand.hand([incoming('a'), incoming('b'), incoming('c'), incoming('d')])
    take(0).retry(100)
    take(1).retry(100)
    hand.pause()
    expect(log).toEqual(['give back a', 'answered', 'give back b', 'answered'])
    expect(hand.room).toBe(0)
    log.length = 0
    take(2).retry(100)
    take(3).ack()
    expect(log).toEqual(['give back c', 'answered', 'ack d', 'answered'])
    expect(clock.timers).toBe(0)
    clock.pass(1_000)
    expect(names()).toEqual(['a', 'b', 'c', 'd'])
  })

  it('E5 E6: is forgotten with its link: no answer reaches the broker, and nothing is handed out again', () => {
    const hand = deliveries()
    hand.hand([incoming('a'), incoming('b')])
    take(0).retry(100)
    hand.forget()
    expect(log).toEqual(['answered'])
    for (const answer of ['ack', 'retry', 'reject'] as const) for (const each of received) each[answer](0)
    clock.pass(1_000)
    expect(log).toEqual(['answered'])
    expect(names()).toEqual(['a', 'b'])
    expect([hand.size, hand.room, hand.roomBytes]).toEqual([0, 10, 1_000])
  })

  it('may be forgotten in part', () => {
    const hand = deliveries()
    hand.hand([incoming('a'), incoming('b')])
    hand.forget(({ name }) => name === 'a')
    take(0).ack()
    take(1).ack()
    expect(log).toEqual(['answered', 'ack b', 'answered'])
  })

  it('may be answered inside the call that hands it out', () => {
    const hand = new Deliveries({
      prefetch: { messages: 2, bytes: 100 },
      receive: (all) => {
        for (const each of all) each.ack()
      },
    })
    hand.hand([incoming('a'), incoming('b')])
    expect(log).toEqual(['ack a', 'ack b'])
    expect(hand.room).toBe(2)
  })
})
