import { setImmediate } from 'node:timers/promises'
import { type Destination, silentLogger } from 'hapax'
import type { Confirmation, Entry } from 'hapax/contracts'
import { beforeEach, describe, expect, it } from 'vitest'
import { detached, EventHub, Tally } from '../../src/base/index.ts'
import { loggerOption } from '../../src/base/logger.ts'
import { answering } from '../../src/testing/promised.ts'
import { OutboxLine } from '../../src/worker/lines/outbox.ts'
import { Probe, Reaching } from '../../src/worker/lines/sending.ts'

let now = 0
let told: boolean[] = []
let reasons: (string | undefined)[] = []
const error = new Error('no answer')
const clock = { now: () => now, monotonic: () => now, after: () => () => {} }

beforeEach(() => {
  now = 0
  told = []
  reasons = []
})

const reaching = (): Reaching =>
  new Reaching({
    clock,
    tell: (reached) => told.push(reached),
    failing: (failure) => reasons.push(failure?.message),
  })

it('K9: leaves messages to others after ten seconds without an answer, and tries again after longer and longer pauses', () => {
  const watched = reaching()
  const changes: number[] = []
  for (let count = 0; now < 400_000; now += 1_000) {
    watched.look()
    watched.missed(error)
    for (; count < told.length; count++) changes.push(now / 1_000)
  }
  // Away at 10, and with the first failure of every later try at once.
  expect(changes).toEqual([10, 40, 40, 100, 100, 220, 220])
  expect(told).toEqual([false, true, false, true, false, true, false])
})

it('takes everything back as soon as the destination answers, and is patient again', () => {
  const watched = reaching()
  watched.missed(error)
  now += 10_000
  watched.missed(error)
  watched.reached()
  watched.missed(error)
  now += 9_999
  watched.missed(error)
  expect(told).toEqual([false, true])
})

it('says nothing while the destination answers in between', () => {
  const watched = reaching()
  for (let second = 0; second < 100; second++) {
    now += 1_000
    if (second % 5 === 0) watched.reached()
    else watched.missed(error)
  }
  expect(told).toEqual([])
})

it('says why it fails after three seconds, once, and that it no longer does', () => {
  const watched = reaching()
  for (const second of [0, 2_999]) {
    now = second
    watched.missed(error)
  }
  expect(reasons).toEqual([])
  for (const second of [3_000, 4_000, 60_000]) {
    now = second
    watched.missed(new Error(`at ${second}`))
  }
  expect(reasons).toEqual(['at 3000'])
  watched.reached()
  watched.reached()
  expect(reasons).toEqual(['at 3000', undefined])
})

const MINUTE_MS = 60_000

describe('a probe', () => {
  it('is in vain if the destination answers and then takes no message, until it takes one', () => {
    const probe = new Probe(clock)
    expect(probe.begin()).toBe(true)
    probe.ended(true)
    now += MINUTE_MS / 2
    probe.missed()
    expect([probe.inVain, probe.begin()]).toEqual([true, false])
    probe.confirmed()
    expect([probe.inVain, probe.begin()]).toEqual([false, true])
  })

  it('is not in vain if the answer ended an earlier outage', () => {
    const probe = new Probe(clock)
    probe.begin()
    probe.ended(true)
    now += 2 * MINUTE_MS
    probe.missed()
    expect([probe.inVain, probe.begin()]).toEqual([false, true])
  })
})

const DOWN: Confirmation = { status: 'unavailable', error }
const FIRST: Entry = { seq: '1', type: 'sent', lane: 0, key: 'k', bytes: 1, dueMs: 0, held: false, deaths: 0 }

