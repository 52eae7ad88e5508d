// Metrics through the API of OpenTelemetry: those of its conventions, and those of hapax.
import { metrics } from '@opentelemetry/api'
import { type DataPoint, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'
import { type OpenTelemetryOptions, opentelemetry } from 'hapax/opentelemetry'
import { expect, it, onTestFinished } from 'vitest'
import { METRICS, type Metric } from '../../src/telemetry/metrics/index.ts'
import { otelName } from '../../src/telemetry/opentelemetry/meters.ts'
import { systemNames } from '../../src/telemetry/opentelemetry/names.ts'
import { Tracing } from '../support/tracing.ts'

const Ping = defineMessage<{ n: number }>('ping')

class Reader extends MetricReader {
  protected async onForceFlush(): Promise<void> {}
  protected async onShutdown(): Promise<void> {}

  /** The points of a metric; what was counted, or how often something was measured. */
  async read(name: string): Promise<readonly { readonly value: number; readonly attributes: object }[]> {
    const { resourceMetrics } = await this.collect()
    const found = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    const metric = found.find(({ descriptor }) => descriptor.name === name)
    const points: readonly DataPoint<number | { readonly count: number }>[] = metric?.dataPoints ?? []
    return points.map(({ value, attributes }) => ({
      value: typeof value === 'number' ? value : value.count,
      attributes,
    }))
  }

  async names(): Promise<readonly string[]> {
    const { resourceMetrics } = await this.collect()
    return resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics).map(({ descriptor }) => descriptor.name)
  }
}

function sdk(): { readonly reader: Reader; readonly provider: MeterProvider } {
  const reader = new Reader()
  const provider = new MeterProvider({ readers: [reader] })
  onTestFinished(() => provider.shutdown())
  return { reader, provider }
}

async function open(options: OpenTelemetryOptions, delivery: 'relay' | 'local' = 'relay'): Promise<Hapax<MemoryTx>> {
  const instrument = opentelemetry(options)
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, delivery, instrument })
  await hapax.migrate()
  onTestFinished(() => hapax.close())
  return hapax
}

function ping(id: string) {
  return { id, source: '/sender', type: 'ping', data: { n: 1 } }
}

it('measures operations by the conventions, on the way from a publish to its handler', async () => {
  Tracing.open()
  const { reader, provider } = sdk()
  const hapax = await open({ meterProvider: provider })
  const broker = memoryBroker()
  const billing = hapax.consumer('billing').on(Ping, () => {})
  const source = billing.from(broker.queue('orders', { topic: 'shop' }))
  await using worker = hapax.worker({ consume: [source], relay: broker.topic('shop') })
  await worker.start()
  await hapax.transaction((tx) => hapax.publishMany(tx, [Ping.of({ n: 1 }), Ping.of({ n: 2 })]))
  await expect.poll(async () => (await reader.read('hapax.messages')).some(({ value }) => value === 2)).toBe(true)
  await worker.drain()
  const memoryAt = (name: string): object => ({
    'messaging.system': 'memory',
    'messaging.system.name': 'memory',
    'messaging.destination.name': name,
  })
  const sent = await reader.read('messaging.client.sent.messages')
  expect(sent).toEqual([
    {
      value: 2,
      attributes: { ...memoryAt('shop'), 'messaging.operation.name': 'send', 'messaging.operation.type': 'send' },
    },
  ])
  const consumed = await reader.read('messaging.client.consumed.messages')
  expect(consumed.reduce((sum, { value }) => sum + value, 0)).toBe(2)
  expect(consumed[0]?.attributes).toMatchObject({ ...memoryAt('orders'), 'messaging.consumer.group.name': 'billing' })
  const durations = await reader.read('messaging.client.operation.duration')
  const operations = durations.map(({ attributes }) => Reflect.get(attributes, 'messaging.operation.name'))
  expect(new Set(operations)).toEqual(new Set(['publish', 'send', 'receive', 'settle']))
  expect((await reader.read('messaging.process.duration'))[0]?.attributes).toMatchObject(memoryAt('orders'))
  expect(await reader.read('hapax.published')).toEqual([{ value: 2, attributes: {} }])
  expect(await reader.read('hapax.relayed')).toEqual([{ value: 2, attributes: { relay: 'default' } }])
})

