// Spans and contexts on the way through RabbitMQ, from a request to a handler in another transaction.
import { AsyncLocalStorage } from 'node:async_hooks'
import { connect } from 'amqplib'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { opentelemetry } from 'hapax/opentelemetry'
import { rabbitmq } from 'hapax/rabbitmq'
import { expect, onTestFinished, test } from 'vitest'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'
import { currentSpan, Tracing } from '../support/tracing.ts'

const Ping = defineMessage<{ n: number }>('ping')
const request = new AsyncLocalStorage<string>()

async function ground(watched = true) {
  const place = await RabbitmqPlace.open()
  onTestFinished(() => place[Symbol.asyncDispose]())
  const tracing = Tracing.open()
  const instrument = opentelemetry({ tracerProvider: tracing.provider })
  const hapax = createHapax({
    store: memory(),
    source: '/shop',
    logger: silentLogger,
    ...(watched && { instrument }),
  })
  await hapax.migrate()
  onTestFinished(() => hapax.close())
  return { place, tracing, hapax }
}

async function publishAll(tracing: Tracing, hapax: Hapax<MemoryTx>, count: number): Promise<void> {
  const publish = (n: number): Promise<unknown> =>
    request.run(`request ${n}`, () =>
      tracing.inSpan(`request ${n}`, () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n }))),
    )
  await Promise.all(Array.from({ length: count }, (_, n) => publish(n)))
}

test('a batch of a relay links to each publish, and so do the batch that is received and each attempt', async () => {
  const { place, tracing, hapax } = await ground()
  const carried = new Map<number, unknown>()
  const inside = new Map<number, unknown>()
  const billing = hapax.consumer('billing').on(Ping, ({ n }, { message }) => {
    carried.set(n, message.traceparent)
    inside.set(n, currentSpan())
  })
  const source = billing.from(await place.subscription('billing'))
  await publishAll(tracing, hapax, 20)
  await using worker = hapax.worker({ consume: [source], relay: place.destination() })
  await request.run('start', () => tracing.inSpan('start', () => worker.start()))
  await expect.poll(() => carried.size).toBe(20)
  const published = tracing.named('publish')
  const all = published.map(({ id }) => id).toSorted()
  const linked = (name: string): readonly string[] =>
    tracing
      .named(name)
      .flatMap(({ links }) =>
        links.filter(({ attributes }) => attributes['hapax.link'] === undefined).map(({ to }) => to),
      )
      .toSorted()
  // A message may be handled before the relay learns that it was taken.
  for (const name of ['send', 'receive', 'process']) await expect.poll(() => linked(name)).toEqual(all)
  await expect.poll(() => tracing.named('settle').length).toBe(tracing.named('receive').length)
  const idOf = (n: number): string | undefined => published.find(({ id }) => String(carried.get(n)).includes(id))?.id
  for (const n of carried.keys()) {
    const publish = published.find(({ id }) => id === idOf(n))
    expect(publish?.parent).toBe(tracing.named(`request ${n}`)[0]?.id)
    const attempt = tracing.named('process').find(({ id }) => id === inside.get(n))
    expect(attempt?.links.map(({ to }) => to)).toContain(publish?.id)
  }
  const rabbit = { 'messaging.system': 'rabbitmq', 'messaging.system.name': 'rabbitmq' }
  expect(tracing.named('send')[0]).toMatchObject({
    parent: undefined,
    attributes: { ...rabbit, 'messaging.destination.name': place.exchange },
  })
  expect(tracing.named('receive')[0]).toMatchObject({
    parent: undefined,
    attributes: { ...rabbit, 'messaging.destination.name': place.queue('billing') },
  })
  expect(tracing.named('process')[0]).toMatchObject({
    parent: undefined,
    attributes: { ...rabbit, 'messaging.consumer.group.name': 'billing' },
  })
  const receives = new Set(tracing.named('receive').map(({ id }) => id))
  expect(tracing.named('settle').every(({ parent }) => receives.has(parent ?? ''))).toBe(true)
  expect(Math.max(...tracing.sizes)).toBe(2)
})

test('no handler sees the context of a request, of the start, or of the connection that was given', async () => {
  for (const watched of [true, false]) {
    const { place, tracing, hapax } = await ground(watched)
    const seen = new Set<unknown>()
    let handled = 0
    const billing = hapax.consumer('billing', { concurrency: 2, group: { size: 2 } }).on(Ping, async () => {
      seen.add(request.getStore())
      await new Promise((resolve) => setTimeout(resolve, 1))
      seen.add(request.getStore())
      handled += 1
    })
    const given = await request.run('connection', () => connect(requireServer('rabbitmq')))
    onTestFinished(() => given.close())
    const own = rabbitmq({ connection: given })
    await place.subscription('billing')
    const source = billing.from(own.queue(place.queue('billing'), { bind: { exchange: place.exchange } }))
    await using worker = hapax.worker({ consume: [source], relay: own.exchange(place.exchange) })
    await request.run('start', () => worker.start())
    await publishAll(tracing, hapax, 10)
    await publishAll(tracing, hapax, 10)
    await expect.poll(() => handled).toBe(20)
    expect(seen).toEqual(new Set([undefined]))
  }
})
