import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, Permanent, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { prometheus } from 'hapax/prometheus'
import { Gauge, type OpenMetricsContentType, Registry } from 'prom-client'
import { beforeEach, describe, expect, it } from 'vitest'
import { EventHub } from '../../src/base/index.ts'
import { METRICS } from '../../src/telemetry/metrics/index.ts'

const message = { id: 'm1', source: '/shop', type: 'order.placed' }
const error = new Error('no')
let events: EventHub

beforeEach(() => {
  events = new EventHub(silentLogger)
})

const processed = (consumer: string, durationMs: number): void =>
  events.emit('processed', () => ({ consumer, message, attempt: 1, durationMs }))

/** The lines of one metric. */
const linesOf = (text: string, name: string): string[] => text.split('\n').filter((line) => line.startsWith(name))

describe('the text', () => {
  it('has help, type and numbers in the format that Prometheus reads', () => {
    const metrics = prometheus({ events })
    events.emit('relayed', () => ({ relay: 'default', message, lagMs: 30 }))
    expect(linesOf(metrics.text(), '# TYPE hapax_relayed_total')).toEqual(['# TYPE hapax_relayed_total counter'])
    expect(linesOf(metrics.text(), 'hapax_relayed_total')).toEqual(['hapax_relayed_total{relay="default"} 1'])
    expect(metrics.text()).toContain(`# HELP hapax_relayed_total ${METRICS.relayed.help}\n`)
    expect(metrics.text()).toMatch(/^hapax_build_info\{version="\d+\.\d+\.\d+"\} 1$/m)
    expect(metrics.text().endsWith('\n')).toBe(true)
  })

  it('has cumulative buckets, whose bounds belong to them', () => {
    const metrics = prometheus({ events })
    for (const durationMs of [0.5, 1, 1.5, 70_000]) processed('billing', durationMs)
    const lines = linesOf(metrics.text(), 'hapax_process_seconds')
    expect(lines).toContain('hapax_process_seconds_bucket{consumer="billing",le="0.001"} 2')
    expect(lines).toContain('hapax_process_seconds_bucket{consumer="billing",le="0.0025"} 3')
    expect(lines).toContain('hapax_process_seconds_bucket{consumer="billing",le="60.0"} 3')
    expect(lines).toContain('hapax_process_seconds_bucket{consumer="billing",le="+Inf"} 4')
    expect(lines).toContain('hapax_process_seconds_sum{consumer="billing"} 70.003')
    expect(lines).toContain('hapax_process_seconds_count{consumer="billing"} 4')
  })

  it('escapes the values of labels', () => {
    const metrics = prometheus({ events }, { labels: { app: 'a "shop"' } })
    events.emit('mismatch', () => ({ consumer: 'a\\b"c\nd', message }))
    expect(linesOf(metrics.text(), 'hapax_mismatches_total')).toEqual([
      String.raw`hapax_mismatches_total{app="a \"shop\"",consumer="a\\b\"c\nd"} 1`,
    ])
  })

  it('writes an endless retention as +Inf', () => {
    const metrics = prometheus({ events })
    const horizon = { consumer: 'billing', retentionMs: Number.POSITIVE_INFINITY, redeliveryMs: undefined }
    events.emit('horizons', () => ({ worker: 'a', horizons: [horizon] }))
    expect(linesOf(metrics.text(), 'hapax_dedup')).toEqual(['hapax_dedup_horizon_seconds{consumer="billing"} +Inf'])
  })

  it('has only what describes the database if nothing else is wanted', () => {
    const names = new Set(
      linesOf(prometheus({ events }, { process: false }).text(), '# TYPE').map((line) => line.split(' ')[2]),
    )
    expect([...names]).toEqual(['hapax_store_up', 'hapax_build_info'])
  })
})

