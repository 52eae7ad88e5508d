import { readFileSync } from 'node:fs'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import { redis } from 'hapax/redis'
import { beforeEach, describe, expect, it } from 'vitest'
import { EventHub, type State } from '../../src/base/index.ts'
import {
  type Cell,
  METRICS,
  type Measuring,
  type Metric,
  measure,
  type Sink,
} from '../../src/telemetry/metrics/index.ts'

/** Keeps what was written last, or the sum, by series. */
class Numbers implements Sink {
  readonly all = new Map<string, number>()

  cell(metric: Metric, values: readonly string[]): Cell {
    const key = `${metric.name}{${values.join(',')}}`
    const write = (value: number): void => {
      const before = metric.kind === 'gauge' ? 0 : (this.all.get(key) ?? 0)
      this.all.set(key, before + value)
    }
    return { write }
  }

  clear(metric: Metric): void {
    for (const key of this.all.keys()) if (key.startsWith(`${metric.name}{`)) this.all.delete(key)
  }

  /** The series of a metric. */
  of({ name }: Metric): Record<string, number> {
    const entries = [...this.all].filter(([key]) => key.startsWith(`${name}{`))
    return Object.fromEntries(entries.map(([key, value]) => [key.slice(name.length), value]))
  }
}

const message = { id: 'm1', source: '/shop', type: 'order.placed' }
const error = new Error('no')
let monotonic = 0
const clock = { now: () => 0, monotonic: () => monotonic, after: () => () => {} }
let events: EventHub
let numbers: Numbers

beforeEach(() => {
  events = new EventHub(silentLogger)
  numbers = new Numbers()
})

const state = (consumers: readonly string[]): State => ({
  consumers: consumers.map((consumer) => ({
    consumer,
    waiting: 3,
    retrying: 2,
    held: 1,
    failed: 4,
    unknownEffects: 5,
    oldestMs: 7_000,
    workers: 2,
  })),
  relays: [{ relay: 'default', waiting: 6, held: 0, failed: 1, oldestMs: undefined, workers: 0 }],
  failed: consumers.map((scope) => ({ origin: 'inbox', scope, reason: 'permanent', count: 4 })),
  workers: { alive: 2, stuck: 1, dead: 0 },
  rows: [
    { table: 'receipts', rows: 1_000 },
    { table: 'sent', rows: 20 },
  ],
})

