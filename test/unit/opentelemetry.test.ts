// Spans and links of the real engine, in memory: which span belongs to which trace, and what it says.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { context, createContextKey, metrics, trace } from '@opentelemetry/api'
import { AlwaysOffSampler, InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import {
  type Consumer,
  createHapax,
  defineMessage,
  type Hapax,
  type HapaxOptions,
  Permanent,
  silentLogger,
} from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'
import { opentelemetry } from 'hapax/opentelemetry'
import { describe, expect, it, onTestFinished } from 'vitest'
import { messageKey } from '../../src/message/index.ts'
import { currentSpan, type SeenSpan, Tracing } from '../support/tracing.ts'

const Ping = defineMessage<{ n: number }>('ping')
const Pong = defineMessage<{ n: number }>('pong')
const AT_ONCE = { minDelayMs: 0, maxDelayMs: 0, attempts: 20 } as const

type Options = Partial<HapaxOptions<MemoryTx, MemoryTx>>

async function open(tracing: Tracing, options: Options = {}, consume: 'link' | 'parent' = 'link') {
  const instrument = opentelemetry({ tracerProvider: tracing.provider, consume })
  return openWith({ instrument, ...options })
}

async function openWith(options: Options): Promise<Hapax<MemoryTx>> {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, ...options })
  await hapax.migrate()
  onTestFinished(() => hapax.close())
  return hapax
}

async function drained(hapax: Hapax<MemoryTx>, ...consume: readonly Consumer<MemoryTx>[]): Promise<void> {
  await using worker = hapax.worker({ consume })
  await worker.start()
  await worker.drain()
}

const PARENT = '0af7651916cd43dd8448eb211c80319c'
/** A trace context of a sender; `n` tells its spans apart. */
const sender = (n: number): string => `00-${PARENT}-${String(n).padStart(16, '0')}-01`
const spanOf = (n: number): string => String(n).padStart(16, '0')

function ping(id: string, more: object = {}) {
  return { id, source: '/sender', type: 'ping', data: { n: 1 }, ...more }
}

const linkIds = ({ links }: SeenSpan): readonly string[] => links.map(({ to }) => to)