it('names errors by their type, and a duplicate is none', async () => {
  const { reader, provider } = sdk()
  const hapax = await open({ meterProvider: provider })
  const billing = hapax.consumer('billing').on(Ping, (_data, { message }) => {
    if (message.id === 'bad') throw new RangeError('no')
  })
  for (const id of ['a', 'a', 'bad']) await billing.handle(ping(id))
  const durations = await reader.read('messaging.process.duration')
  expect(durations.map(({ value, attributes }) => [value, Reflect.get(attributes, 'error.type')])).toEqual([
    [2, undefined],
    [1, 'RangeError'],
  ])
  const outcomes = await reader.read('hapax.messages')
  const counted = outcomes.filter(({ value }) => value > 0).map(({ value, attributes }) => [attributes, value])
  expect(counted).toEqual([
    [{ consumer: 'billing', outcome: 'processed' }, 1],
    [{ consumer: 'billing', outcome: 'duplicate' }, 1],
    [{ consumer: 'billing', outcome: 'retrying' }, 1],
  ])
})

it('a provider that is registered after worker.start() is told all that was counted', async () => {
  const hapax = await open({}, 'local')
  const billing = hapax.consumer('billing').on(Ping, () => {})
  await using worker = hapax.worker({ consume: [billing] })
  await worker.start()
  await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
  await worker.drain()
  const { reader, provider } = sdk()
  metrics.setGlobalMeterProvider(provider)
  onTestFinished(() => metrics.disable())
  await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 2 }))
  await worker.drain()
  expect(await reader.read('hapax.published')).toEqual([{ value: 2, attributes: {} }])
  expect(await reader.read('hapax.store.up')).toEqual([{ value: 1, attributes: {} }])
  expect((await reader.read('messaging.process.duration')).map(({ value }) => value)).toEqual([1])
})

it('the number of series does not depend on the messages', async () => {
  const { reader, provider } = sdk()
  const hapax = await open({ meterProvider: provider })
  const types = Array.from({ length: 50 }, (_, n) => defineMessage<{ n: number }>(`type ${n}`))
  const billing = hapax.consumer('billing', { retry: { attempts: 1 } })
  for (const type of types) {
    billing.on(type, (_data, { message }) => {
      throw Object.assign(new Error('no'), { name: `Error of ${message.id}` })
    })
  }
  const series = async (): Promise<number> => {
    const names = await reader.names()
    const points = await Promise.all([...new Set(names)].map((name) => reader.read(name)))
    return points.flat().length
  }
  const some = async (from: number): Promise<void> => {
    for (let n = from; n < from + 50; n++) {
      const key = { key: `key ${n}` }
      await billing.handle({ ...ping(`id ${n}`), type: `type ${n % 50}`, ...key })
      await hapax.transaction((tx) => hapax.publish(tx, types[n % 50] ?? Ping, { n }))
    }
  }
  await some(0)
  const before = await series()
  await some(100)
  expect(await series()).toBe(before)
})

it.for(['one instrument', 'an instrument each'])('several hapaxes with %s are counted together', async (which) => {
  const { reader, provider } = sdk()
  const shared = opentelemetry({ meterProvider: provider })
  for (const messages of [3, 1]) {
    const instrument = which === 'one instrument' ? shared : opentelemetry({ meterProvider: provider })
    const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, instrument })
    onTestFinished(() => hapax.close())
    const billing = hapax.consumer('billing').on(Ping, () => {})
    for (let n = 0; n < messages; n++) await billing.handle(ping(String(n)))
  }
  const points = await reader.read('hapax.messages')
  const processed = { consumer: 'billing', outcome: 'processed' }
  expect(points.filter(({ value }) => value > 0)).toEqual([{ value: 4, attributes: processed }])
})

it('nothing is counted with metrics: false', async () => {
  const { reader, provider } = sdk()
  const hapax = await open({ meterProvider: provider, metrics: false })
  const billing = hapax.consumer('billing').on(Ping, () => {})
  await billing.handle(ping('a'))
  expect(await reader.names()).toEqual([])
})

it.for([
  { exporter: 'an exporter that appends no unit', appendsUnit: false },
  { exporter: 'an exporter that appends the unit', appendsUnit: true },
])('$exporter makes the names of hapax/prometheus', ({ appendsUnit }) => {
  for (const metric of Object.values<Metric>(METRICS)) {
    const { name, kind, unit } = metric
    const exported = otelName(metric).replaceAll('.', '_')
    const withUnit =
      appendsUnit && unit === 'seconds' && !exported.endsWith('_seconds') ? `${exported}_seconds` : exported
    expect(kind === 'counter' ? `${withUnit}_total` : withUnit).toBe(name)
  }
})

it('the old name of the system is left out on request', () => {
  expect(systemNames('')).toEqual(['messaging.system.name', 'messaging.system'])
  expect(systemNames('http')).toEqual(['messaging.system.name', 'messaging.system'])
  expect(systemNames('http, messaging')).toEqual(['messaging.system.name'])
})