describe('the handler', () => {
  const request = (method = 'GET', accept = '*/*'): Request =>
    new Request('http://localhost/metrics', { method, headers: { accept } })

  it('serves the text', async () => {
    const metrics = prometheus({ events })
    const response = metrics.handler(request())
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(metrics.contentType)
    expect(await response.text()).toBe(metrics.text())
  })

  it('serves OpenMetrics to those who ask for it', async () => {
    const metrics = prometheus({ events })
    processed('billing', 1)
    const response = metrics.handler(request('GET', 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5'))
    expect(response.headers.get('content-type')).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
    const text = await response.text()
    expect(text.endsWith('\n# EOF\n')).toBe(true)
    expect(text).toContain('# TYPE hapax_messages counter\n')
    expect(text).toContain('hapax_messages_total{consumer="billing",outcome="processed"} 1\n')
  })

  it('has headers only for HEAD, and refuses everything but GET and HEAD', async () => {
    const { handler } = prometheus({ events })
    const head = handler(request('HEAD'))
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      const refused = handler(request(method))
      expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    }
  })
})

describe('a registry of prom-client', () => {
  it('shows the metrics of hapax among its own', async () => {
    const registry = new Registry()
    new Gauge({ name: 'mine', help: 'mine', registers: [registry] }).set(5)
    const metrics = prometheus({ events }, { registry })
    processed('billing', 1)
    const text = await registry.metrics()
    expect(linesOf(text, 'mine')).toEqual(['mine 5'])
    for (const line of linesOf(metrics.text(), 'hapax_')) expect(text.split('\n')).toContain(line)
    metrics.close()
    expect(await registry.metrics()).not.toContain('hapax_')
  })

  it('that has such a metric already gets none, and nothing listens', async () => {
    const registry = new Registry()
    new Gauge({ name: 'hapax_store_up', help: 'mine', registers: [registry] }).set(5)
    expect(() => prometheus({ events }, { registry })).toThrow('hapax_store_up')
    expect(linesOf(await registry.metrics(), 'hapax_')).toEqual(['hapax_store_up 5'])
    expect(events.heard('processed')).toBe(false)
  })

  it('may speak OpenMetrics and have labels of its own', async () => {
    const registry = new Registry<OpenMetricsContentType>()
    registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
    registry.setDefaultLabels({ app: 'shop' })
    prometheus({ events }, { registry })
    processed('billing', 1)
    const text = await registry.metrics()
    expect(text).toContain('# TYPE hapax_messages counter\n')
    expect(linesOf(text, 'hapax_messages_total{consumer="billing",outcome="processed"')).toEqual([
      'hapax_messages_total{consumer="billing",outcome="processed",app="shop"} 1',
    ])
    expect(linesOf(text, 'hapax_process_seconds_count')).toEqual([
      'hapax_process_seconds_count{consumer="billing",app="shop"} 1',
    ])
    expect(await registry.getMetricsAsJSON()).toHaveLength(Object.keys(METRICS).length)
  })
})

describe('the series', () => {
  /** Random ids, sources, keys and types, some of which fail. */
  const batch = (count: number): { id: string; source: string; type: string; data: string; key: string }[] =>
    Array.from({ length: count }, (_, index) => ({
      id: randomUUID(),
      source: `/${randomUUID()}`,
      type: `type.${randomUUID()}`,
      key: randomUUID(),
      data: index % 1_000 === 0 ? 'fails' : 'fine',
    }))

  const consume = (hapax: Hapax<MemoryTx>): ReturnType<Hapax<MemoryTx>['consumer']> =>
    hapax.consumer('billing', {
      unknown: (data) => {
        if (data === 'fails') throw new Permanent('no')
      },
    })

  it('stay as many as they are, whatever 100,000 messages are called', async () => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const metrics = prometheus(hapax)
    const consumer = consume(hapax)
    const series = (): string[] =>
      metrics
        .text()
        .split('\n')
        .map((line) => line.replace(/ [^ ]+$/, ''))
    const publish = async (count: number): Promise<void> => {
      const drafts = Array.from({ length: count }, () =>
        defineMessage<number>(randomUUID()).of(1, { key: randomUUID() }),
      )
      await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
    }
    await consumer.handleMany(batch(1_001))
    await publish(1)
    const before = series()
    for (let done = 0; done < 100_000; done += 5_000) await consumer.handleMany(batch(5_000))
    await publish(1_000)
    expect(series()).toEqual(before)
    expect(metrics.text()).toContain('hapax_messages_total{consumer="billing",outcome="processed"} 100899\n')
    expect(metrics.text()).toContain('hapax_messages_total{consumer="billing",outcome="failed"} 102\n')
    expect(metrics.text()).toContain('hapax_published_total 1001\n')
    await hapax.close()
  })

  it('no longer count after close', () => {
    const metrics = prometheus({ events })
    processed('billing', 1)
    metrics.close()
    processed('billing', 1)
    events.emit('store-down', () => ({ error }))
    expect(metrics.text()).toContain('hapax_messages_total{consumer="billing",outcome="processed"} 1\n')
    expect(metrics.text()).toContain('hapax_store_up 1\n')
  })
})

describe('the options', () => {
  const refusals: [options: object, what: string][] = [
    [{ labels: { consumer: 'x' } }, 'expected a name in labels to be'],
    [{ labels: { le: 'x' } }, 'expected a name in labels to be'],
    [{ labels: { 'a b': 'x' } }, 'expected a name in labels to be'],
    [{ labels: { app: 5 } }, 'expected labels.app to be'],
    [{ registry: {} }, 'expected registry to be a registry of prom-client'],
    [{ colour: 1 }, 'expected options of prometheus to be'],
  ]

  it.for(refusals)('are checked: %o', ([options, what]) => {
    expect(() => prometheus({ events }, options)).toThrow(what)
  })

  it('need a hapax', () => {
    expect(() => prometheus(undefined as never)).toThrow('expected hapax to be what createHapax returns')
  })
})