describe('measure', () => {
  it('begins at zero when a worker serves a consumer, so that the first event shows as an increase', () => {
    measure(events, numbers)
    events.emit('worker-started', () => ({ consumers: ['billing'], relays: [] }))
    const { mismatches, commitUnknown, effects, leaseLost, messages } = METRICS
    expect(numbers.of(mismatches)).toEqual({ '{billing}': 0 })
    expect(numbers.of(leaseLost)).toEqual({ '{billing}': 0 })
    expect(numbers.of(commitUnknown)).toEqual({
      '{billing,committed}': 0,
      '{billing,not-committed}': 0,
      '{billing,unresolved}': 0,
    })
    expect(numbers.of(effects)).toEqual({ '{billing,done}': 0, '{billing,not-done}': 0, '{billing,unknown}': 0 })
    expect(Object.values(numbers.of(messages))).toEqual(Array(12).fill(0))
  })

  it('counts every outcome of a consumer', () => {
    measure(events, numbers)
    const consumer = 'billing'
    events.emit('processed', () => ({ consumer, message, attempt: 1, durationMs: 5, waitMs: 1, checkMs: 2, lagMs: 40 }))
    events.emit('processed', () => ({ consumer, message, attempt: 1, durationMs: 5 }))
    events.emit('duplicate', () => ({ consumer, message, blocked: 1, checkMs: 3 }))
    events.emit('stored', () => ({ consumer, message }))
    events.emit('retrying', () => ({ consumer, message, attempt: 1, delayMs: 1, error }))
    for (const reason of ['permanent', 'expired', 'conflict', 'unknown-effect'])
      events.emit('failed', () => ({ consumer, message, attempt: 1, reason, error }))
    events.emit('busy', () => ({ consumer, message }))
    events.emit('rolled-back', () => ({ consumer, message, error }))
    for (let n = 0; n < 3; n++) events.emit('unavailable', () => ({ consumer, message, error }))
    expect(numbers.of(METRICS.messages)).toEqual({
      '{billing,processed}': 2,
      '{billing,duplicate}': 1,
      '{billing,stored}': 1,
      '{billing,retrying}': 1,
      '{billing,held}': 1,
      '{billing,failed}': 1,
      '{billing,conflict}': 1,
      '{billing,expired}': 1,
      '{billing,busy}': 1,
      '{billing,rolled-back}': 1,
      '{billing,ignored}': 0,
      '{billing,unavailable}': 3,
    })
    expect(numbers.of(METRICS.process)).toEqual({ '{billing}': 0.01 })
    expect(numbers.of(METRICS.poolWait)).toEqual({ '{billing}': 0.001 })
    expect(numbers.of(METRICS.check)).toEqual({ '{billing}': 0.005 })
    expect(numbers.of(METRICS.lag)).toEqual({ '{billing}': 0.04 })
  })

  it('records how many attempts a message took, once it has ended', () => {
    const written: number[] = []
    const sink: Sink = {
      cell: ({ name }) => ({ write: (value) => void (name === METRICS.attempts.name && written.push(value)) }),
      clear: () => {},
    }
    measure(events, sink)
    const consumer = 'billing'
    events.emit('retrying', () => ({ consumer, message, attempt: 1, delayMs: 1, error }))
    events.emit('processed', () => ({ consumer, message, attempt: 2, durationMs: 5 }))
    events.emit('failed', () => ({ consumer, message, attempt: 10, reason: 'handler', error }))
    // No handler was called with it.
    events.emit('failed', () => ({ consumer, message, attempt: 0, reason: 'unknown-type', error }))
    expect(written).toEqual([2, 10])
  })

  it('shows which relays are up until their worker stops', () => {
    measure(events, numbers)
    events.emit('worker-started', () => ({ consumers: [], relays: ['default', 'audit'] }))
    events.emit('relay-down', () => ({ relay: 'audit', destination: 'x', pauseMs: 1, error }))
    expect(numbers.of(METRICS.relayUp)).toEqual({ '{default}': 1, '{audit}': 0 })
    events.emit('relay-up', () => ({ relay: 'audit', destination: 'x', downMs: 1 }))
    expect(numbers.of(METRICS.relayUp)).toEqual({ '{default}': 1, '{audit}': 1 })
    events.emit('worker-stopped', () => ({ consumers: [], relays: ['audit'] }))
    expect(numbers.of(METRICS.relayUp)).toEqual({ '{default}': 1 })
    expect(numbers.of(METRICS.relayFailures)['{audit,down}']).toBe(1)
  })

  it('shows a relay until the last of its workers stops', () => {
    measure(events, numbers)
    for (const _ of [1, 2]) events.emit('worker-started', () => ({ consumers: [], relays: ['default'] }))
    events.emit('worker-stopped', () => ({ consumers: [], relays: ['default'] }))
    expect(numbers.of(METRICS.relayUp)).toEqual({ '{default}': 1 })
    events.emit('worker-stopped', () => ({ consumers: [], relays: ['default'] }))
    expect(numbers.of(METRICS.relayUp)).toEqual({})
  })

  it('shows whether the store is up', () => {
    measure(events, numbers)
    expect(numbers.of(METRICS.storeUp)).toEqual({ '{}': 1 })
    events.emit('store-down', () => ({ error }))
    expect(numbers.of(METRICS.storeUp)).toEqual({ '{}': 0 })
    events.emit('store-up', () => ({ downMs: 1 }))
    expect(numbers.of(METRICS.storeUp)).toEqual({ '{}': 1 })
  })

  it('replaces the state with each sample, and forgets it when another worker samples', () => {
    measure(events, numbers, { clock })
    events.emit('sampled', () => ({ worker: 'a', state: state(['billing', 'gone']) }))
    events.emit('sampled', () => ({ worker: 'a', state: state(['billing']) }))
    expect(numbers.of(METRICS.inboxMessages)).toEqual({
      '{billing,waiting}': 3,
      '{billing,retrying}': 2,
      '{billing,held}': 1,
    })
    expect(numbers.of(METRICS.outboxOldest)).toEqual({ '{default}': 0 })
    expect(numbers.of(METRICS.workers)).toEqual({ '{alive}': 2, '{stuck}': 1, '{dead}': 0 })
    expect(numbers.of(METRICS.receiptsEstimate)).toEqual({ '{}': 1_000 })
    expect(numbers.of(METRICS.rowsEstimate)).toEqual({ '{sent}': 20 })
    events.emit('sampled', () => ({ worker: 'b', state: undefined }))
    expect(numbers.of(METRICS.failedMessages)).toEqual({ '{inbox,billing,permanent}': 4 })
    events.emit('sampled', () => ({ worker: 'a', state: undefined }))
    const left = Object.values<Metric>(METRICS).filter((each) => each.state && Object.keys(numbers.of(each)).length > 0)
    expect(left).toEqual([])
  })

  it('shows the age of a sample, and no longer the sample itself once it is old', () => {
    const measuring = measure(events, numbers, { clock })
    events.emit('sampled', () => ({ worker: 'a', state: state(['billing']) }))
    monotonic += 100_000
    measuring.collect()
    expect(numbers.of(METRICS.stateAge)).toEqual({ '{}': 100 })
    expect(numbers.of(METRICS.consumerWorkers)).toEqual({ '{billing}': 2 })
    monotonic += 300_000
    measuring.collect()
    expect(numbers.of(METRICS.stateAge)).toEqual({ '{}': 400 })
    expect(numbers.of(METRICS.consumerWorkers)).toEqual({})
  })

  it('shows the horizons of the consumers that this process serves', () => {
    measure(events, numbers)
    const billing = { consumer: 'billing', retentionMs: Number.POSITIVE_INFINITY, redeliveryMs: undefined }
    const mail = { consumer: 'mail', retentionMs: 5_000, redeliveryMs: 3_000 }
    events.emit('horizons', () => ({ worker: 'a', horizons: [billing] }))
    events.emit('horizons', () => ({ worker: 'b', horizons: [mail] }))
    expect(numbers.of(METRICS.dedupHorizon)).toEqual({ '{billing}': Number.POSITIVE_INFINITY, '{mail}': 5 })
    expect(numbers.of(METRICS.redeliveryHorizon)).toEqual({ '{mail}': 3 })
    events.emit('horizons', () => ({ worker: 'a', horizons: [] }))
    expect(numbers.of(METRICS.dedupHorizon)).toEqual({ '{mail}': 5 })
  })

  it('tells 500 names apart, and adds up the others', () => {
    measure(events, numbers)
    const names = Array.from({ length: 600 }, (_, index) => `consumer ${index}`)
    for (const consumer of names) events.emit('stored', () => ({ consumer, message }))
    expect(Object.keys(numbers.of(METRICS.messages))).toHaveLength(12 * 501)
    expect(numbers.of(METRICS.messages)['{other,stored}']).toBe(100)
    events.emit('sampled', () => ({ worker: 'a', state: state(names) }))
    expect(Object.keys(numbers.of(METRICS.consumerWorkers))).toHaveLength(501)
    expect(numbers.of(METRICS.inboxMessages)['{other,waiting}']).toBe(300)
    expect(numbers.of(METRICS.inboxOldest)['{other}']).toBe(7)
  })

  it('listens to nothing once it is closed', () => {
    const measuring: Measuring = measure(events, numbers)
    expect(events.heard('processed') && events.heard('sampled')).toBe(true)
    measuring.close()
    expect(events.heard('processed') || events.heard('sampled') || events.heard('horizons')).toBe(false)
  })

  it('asks for no samples of the database if it shows none', () => {
    measure(events, numbers, { state: false })
    expect(events.heard('sampled')).toBe(false)
    expect(events.heard('horizons')).toBe(true)
  })
})