describe('an attempt', () => {
  it('at a single message is a trace of its own, linked to its sender, and its handler runs inside', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    const inside: unknown[] = []
    const billing = hapax.consumer('billing').on(Ping, async () => {
      inside.push(currentSpan())
      await pause(5)
      inside.push(currentSpan())
    })
    await billing.handle(ping('a', { traceparent: sender(1), tracestate: 'vendor=1', key: 'k' }))
    const [process] = tracing.spans
    expect(tracing.spans).toMatchObject([
      { name: 'process billing', kind: 'CONSUMER', parent: undefined, failed: false, links: [{ to: spanOf(1) }] },
    ])
    expect(process?.trace).not.toBe(PARENT)
    expect(process?.durationMs).toBeGreaterThan(1)
    expect(process?.durationMs).toBeLessThan(60_000)
    expect(process?.attributes).toEqual({
      'messaging.system': 'hapax',
      'messaging.system.name': 'hapax',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'billing',
      'messaging.consumer.group.name': 'billing',
      'messaging.message.id': 'a',
      'messaging.message.body.size': 7,
      'cloudevents.event_source': '/sender',
      'cloudevents.event_type': 'ping',
      'hapax.message.key': 'k',
      'hapax.attempt': 1,
      'hapax.outcome': 'processed',
    })
    expect(inside).toEqual([process?.id, process?.id])
  })

  it('at a group is one span with a link per message, which names the message', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    const inside = new Set<unknown>()
    const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, () => void inside.add(currentSpan()))
    const messages = [1, 2, 3].map((n) => ping(`m${n}`, { traceparent: sender(n) }))
    await billing.handleMany([...messages, ping('m4')])
    const [process] = tracing.spans
    expect(tracing.spans.length).toBe(1)
    expect(process?.links).toMatchObject(
      [1, 2, 3].map((n) => ({ to: spanOf(n), attributes: { 'messaging.message.id': `m${n}` } })),
    )
    expect(process?.attributes).toMatchObject({ 'messaging.batch.message_count': 4, 'hapax.outcome': 'processed' })
    expect(process?.attributes).not.toHaveProperty('messaging.message.id')
    expect(inside).toEqual(new Set([process?.id]))
  })

  it('of onMany is one span, and each item publishes with its own cause and in its context', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    const carried: unknown[] = []
    const audit = hapax.consumer('audit').on(Pong, (_data, { message }) => {
      carried.push([message.causationId, message.correlationId, message.traceparent?.split('-')[2]])
    })
    const billing = hapax.consumer('billing').onMany(Ping, async (items) => {
      for (const { publish } of items) await publish(Pong, { n: 1 })
    })
    const messages = [1, 2].map((n) => ping(`m${n}`, { traceparent: sender(n), correlationId: `c${n}` }))
    await billing.handleMany(messages)
    const [process] = tracing.named('process')
    const published = tracing.named('publish')
    expect(linkIds(process ?? never())).toEqual([spanOf(1), spanOf(2)])
    expect(published.map(({ parent }) => parent)).toEqual([process?.id, process?.id])
    await drained(hapax, audit)
    expect(carried).toEqual([
      ['m1', 'c1', published[0]?.id],
      ['m2', 'c2', published[1]?.id],
    ])
  })

  it('at a duplicate is no error, and neither is one at a message of which it is a part', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    const billing = hapax.consumer('billing').on(Ping, () => {})
    for (let times = 0; times < 2; times++) await billing.handle(ping('a', { traceparent: sender(1) }))
    expect(tracing.spans.map(({ attributes }) => attributes['hapax.outcome'])).toEqual(['processed', 'duplicate'])
    expect(tracing.spans.map(({ failed }) => failed)).toEqual([false, false])
  })

  it('that fails says why, without secrets', async () => {
    const tracing = Tracing.open()
    const redact = (text: string): string => text.replaceAll('visa-4711', '(secret)')
    const hapax = await open(tracing, { redact })
    const billing = hapax.consumer('billing').on(Ping, () => {
      throw new Permanent('card visa-4711 of postgres://shop:hunter2@db is refused')
    })
    expect(await billing.handle(ping('a'))).toMatchObject({ status: 'failed' })
    const [process] = tracing.spans
    expect(process).toMatchObject({ failed: true, events: ['exception'] })
    expect(process?.attributes).toMatchObject({ 'error.type': 'Permanent', 'hapax.outcome': 'failed' })
    expect(process?.status).toContain('card (secret)')
    expect(
      JSON.stringify(tracing.exporter.getFinishedSpans().map(({ events, status }) => [events, status])),
    ).not.toMatch(/visa-4711|hunter2/)
  })

  it('that no handler can be called with is a failed one', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    const billing = hapax.consumer('billing').on(Ping, () => {})
    await billing.handle({ ...ping('a', { traceparent: sender(1) }), type: 'unheard' })
    expect(tracing.spans).toMatchObject([
      {
        name: 'process billing',
        failed: true,
        attributes: { 'error.type': 'unknown-type' },
        links: [{ to: spanOf(1) }],
      },
    ])
  })

  it('has what its hook does and what listeners do, also in a worker', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    const billing = hapax.consumer('billing').on(Ping, ({ n }) => {
      if (n < 0) throw new Permanent('no')
    })
    const inside = new Map<string, string | undefined>()
    billing.onFailed(Ping, () => void inside.set('onFailed', currentSpan()))
    for (const name of ['failed', 'processed'] as const) {
      hapax.events.on(name, () => inside.set(name, currentSpan()))
    }
    for (const n of [-1, 1]) await hapax.transaction((tx) => hapax.publish(tx, Ping, { n }))
    await drained(hapax, billing)
    const attempts = new Map(tracing.named('process').map(({ attributes, id }) => [attributes['hapax.outcome'], id]))
    const [failed, processed] = [attempts.get('failed'), attempts.get('processed')]
    expect(failed).toBeDefined()
    expect(Object.fromEntries(inside)).toEqual({ onFailed: failed, failed, processed })
  })

  it('at a group that fails ends before its parts, which are traces of their own', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, (_data, { message }) => {
      if (message.id === 'b') throw new Error('no')
    })
    await billing.handleMany(['a', 'b', 'c'].map((id, n) => ping(id, { traceparent: sender(n + 1) })))
    expect(tracing.spans.map(({ failed }) => failed)).toEqual([true, false, true, false])
    expect(tracing.sizes).toEqual([1, 1, 1, 1])
    expect(tracing.spans[0]?.links.length).toBe(3)
  })
})

