import assert from 'node:assert/strict'
import type { Leased } from '../../contracts/index.ts'
import { defineMessage } from '../../message/index.ts'
import { failedOne } from './admin/failed-world.ts'
import type { Case } from './case.ts'
import { type AnyHapax, AT_ONCE, assertOutcome, type Context, Ping, ping, type Tx, type World } from './world.ts'

const Novel = defineMessage<unknown>('novel')

const novel = (id: string, more = {}) => ping(id, { type: 'novel', data: { title: id }, ...more })

/** Writes the data as an effect; its first attempts fail if asked to. */
const taking =
  (world: World, failures = 0) =>
  async (data: unknown, ctx: Context): Promise<void> => {
    await world.database.effect(ctx.tx, `${ctx.message.type} ${JSON.stringify(data)}`)
    if (ctx.attempt <= failures) throw new Error('not yet')
  }

/** The same for a leased consumer. */
function leasedTaking(world: World, hapax: AnyHapax): Leased<Tx> {
  const consumer = hapax.leased('billing', {
    retry: AT_ONCE,
    unknown: (data, ctx) => {
      if (ctx.attempt === 1) throw new Error('not yet')
      ctx.complete((tx) => world.database.effect(tx, `${ctx.message.type} ${JSON.stringify(data)}`))
    },
  })
  return consumer.on(Ping, () => {})
}

const ignoring: readonly Case[] = [
  {
    name: 'with unknown: ignore, a type without a handler is acknowledged, reported, and not kept',
    run: async (world) => {
      const reader = world.reader(undefined, { unknown: 'ignore' })
      const ignored: string[] = []
      reader.hapax.events.on('ignored', ({ consumer, message }) => ignored.push(`${consumer} ${message.type}`))
      const outcomes = await reader.consumer.handleMany([novel('a'), ping('b'), novel('c')])
      assert.deepEqual(
        outcomes.map(({ status, ack }) => [status, ack]),
        [
          ['ignored', true],
          ['processed', true],
          ['ignored', true],
        ],
      )
      assert.deepEqual(ignored, ['billing novel', 'billing novel'])
      await world.assertPlaces('a', [])
      await world.assertEffects(['b'])
    },
  },
  {
    name: 'what was ignored is handled when it comes again to a version that has a handler',
    run: async (world) => {
      assertOutcome(await world.reader(undefined, { unknown: 'ignore' }).consumer.handle(novel('a')), 'ignored')
      const next = world.hapax().consumer('billing')
      next.on(Novel, (_, ctx) => world.database.effect(ctx.tx, 'novel'))
      assertOutcome(await next.handle(novel('a')), 'processed')
    },
  },
  {
    name: 'with unknown: ignore, a type that another process of the consumer handles is kept for it',
    run: async (world) => {
      const there = world.reader()
      await world.drain(there)
      const here = world.hapax().consumer('billing', { unknown: 'ignore' })
      here.on(Novel, () => {})
      assertOutcome(await here.handle(ping('a')), 'stored')
      await world.drain(there)
      await world.assertEffects(['a'])
    },
  },
]