describe('requests and webhooks', () => {
  it('are counted by what became of them', () => {
    measure(events, numbers)
    events.emit('http-request', () => ({ scope: 'orders', outcome: 'first', status: 201, durationMs: 30 }))
    events.emit('http-request', () => ({ scope: 'orders', outcome: 'replayed', status: 201, durationMs: 1 }))
    for (const outcome of ['stored', 'duplicate', 'duplicate', 'bad-signature'] as const)
      events.emit('webhook', () => ({ source: 'stripe', consumer: 'billing', outcome, durationMs: 1 }))
    expect(numbers.of(METRICS.httpRequests)).toMatchObject({ '{orders,first}': 1, '{orders,replayed}': 1 })
    expect(numbers.of(METRICS.httpRequest)).toEqual({ '{orders}': 0.031 })
    expect(numbers.of(METRICS.webhooks)).toEqual({
      '{stripe,stored}': 1,
      '{stripe,duplicate}': 2,
      '{stripe,bad-signature}': 1,
    })
  })
})

describe('deliveries that cannot be checked', () => {
  const Order = defineMessage('order.placed')
  const delivery = (id: string) => ({ id, source: '/shop', type: 'order.placed' })
  const options = { source: '/shop', logger: silentLogger, acquireMs: 50 }

  it.each(['direct', 'store'] as const)('are counted for each consumer (receive: %s)', async (receive) => {
    const store = postgres({ url: 'postgres://127.0.0.1:1/shop' })
    const hapax = createHapax({ ...options, store })
    measure(hapax.events, numbers)
    const consumer = hapax.consumer('billing', { receive }).on(Order, () => {})
    await expect(consumer.handle(delivery('1'))).rejects.toMatchObject({ code: 'store-unavailable' })
    await expect(consumer.handleMany(['1', '2', '3'].map(delivery))).rejects.toMatchObject({
      code: 'store-unavailable',
    })
    expect(numbers.of(METRICS.messages)).toMatchObject({ '{billing,unavailable}': 4, '{billing,processed}': 0 })
    await hapax.close()
  })

  it('are counted on Redis', async () => {
    const store = redis({ url: 'redis://127.0.0.1:1', prefix: 'shop', timeoutMs: 50 })
    const hapax = createHapax({ source: '/shop', logger: silentLogger, store })
    measure(hapax.events, numbers)
    const consumer = hapax.leased('sms').on(Order, () => {})
    await expect(consumer.handle(delivery('1'))).rejects.toMatchObject({ code: 'store-unavailable' })
    expect(numbers.of(METRICS.messages)).toMatchObject({ '{sms,unavailable}': 1, '{sms,processed}': 0 })
    await hapax.close()
  })
})

