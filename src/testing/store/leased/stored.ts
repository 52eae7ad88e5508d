import assert from 'node:assert/strict'
import { coreOf } from '../../../leased/index.ts'
import { messageKey } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { lossy, subscription } from '../doubles.ts'
import { assertOutcome, Ping, Pong, ping, type World } from '../world.ts'
import { leased, Provider, type Sms, seqOf, storeOne } from './world.ts'

/** Settles a message with a COMMIT that had no reply. */
async function unanswered(world: World, cut: 'before' | 'after'): Promise<void> {
  await storeOne(world, 'a')
  const provider = new Provider()
  let completions = 0
  let early = ''
  const hapax = world.hapax({ store: lossy(world.store, cut) })
  const level = world.isolation === undefined ? {} : { isolation: world.isolation }
  const sms = leased(
    world,
    async (ctx) => {
      await ctx.effect('send', provider.send)
      early = (await ctx.publish(Pong, { n: 1 })).id
      ctx.complete(async (tx) => {
        completions += 1
        await world.database.effect(tx, 'sent')
        await ctx.publish(Pong, { n: 2 })
      })
    },
    { hapax, ...level },
  )
  const seq = await seqOf(world, 'a')
  assert.equal((await coreOf(sms).work([seq])).get(seq)?.status, 'processed')
  assert.equal(provider.calls.length, 1)
  assert.equal(completions, cut === 'before' ? 2 : 1)
  await world.assertEffects(['sent'])
  const outbox = await world.database.outbox()
  assert.equal(outbox.length, 2)
  assert.ok(outbox.includes(early))
  await world.assertPlaces('a', ['receipt', 'effect'])
}

const levels: readonly Case[] = [
  {
    name: 'A1: the settling commit had no reply and was not kept: it is repeated, the call is not',
    run: (world) => unanswered(world, 'before'),
  },
  {
    name: 'A1: the settling commit had no reply and was kept: nothing is repeated',
    run: (world) => unanswered(world, 'after'),
  },
]

const broken: readonly Case[] = [
  {
    name: 'A4: a complete that commits on its own is broken atomicity, not a lost lease: what it should have published is missing',
    needs: ['ending the transaction'],
    run: async (world) => {
      const provider = new Provider()
      const hapax = world.hapax()
      const lost: string[] = []
      hapax.events.on('lease-lost', ({ message }) => lost.push(message.id))
      const sms = leased(
        world,
        async (ctx) => {
          await ctx.effect('send', provider.send)
          ctx.complete(async (tx) => {
            await world.database.effect(tx, ctx.message.id)
            await ctx.publish(Pong, { n: 1 })
            await world.database.commitInside(tx)
          })
        },
        { hapax },
      )
      assertOutcome(await sms.handle(ping('a')), 'failed', 'broken-atomicity')
      const failed = await hapax.failed.list()
      assert.deepEqual(
        failed.map(({ message, reason, attempts }) => [message.id, reason, attempts]),
        [['a', 'broken-atomicity', 1]],
      )
      assert.deepEqual([lost, provider.calls.length, await world.database.outbox()], [[], 1, []])
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt', 'effect', 'failed'])
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
    },
  },
]

const sending =
  (world: World, provider: Provider): Sms =>
  async (ctx) => {
    await ctx.effect('send', provider.send)
    ctx.complete((tx) => world.database.effect(tx, ctx.message.id))
  }

const once: readonly Case[] = [
  {
    name: 'local messages are worked under a lease by a worker',
    run: async (world) => {
      const provider = new Provider()
      const hapax = world.hapax({ delivery: 'local' })
      const sms = leased(world, sending(world, provider), { hapax })
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      await world.drain({ hapax, consumer: sms })
      await world.assertEffects(['a'])
      assert.equal(provider.calls.length, 1)
    },
  },
  {
    name: 'a subscription feeds a leased consumer; what it delivers twice is sent once',
    run: async (world) => {
      const provider = new Provider()
      const hapax = world.hapax()
      const sms = leased(world, sending(world, provider), { hapax })
      const source = subscription([ping('a'), ping('b'), ping('a', { redelivered: true })], false)
      const worker = hapax.worker({ consume: [sms.from(source.subscription)], pollMs: 20 })
      await worker.start()
      await world.until(() => source.acked.length === 3)
      await worker.drain()
      await worker.stop()
      await world.assertEffects(['a', 'b'])
      assert.equal(provider.calls.length, 2)
    },
  },
  {
    name: 'C2: a message whose process dies again and again is parked, and its handler is not called',
    run: async (world) => {
      const provider = new Provider()
      await storeOne(world, 'killer')
      await storeOne(world, 'bystander')
      const [killer, bystander] = [await seqOf(world, 'killer'), await seqOf(world, 'bystander')]
      await world.crash([killer, bystander])
      for (let time = 0; time < 3; time++) await world.crash([killer], true)
      const hapax = world.hapax()
      const sms = leased(world, sending(world, provider), { hapax })
      await world.drain({ hapax, consumer: sms })
      await world.assertEffects(['bystander'])
      assert.equal(provider.calls.length, 1)
      const failed = await hapax.failed.list()
      assert.deepEqual(
        failed.map(({ message, reason }) => [message.id, reason]),
        [['killer', 'crash-loop']],
      )
    },
  },
  {
    name: 'the journal is forgotten with the receipt, and not before',
    run: async (world) => {
      const provider = new Provider()
      const hapax = world.hapax()
      const sms = leased(
        world,
        async (ctx) => {
          await ctx.effect('send', ctx.message.id === 'held' ? () => Promise.reject(new Error('reset')) : provider.send)
          await ctx.note({ to: '+41' })
        },
        { hapax },
      )
      await sms.handle(ping('done'))
      await sms.handle(ping('held'))
      const old = { consumer: 'billing', olderThanMs: 1 }
      assert.deepEqual(await hapax.cleanup({ consumer: 'billing', olderThanMs: 3_600_000 }), { receipts: 0 })
      await world.assertPlaces('done', ['receipt', 'effect', 'effect'])
      await world.until(async () => (await world.cleanable('billing')) === 1)
      assert.deepEqual(await hapax.cleanup(old), { receipts: 1 })
      await world.assertPlaces('done', [])
      assert.deepEqual(await world.store.journal.of('billing', messageKey('/sender', 'done')), [])
      await world.assertPlaces('held', ['receipt', 'failed', 'effect'])
    },
  },
  {
    name: 'explain shows the calls with their state, how often they were begun, and the notes',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = leased(
        world,
        async (ctx) => {
          await ctx.note({ to: '+41' })
          await ctx.note({ text: 'hello' })
          await ctx.effect('send', () => 'SM1')
          await ctx.effect('ask', () => Promise.reject(new Error('reset')))
        },
        { hapax },
      )
      await sms.handle(ping('a'))
      const effects = (await hapax.explain('a')).flatMap((trace) => (trace.where === 'effect' ? [trace.effect] : []))
      assert.deepEqual(effects.map(({ name, state, attempts, result }) => [name, state, attempts, result]).sort(), [
        ['', 'done', 1, '{"to":"+41","text":"hello"}'],
        ['ask', 'unknown', 1, null],
        ['send', 'done', 1, '"SM1"'],
      ])
    },
  },
]

export const stored: readonly Case[] = [...atEachLevel(levels), ...broken, ...once]