const handling: readonly Case[] = [
  {
    name: 'a handler of unknown types gets the data as it came; its writes and the receipt commit together',
    run: async (world) => {
      const consumer = world.hapax().consumer('billing', { unknown: taking(world) })
      assertOutcome(await consumer.handle(novel('a')), 'processed')
      assertOutcome(await consumer.handle(novel('a')), 'duplicate')
      await world.assertPlaces('a', ['receipt'])
      await world.assertEffects(['novel {"title":"a"}'])
    },
  },
  ...(['direct', 'store'] as const).flatMap((receive) =>
    (['none', 'wait'] as const)
      .filter((order) => receive === 'store' || order === 'none')
      .map(
        (order): Case => ({
          name: `a handler of unknown types that fails is called again from the inbox (receive ${receive}, order ${order})`,
          run: async (world) => {
            const hapax = world.hapax()
            const consumer = hapax.consumer('billing', { receive, order, retry: AT_ONCE, unknown: taking(world, 1) })
            consumer.on(Ping, (_, ctx) => world.database.effect(ctx.tx, ctx.message.id))
            const messages = [novel('a', { key: 'k' }), ping('b', { key: 'k' })]
            for (const message of messages) await consumer.handle(message)
            await world.drain({ hapax, consumer })
            await world.assertEffects(['b', 'novel {"title":"a"}'])
            await world.assertPlaces('a', ['receipt'])
          },
        }),
      ),
  ),
  {
    name: 'a redelivered message of an unknown type is worked at once',
    run: async (world) => {
      const consumer = world.hapax().consumer('billing', { unknown: taking(world) })
      assertOutcome(await consumer.handle({ ...novel('a'), redelivered: true }), 'processed')
      await world.assertEffects(['novel {"title":"a"}'])
    },
  },
  {
    name: 'a leased handler of unknown types is called again, and completes once',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = leasedTaking(world, hapax)
      assertOutcome(await consumer.handle(novel('a')), 'retrying')
      await world.drain({ hapax, consumer: consumer })
      await world.assertEffects(['novel {"title":"a"}'])
    },
  },
  ...(['none', 'wait'] as const).map(
    (order): Case => ({
      name: `a handler of unknown types leaves to another process what that one handles by name (order ${order})`,
      run: async (world) => {
        const there = world.reader(undefined, { order, receive: 'store' })
        await world.drain(there)
        const hapax = world.hapax()
        const here = hapax.consumer('billing', { order, receive: 'store', unknown: taking(world) })
        for (const message of [ping('a', { key: 'k' }), novel('b', { key: 'l' })]) {
          assertOutcome(await here.handle(message), 'stored')
        }
        await world.drain({ hapax, consumer: here })
        await world.assertEffects(['novel {"title":"b"}'])
        await world.assertPlaces('a', ['inbox', 'receipt'])
        await world.drain(there)
        await world.assertEffects(['a', 'novel {"title":"b"}'])
      },
    }),
  ),
]

/** A new version starts beside one that runs already. */
const rolling: readonly Case[] = (['none', 'wait'] as const).map((order) => ({
  name: `a handler of unknown types leaves to others what they have begun to handle by name since it started (order ${order})`,
  run: async (world) => {
    const hapax = world.hapax()
    const here = hapax.consumer('billing', { order, receive: 'store', unknown: taking(world) })
    const worker = hapax.worker({ consume: [here] })
    await worker.start()
    const there = world.reader(undefined, { order, receive: 'store' })
    await world.drain(there)
    for (const message of [ping('a', { key: 'k' }), novel('b', { key: 'l' })]) {
      assertOutcome(await here.handle(message), 'stored')
    }
    await worker.drain()
    await world.assertEffects(['novel {"title":"b"}'])
    await world.drain(there)
    await world.assertEffects(['a', 'novel {"title":"b"}'])
    await worker.stop()
  },
}))

/** The same, of what the process with the handler of unknown types publishes itself: its worker is told of it at once. */
const publishing: readonly Case[] = (['none', 'wait'] as const).map((order) => ({
  name: `a handler of unknown types leaves to others what its own process publishes to them (order ${order})`,
  run: async (world) => {
    const hapax = world.hapax({ delivery: 'local' })
    const here = hapax.consumer('billing', { order, unknown: taking(world) })
    const worker = hapax.worker({ consume: [here] })
    await worker.start()
    const there = world.reader(undefined, { order })
    await world.drain(there)
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a', key: 'k' }))
    await worker.drain()
    await world.assertEffects([])
    await world.drain(there)
    await world.assertEffects(['a'])
    await worker.stop()
  },
}))

/** A person retries a message whose type nobody handles. */
const retried: readonly Case[] = (['none', 'wait'] as const).map((order) => ({
  name: `a retry of a type that no worker handles waits, and doctor names it until one does (order ${order})`,
  run: async (world) => {
    const reader = world.reader(undefined, { order })
    assertOutcome(await reader.consumer.handle(novel('a', { key: 'k' })), 'failed')
    const worker = await world.worker(reader)
    await reader.hapax.failed.retry((await failedOne(reader.hapax, 'a')).seq)
    await worker.drain()
    await world.assertPlaces('a', ['inbox', 'receipt'])
    const named = async (): Promise<number> => {
      const findings = await reader.hapax.doctor()
      return findings.filter(({ level, message }) => level === 'error' && message.includes('messages of novel wait'))
        .length
    }
    assert.equal(await named(), 1)
    const hapax = world.hapax()
    const consumer = hapax.consumer('billing', { order, unknown: taking(world) })
    await world.drain({ hapax, consumer })
    await world.assertEffects(['novel {"title":"a"}'])
    assert.equal(await named(), 0)
    await worker.stop()
  },
}))

export const unknownTypes: readonly Case[] = [...ignoring, ...handling, ...rolling, ...publishing, ...retried]