describe('retries', () => {
  it('five of them are six small traces, each linked to the publisher', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    let times = 0
    const billing = hapax.consumer('billing', { retry: AT_ONCE }).on(Ping, () => {
      times += 1
      if (times < 6) throw new Error('not yet')
    })
    await tracing.inSpan('request', () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 })))
    await using worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await expect.poll(() => times).toBe(6)
    await worker.drain()
    const [publish] = tracing.named('publish')
    const attempts = tracing.named('process')
    expect(attempts.map(linkIds)).toEqual(Array.from({ length: 6 }, () => [publish?.id]))
    expect(attempts.map(({ attributes }) => attributes['hapax.attempt'])).toEqual([1, 2, 3, 4, 5, 6])
    expect(attempts.map(({ failed }) => failed)).toEqual([true, true, true, true, true, false])
    expect(new Set(attempts.map((attempt) => attempt.trace)).size).toBe(6)
    expect(Math.max(...tracing.sizes)).toBe(2)
  })

  it('10,000 of them never make a trace of more than three spans', async () => {
    const tracing = Tracing.open()
    const store = memory()
    const hapax = await open(tracing, { store })
    let times = 0
    // One for all: the stack of each would be most of the work.
    const error = new Error('never')
    const billing = hapax.consumer('billing', { retry: { ...AT_ONCE, attempts: 1_000_000 } })
    billing.on(Ping, async (_data, ctx) => {
      times += 1
      await ctx.publish(Pong, { n: times })
      throw error
    })
    await billing.handle(ping('a', { traceparent: sender(1) }))
    const seq = (await store.inbox.find('billing', messageKey('/sender', 'a'))) ?? never()
    const core = billing as unknown as { work(seqs: readonly string[]): Promise<unknown> }
    while (times < 10_001) await core.work([seq])
    const attempts = tracing.named('process')
    expect(attempts.length).toBe(10_001)
    expect(attempts.at(-1)?.attributes['hapax.attempt']).toBe(10_001)
    expect(Math.max(...tracing.sizes)).toBeLessThanOrEqual(3)
    expect(new Set(attempts.map((attempt) => linkIds(attempt).join()))).toEqual(new Set([spanOf(1)]))
  })
})