/** A relay beside others that have its lanes while it misses its destination, and what it tells and reports. */
function relayBesideOthers({ alone = false, ...broker }: { alone?: boolean } & Pick<Destination, 'publish' | 'reach'>) {
  const events = new EventHub(silentLogger)
  const seen: string[] = []
  events.on('relay-down', () => seen.push('down'))
  events.on('relay-up', () => seen.push('up'))
  const lanes = { own: [0] }
  const line = new OutboxLine({
    engine: {
      clock,
      random: { token: () => '', bytes: (count) => new Uint8Array(count), number: () => 0.5 },
      tally: new Tally(clock),
      detached,
      events,
      logger: loggerOption(silentLogger, (text) => text, clock),
      instrument: undefined,
      worker: 'here',
      redact: (text) => text,
      store: {
        outbox: {
          read: async (seqs) => seqs.map((seq) => ({ seq, attempts: 0, message: leaving(seq) })),
          confirm: async () => [],
          postpone: async () => {},
          refuse: async () => true,
          recordRelay: async (_, destination) => destination,
        },
      },
    },
    name: 'default',
    destination: {
      name: 'a test',
      features: { keepsOrder: true },
      prepare: async () => {},
      close: async () => {},
      ...broker,
    },
    membership: {
      lanesOfRelay: () => lanes.own,
      nextLanesOfRelay: () => [],
      reaches: async (_, reached) => {
        told.push(reached)
        if (!alone) lanes.own = reached ? [0] : []
      },
      failing: async () => {},
    },
    keep: false,
    signal: new AbortController().signal,
    changed: () => {},
    report: (failure) => {
      throw failure
    },
  })
  /** One look, that finds these rows if the lanes are here. */
  const look = async (...entries: Entry[]): Promise<void> => {
    const shares = line.shares()
    if (shares.length > 0) line.offer(shares.map(() => ({ entries, nextMs: undefined, after: new Map() })))
    line.begin()
    await setImmediate()
  }
  return { look, seen }
}

function leaving(id: string) {
  return { source: '/test', id, type: 'sent', key: 'k', attributes: '{}', data: new Uint8Array() }
}

/** Looks once a second, and returns the seconds of what was told. */
async function watch(look: () => Promise<void>, seconds: number): Promise<number[]> {
  const at: number[] = []
  for (const end = now + 1_000 * seconds; now < end; now += 1_000) {
    await look()
    while (at.length < told.length) at.push(Math.round(now / 1_000))
  }
  return at
}

describe('a relay whose destination can be asked', () => {
  it('leaves its messages to others until the destination answers', async () => {
    let up = false
    const reach = async (): Promise<void> => {
      if (!up) throw error
    }
    const { look, seen } = relayBesideOthers({ reach, publish: answering(() => DOWN) })
    await watch(() => look(FIRST), 900)
    expect(told).toEqual([false])
    up = true
    await watch(look, 60)
    expect(told).toEqual([false, true])
    expect(seen.at(-1)).toBe('up')
  })

  it('tries a message at growing intervals if the destination answers and takes none', async () => {
    const { look } = relayBesideOthers({ reach: async () => {}, publish: answering(() => DOWN) })
    const at = await watch(() => look(FIRST), 900)
    const back = at.filter((_, index) => told[index] === true)
    const pauses = back.slice(1).map((second, index) => second - (back[index] ?? 0))
    expect(pauses.length).toBeGreaterThan(3)
    for (const [index, pause] of pauses.slice(2).entries()) expect(pause).toBeGreaterThan(pauses[index + 1] ?? 0)
  })

  it('goes on trying messages if no other worker is there', async () => {
    let sent = 0
    const publish = answering(() => {
      sent += 1
      return DOWN
    })
    const { look } = relayBesideOthers({ alone: true, reach: () => Promise.reject(error), publish })
    await watch(() => look(FIRST), 300)
    const before = sent
    await watch(() => look(FIRST), 120)
    expect(sent - before).toBeGreaterThanOrEqual(3)
  })

  it('is not down because a probe fails late, after a message was confirmed', async () => {
    const probe = Promise.withResolvers<void>()
    let answer: Confirmation = DOWN
    const { look, seen } = relayBesideOthers({ reach: () => probe.promise, publish: answering(() => answer) })
    await look(FIRST)
    now += 10_000
    await look()
    answer = { status: 'confirmed' }
    await look(FIRST)
    probe.reject(error)
    await setImmediate()
    expect(seen).toEqual(['down', 'up'])
  })
})
