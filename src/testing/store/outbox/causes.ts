import assert from 'node:assert/strict'
import type { PublishInHandler } from '../../../contracts/index.ts'
import { type IncomingMessage, type MessageAttributes, unpackAttributes } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { leased } from '../leased/world.ts'
import { AT_ONCE, Ping, Pong, ping, type World } from '../world.ts'
import { outbox } from './outgoing.ts'

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const OTHER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'
const TRACED = { correlationId: 'checkout 7', traceparent: PARENT, tracestate: 'vendor=1' } as const

/** How handlers publish because of one message. */
const WAYS: Readonly<Record<string, (world: World, message: IncomingMessage) => Promise<unknown>>> = {
  'a handler': (world, message) => world.reader(({ publish }) => publish(Pong, { n: 1 })).consumer.handle(message),
  'an item of onMany': async (world, message) => {
    const consumer = world.hapax().consumer('billing', { retry: AT_ONCE })
    consumer.onMany(Ping, async (items) => {
      for (const { publish } of items) await publish(Pong, { n: 1 })
    })
    await consumer.handleMany([message])
  },
  'a leased handler': (world, message) => leased(world, ({ publish }) => publish(Pong, { n: 1 })).handle(message),
  'ctx.complete': (world, message) =>
    leased(world, (ctx) => ctx.complete(() => ctx.publish(Pong, { n: 1 }))).handle(message),
  onFailed: async (world, message) => {
    const { consumer } = world.reader(() => Promise.reject(new Error('no')), { retry: { attempts: 1 } })
    await consumer.onFailed(Ping, (_data, _error, { publish }) => publish(Pong, { n: 1 })).handle(message)
  },
}

async function published(world: World): Promise<Partial<MessageAttributes>> {
  const [row] = await outbox(world.store)
  assert.ok(row, 'nothing was published')
  const { causationId, correlationId, traceparent, tracestate } = unpackAttributes(row.message)
  return JSON.parse(JSON.stringify({ causationId, correlationId, traceparent, tracestate }))
}

async function publishedBy(
  world: World,
  message: Partial<IncomingMessage>,
  publish: (of: PublishInHandler) => unknown,
) {
  await world.reader((ctx) => publish(ctx.publish)).consumer.handle(ping('a', message))
  return published(world)
}

export const causes: readonly Case[] = [
  ...Object.entries(WAYS).map(
    ([way, run]): Case => ({
      name: `what ${way} publishes has the trace and the correlation of its message, which it names`,
      run: async (world) => {
        await run(world, ping('a', TRACED))
        assert.deepEqual(await published(world), { causationId: 'a', ...TRACED })
      },
    }),
  ),
  {
    name: 'with local delivery as well',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const seen: Partial<MessageAttributes>[] = []
      const reader = world.reader(({ publish }) => publish(Pong, { n: 1 }), { hapax })
      const audit = hapax.consumer('audit').on(Pong, (_data, { message }) => seen.push(message))
      await reader.deliver('a', TRACED)
      await world.drain({ hapax, consumer: audit })
      assert.partialDeepStrictEqual(seen, [{ causationId: 'a', ...TRACED }])
    },
  },
  {
    name: 'a message without a correlation gives its id, and what the handler says comes first',
    run: async (world) => {
      const options = { correlationId: 'own', traceparent: OTHER }
      const first = await publishedBy(world, {}, (publish) => publish(Pong, { n: 1 }))
      assert.deepEqual(first, { causationId: 'a', correlationId: 'a' })
      const other = await world.reader(({ publish }) => publish(Pong, { n: 2 }, options), { name: 'other' })
      await other.deliver('b', TRACED)
      const [, row] = await outbox(world.store)
      const { tracestate, ...attributes } = unpackAttributes(row?.message ?? assert.fail('nothing was published'))
      assert.partialDeepStrictEqual(attributes, { causationId: 'b', ...options })
      assert.equal(tracestate, undefined)
    },
  },
  {
    name: 'a trace or a correlation that could not be published is left out, and the handler continues',
    run: async (world) => {
      const long = 'x'.repeat(3_000)
      const message = { correlationId: long, traceparent: 'no trace', tracestate: long }
      const attributes = await publishedBy(world, message, (publish) => publish(Pong, { n: 1 }))
      assert.deepEqual(attributes, { causationId: 'a', correlationId: 'a' })
    },
  },
]