describe('a publish', () => {
  it('belongs to the request that makes it, whoever else publishes at the same time', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    const carried = new Map<number, unknown>()
    const billing = hapax
      .consumer('billing', { group: { size: 50 } })
      .on(Ping, ({ n }, { message }) => void carried.set(n, message.traceparent))
    const requests = new Map<number, string>()
    const request = (n: number): Promise<unknown> =>
      tracing.inSpan(`request ${n}`, async (span) => {
        requests.set(n, span.spanContext().spanId)
        await hapax.transaction(async (tx) => {
          await pause(Math.random() * 5)
          const publishing = hapax.publish(tx, Ping, { n })
          await pause(Math.random() * 5)
          await publishing
        })
      })
    await Promise.all(Array.from({ length: 20 }, (_, n) => request(n)))
    await drained(hapax, billing)
    const published = tracing.named('publish')
    for (const [n, traceparent] of carried) {
      const publish = published.find(({ id }) => String(traceparent).includes(id))
      expect(publish).toMatchObject({ parent: requests.get(n), name: 'publish ping', kind: 'PRODUCER' })
    }
    expect(carried.size).toBe(20)
    const links = tracing.named('process').flatMap(linkIds)
    expect(new Set(links)).toEqual(new Set(published.map(({ id }) => id)))
  })

  it('of many messages is one span; a fan-out makes small traces', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    const consumers = ['a', 'b', 'c'].map((name) => hapax.consumer(name, { group: { size: 1 } }).on(Ping, () => {}))
    const drafts = Array.from({ length: 100 }, (_, n) => Ping.of({ n }))
    await tracing.inSpan('request', () => hapax.transaction((tx) => hapax.publishMany(tx, drafts)))
    await drained(hapax, ...consumers)
    const [publish] = tracing.named('publish')
    expect(publish?.attributes).toMatchObject({ 'messaging.batch.message_count': 100 })
    expect(tracing.named('process').map(linkIds)).toEqual(Array.from({ length: 300 }, () => [publish?.id]))
    expect(Math.max(...tracing.sizes)).toBe(2)
  })

  it('that is delayed begins a new trace, which is linked', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' })
    const billing = hapax.consumer('billing').on(Ping, () => {})
    await using worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { delayMs: 50 }))
    await expect.poll(() => tracing.named('process').length).toBe(1)
    const [publish, process] = [tracing.named('publish')[0], tracing.named('process')[0]]
    expect(process).toMatchObject({ parent: undefined, links: [{ to: publish?.id }] })
    expect(process?.trace).not.toBe(publish?.trace)
  })

  it('that fails is an error of its own', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing)
    await expect(hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: '' }))).rejects.toThrow()
    expect(tracing.named('publish')).toMatchObject([{ failed: true, attributes: { 'error.type': 'invalid-id' } }])
  })
})