describe('the table', () => {
  const metrics = Object.values<Metric>(METRICS)

  it('names every metric once, as Prometheus wants it', () => {
    const names = metrics.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    for (const { name, kind, unit } of metrics) {
      expect(name).toMatch(/^hapax_[a-z_]+$/)
      expect(name.endsWith('_total')).toBe(kind === 'counter')
      expect(name.endsWith('_seconds')).toBe(unit === 'seconds')
    }
  })

  it('has no label that grows with the messages', () => {
    const allowed = ['consumer', 'relay', 'outcome', 'kind', 'resolved', 'state', 'what', 'version', 'origin', 'scope']
    for (const { labels } of metrics)
      expect([...allowed, 'reason', 'table', 'source']).toEqual(expect.arrayContaining([...labels]))
  })

  it('is the table of docs/observability.md', () => {
    const page = readFileSync(new URL('../../docs/observability.md', import.meta.url), 'utf8')
    const shown = page.split('\n').filter((line) => line.startsWith('| `hapax_'))
    const code = (text: string): string => `\`${text}\``
    const rows = metrics.map(({ name, kind, labels, help }) =>
      `| ${code(name)} | ${kind} | ${labels.map(code).join(', ')} | ${help} |`.replaceAll('|  |', '| |'),
    )
    expect(shown).toEqual(rows)
  })
})