it('a request can be followed to what it caused: request, publish, send, receive, process', async () => {
  const tracing = Tracing.open()
  const hapax = await open(tracing)
  const broker = memoryBroker()
  const inside: unknown[] = []
  const billing = hapax.consumer('billing').on(Ping, () => void inside.push(currentSpan()))
  const source = billing.from(broker.queue('orders', { topic: 'shop' }))
  await using worker = hapax.worker({ consume: [source], relay: broker.topic('shop') })
  await worker.start()
  const server = createServer((_request, response) => {
    void tracing.inSpan('POST /orders', async () => {
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
      response.end('ok')
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await expect.poll(() => server.listening).toBe(true)
  const { port } = server.address() as AddressInfo
  expect(await (await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST' })).text()).toBe('ok')
  await expect.poll(() => tracing.spans.length).toBe(6)
  const one = (name: string): SeenSpan => tracing.named(name)[0] ?? never()
  const [request, publish, send] = [one('POST'), one('publish'), one('send')]
  const [receive, settle, process] = [one('receive'), one('settle'), one('process')]
  expect(publish.parent).toBe(request.id)
  expect(send).toMatchObject({ name: 'send shop', kind: 'CLIENT', parent: undefined, links: [{ to: publish.id }] })
  expect(send.attributes).toMatchObject({
    'messaging.system': 'memory',
    'hapax.relay': 'default',
    'hapax.outcome': 'confirmed',
  })
  expect(receive).toMatchObject({
    name: 'receive orders',
    kind: 'CLIENT',
    parent: undefined,
    links: [{ to: publish.id }],
  })
  expect(settle).toMatchObject({ name: 'settle orders', parent: receive.id, kind: 'CLIENT' })
  expect(process).toMatchObject({ name: 'process orders', parent: undefined })
  expect(process.attributes).toMatchObject({ 'messaging.system': 'memory', 'messaging.consumer.group.name': 'billing' })
  expect(new Set(linkIds(process))).toEqual(new Set([publish.id, receive.id]))
  expect(inside).toEqual([process.id])
  expect(Math.max(...tracing.sizes)).toBe(2)
})

it('leased work has its effects and its settling as children', async () => {
  const tracing = Tracing.open()
  const hapax = await open(tracing)
  const inside: unknown[] = []
  const sms = hapax.leased('sms', { retry: AT_ONCE }).on(Ping, async (_data, ctx) => {
    inside.push(await ctx.effect('send', async () => currentSpan()))
    await ctx.effect('refused', () => Promise.reject(new Permanent('no'))).catch(() => {})
    ctx.complete(async () => void inside.push(currentSpan()))
  })
  await sms.handle(ping('a', { traceparent: sender(1) }))
  const [process] = tracing.named('process')
  const [send, refused] = tracing.named('effect')
  const [settle] = tracing.named('settle')
  expect(process).toMatchObject({ parent: undefined, links: [{ to: spanOf(1) }] })
  expect(send).toMatchObject({ name: 'effect send', kind: 'CLIENT', parent: process?.id, failed: false })
  expect(send?.attributes).toMatchObject({ 'hapax.effect': 'send', 'hapax.outcome': 'done', 'hapax.consumer': 'sms' })
  expect(refused).toMatchObject({ parent: process?.id, failed: true })
  expect(inside[0]).toBe(send?.id)
  expect([settle?.parent, inside[1]]).toEqual([process?.id, settle?.id])
})

describe(`consume: 'parent'`, () => {
  it('continues the trace of a single message, stored or not', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, { delivery: 'local' }, 'parent')
    const inside: unknown[] = []
    const billing = hapax.consumer('billing', { group: { size: 1 } }).on(Ping, () => void inside.push(currentSpan()))
    await billing.handle(ping('a', { traceparent: sender(1) }))
    await tracing.inSpan('request', () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 })))
    await drained(hapax, billing)
    const [first, second] = tracing.named('process')
    const [publish] = tracing.named('publish')
    expect(first).toMatchObject({ trace: PARENT, parent: spanOf(1), links: [] })
    expect(second).toMatchObject({ trace: publish?.trace, parent: publish?.id, links: [] })
    expect(inside).toEqual([first?.id, second?.id])
  })

  it('gives each message of a group a span in its own trace, linked to the one of the group', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, {}, 'parent')
    const inside = new Map<string, unknown>()
    const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, async (_data, { message }) => {
      await pause(1)
      inside.set(message.id, currentSpan())
    })
    await billing.handleMany([1, 2, 3].map((n) => ping(`m${n}`, { traceparent: sender(n) })))
    const [process] = tracing.named('process')
    const handles = tracing.named('handle')
    expect(process).toMatchObject({ parent: undefined })
    expect(linkIds(process ?? never())).toEqual([1, 2, 3].map(spanOf))
    expect(handles.map(({ parent }) => parent)).toEqual([1, 2, 3].map(spanOf))
    expect(handles.map(linkIds)).toEqual([[process?.id], [process?.id], [process?.id]])
    expect(handles.map(({ attributes }) => attributes['messaging.message.id'])).toEqual(['m1', 'm2', 'm3'])
    expect([...inside.values()]).toEqual(handles.map(({ id }) => id))
  })

  it('and so does onMany, whose handler runs in the span of the group', async () => {
    const tracing = Tracing.open()
    const hapax = await open(tracing, {}, 'parent')
    const inside: unknown[] = []
    const billing = hapax.consumer('billing').onMany(Ping, () => void inside.push(currentSpan()))
    await billing.handleMany([1, 2].map((n) => ping(`m${n}`, { traceparent: sender(n) })))
    const [process] = tracing.named('process')
    expect(tracing.named('handle').map(({ parent }) => parent)).toEqual([spanOf(1), spanOf(2)])
    expect(inside).toEqual([process?.id])
  })
})

describe('an SDK', () => {
  it('that is registered after worker.start() gets spans and all the counts', async () => {
    const tracing = Tracing.open()
    const hapax = await openWith({ instrument: opentelemetry(), delivery: 'local' })
    const billing = hapax.consumer('billing').on(Ping, () => {})
    await using worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await worker.drain()
    expect(tracing.spans).toEqual([])
    trace.setGlobalTracerProvider(tracing.provider)
    onTestFinished(() => trace.disable())
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 2 }))
    await expect.poll(() => tracing.named('process').length).toBe(1)
    expect(tracing.named('process').map(linkIds)).toEqual([[tracing.named('publish')[0]?.id]])
    metrics.disable()
  })

  it('that has no context manager still connects messages with their publish', async () => {
    const tracing = new Tracing()
    const hapax = await open(tracing, { delivery: 'local' })
    const billing = hapax.consumer('billing').on(Ping, () => {})
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await drained(hapax, billing)
    expect(tracing.named('process').map(linkIds)).toEqual([[tracing.named('publish')[0]?.id]])
  })

  it('that samples nothing gets nothing, and the messages say so', async () => {
    Tracing.open()
    const exporter = new InMemorySpanExporter()
    const spanProcessors = [new SimpleSpanProcessor({ exporter })]
    const tracerProvider = new TracerProvider({ spanProcessors, sampler: new AlwaysOffSampler() })
    const hapax = await openWith({ instrument: opentelemetry({ tracerProvider }), delivery: 'local' })
    const carried: unknown[] = []
    const billing = hapax.consumer('billing').on(Ping, (_data, { message }) => void carried.push(message.traceparent))
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await drained(hapax, billing)
    expect(exporter.getFinishedSpans()).toEqual([])
    expect(carried).toEqual([expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)])
  })

  it('sees no spans of looks, heartbeats and timers: they are suppressed, and handlers are not', async () => {
    const tracing = Tracing.open()
    const suppressed = createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
    const store = memory()
    const looks: unknown[] = []
    const workers = new Proxy(store.workers, {
      get: (target, name) => {
        if (name === 'look') looks.push(context.active().getValue(suppressed))
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const watched = new Proxy(store, {
      get: (target, name) => {
        const value: unknown = name === 'workers' ? workers : Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const hapax = await open(tracing, { store: watched, delivery: 'local' })
    const inHandler: unknown[] = []
    const billing = hapax.consumer('billing').on(Ping, () => {
      inHandler.push(context.active().getValue(suppressed))
    })
    await tracing.inSpan('start', () => drained(hapax, billing))
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await drained(hapax, billing)
    expect(new Set(looks)).toEqual(new Set([true]))
    expect(inHandler).toEqual([undefined])
  })
})

it.for([
  ['nonsense', 'no trace'],
  ['zeros', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`],
  ['capitals', sender(1).toUpperCase()],
  ['version ff', sender(1).replace(/^00/, 'ff')],
  ['a longer version 00', `${sender(1)}-more`],
  ['nothing', ''],
])('a traceparent of %s is no link and no failure', async ([, traceparent]) => {
  for (const consume of ['link', 'parent'] as const) {
    const tracing = Tracing.open()
    const hapax = await open(tracing, {}, consume)
    const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, () => {})
    const message = { traceparent, tracestate: '=,=,\u0001' }
    const outcomes = await billing.handleMany([ping('a', message), ping('b', { tracestate: 7 as never })])
    expect(outcomes.map(({ status }) => status)).toContain('processed')
    expect(tracing.named('process').flatMap(({ links }) => links)).toEqual([])
    context.disable()
  }
})

it('a later version of traceparent is understood', async () => {
  const tracing = Tracing.open()
  const hapax = await open(tracing)
  const billing = hapax.consumer('billing').on(Ping, () => {})
  await billing.handle(ping('a', { traceparent: `${sender(1).replace(/^00/, '01')}-more` }))
  expect(tracing.spans.map(linkIds)).toEqual([[spanOf(1)]])
})

it('options are checked', () => {
  expect(() => opentelemetry({ consume: 'both' as never })).toThrow(/expected consume to be/)
  expect(() => opentelemetry({ tracerProvider: {} as never })).toThrow(/expected tracerProvider to be/)
  expect(() => opentelemetry({ meterProvider: 7 as never })).toThrow(/expected meterProvider to be/)
  expect(() => opentelemetry({ trace: true } as never)).toThrow(/expected options of opentelemetry/)
})

const never = (): never => {
  throw new Error('expected a value')
}
