import assert from 'node:assert/strict'
import { isHapaxError } from '../../../base/index.ts'
import type { Pause } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import { feed } from '../../feed.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { type AnyHapax, assertRejects, gate, Ping, type World } from '../world.ts'

const BY = { actor: 'ada', note: 'the bank is down' } as const

/** Resolves when a worker of this hapax obeys the next pause, or the next resumption. */
function obeyed(hapax: AnyHapax, what: 'paused' | 'resumed'): Promise<void> {
  return new Promise((resolve) => {
    const ignore = hapax.events.on(what, () => {
      ignore()
      resolve()
    })
  })
}

/** Pauses a consumer, and waits until the worker of this hapax obeys. */
async function paused(hapax: AnyHapax, consumer: string): Promise<void> {
  const stops = obeyed(hapax, 'paused')
  await hapax.consumers.pause(consumer, BY)
  await stops
}

async function publish(hapax: AnyHapax, count: number): Promise<void> {
  await hapax.transaction((tx) =>
    hapax.publishMany(
      tx,
      Array.from({ length: count }, (_, n) => Ping.of({ n })),
    ),
  )
}

/** Two consumers of the same messages, one of which is going to be paused. */
function pair(world: World, hapax: AnyHapax) {
  const [billing, witness] = ['billing', 'witness'].map((name) =>
    world.reader(({ tx, message }) => world.database.effect(tx, `${name} ${message.id}`), { hapax, name }),
  )
  assert.ok(billing !== undefined && witness !== undefined)
  return { billing, witness, consume: [billing.consumer, witness.consumer] }
}

const consumers: readonly Case[] = [
  {
    name: 'a paused consumer takes nothing while others go on, and goes on where it stopped when it is resumed',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const { billing, witness, consume } = pair(world, hapax)
      const worker = await world.worker({ hapax }, { consume })
      let publishing = true
      const load = (async () => {
        for (; publishing; ) await publish(hapax, 5)
      })()
      load.catch(() => {})
      await world.until(() => billing.calls.length > 20)
      await paused(hapax, 'billing')
      publishing = false
      await load
      // Nothing is in hand any more, also of what had begun when it was paused.
      await worker.drain()
      const before = billing.calls.length
      const seen = new Set(witness.calls).size
      await publish(hapax, 50)
      await world.until(() => new Set(witness.calls).size === seen + 50)
      assert.equal(billing.calls.length, before)
      await hapax.consumers.resume('billing', BY)
      await world.until(() => new Set(billing.calls).size === new Set(witness.calls).size)
      const effects = await world.database.effects()
      assert.equal(new Set(effects).size, effects.length)
    },
  },
  {
    name: 'of a key, what runs when its consumer is paused ends, and what is in hand behind it does not begin',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const [entered, open] = [gate(), gate()]
      const calls: number[] = []
      // Leased, because a handler with a transaction may be the only one that can write, and a pause is written.
      const leased = hapax.leased('sms', { order: 'wait' })
      leased.on(Ping, async ({ n }) => {
        calls.push(n)
        entered.open()
        await open.passed
      })
      const worker = await world.worker({ hapax, consumer: leased })
      await hapax.transaction(async (tx) => {
        for (const n of [1, 2, 3]) await hapax.publish(tx, Ping, { n }, { key: 'k' })
      })
      await entered.passed
      await paused(hapax, 'sms')
      open.open()
      await worker.drain()
      assert.deepEqual(calls, [1])
      await hapax.consumers.resume('sms')
      await world.until(() => calls.length === 3)
      assert.deepEqual(calls, [1, 2, 3])
    },
  },
  {
    name: 'a worker that starts while its consumer is paused takes nothing, and has nothing to drain',
    run: async (world) => {
      const hapax = world.hapax()
      const reader = world.reader(undefined, { hapax, receive: 'store' })
      await reader.deliver('a')
      await hapax.consumers.pause('billing', BY)
      const queue = feed(['b'])
      const worker = await world.worker({ hapax }, { consume: [reader.consumer.from(queue.subscription)] })
      await worker.drain()
      assert.deepEqual(await hapax.workOnce({ consume: [reader.consumer], maxMs: 20_000 }), {
        processed: 0,
        sent: 0,
        retrying: 0,
        failed: 0,
        remaining: false,
      })
      assert.deepEqual(reader.calls, [])
      assert.equal(queue.readers, 0)
      await hapax.consumers.resume('billing')
      await world.until(() => reader.calls.length === 2)
    },
  },
  {
    name: 'a paused consumer gives its subscription up, and opens it again when it is resumed',
    run: async (world) => {
      const hapax = world.hapax()
      const reader = world.reader(undefined, { hapax })
      const queue = feed(['a'])
      await world.worker({ hapax }, { consume: [reader.consumer.from(queue.subscription)] })
      await world.until(() => queue.acked.length === 1)
      await paused(hapax, 'billing')
      await world.until(() => queue.readers === 0)
      queue.add(['b', 'c'])
      assert.deepEqual(reader.calls, ['a'])
      await hapax.consumers.resume('billing')
      await world.until(() => queue.acked.length === 3)
      await world.assertEffects(['a', 'b', 'c'])
    },
  },
  {
    name: 'a paused consumer with leases begins no call',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      let calls = 0
      const leased = hapax.leased('sms')
      leased.on(Ping, () => {
        calls += 1
      })
      const witness = world.reader(undefined, { hapax, name: 'witness' })
      await world.worker({ hapax }, { consume: [leased, witness.consumer] })
      await publish(hapax, 5)
      await world.until(() => calls === 5)
      await paused(hapax, 'sms')
      await publish(hapax, 5)
      await world.until(() => new Set(witness.calls).size === 10)
      assert.equal(calls, 5)
      await hapax.consumers.resume('sms')
      await world.until(() => calls === 10)
    },
  },
  {
    name: 'what waits for a connection, or for its turn to write, when its consumer is paused does not begin',
    run: async (world) => {
      let pauses: readonly Pause[] = []
      const list: World['store']['pauses']['list'] = async () => pauses
      const hapax = world.hapax({ store: altered(world.store, { pauses: { list } }) })
      const [entered, open] = [gate(), gate()]
      const handler = async (): Promise<void> => {
        entered.open()
        await open.passed
      }
      const reader = world.reader(handler, { hapax, receive: 'store', group: { size: 1 }, concurrency: 4 })
      await reader.deliverMany(Array.from({ length: 20 }, (_, n) => `m${n}`))
      const worker = await world.worker(reader)
      await entered.passed
      const stops = obeyed(hapax, 'paused')
      pauses = [{ origin: 'inbox', scope: 'billing', ...BY, at: new Date() }]
      await stops
      // What has passed the last question before that is called now.
      await new Promise(setImmediate)
      const before = reader.calls.length
      open.open()
      await worker.drain()
      assert.equal(reader.calls.length, before)
      pauses = []
      await world.until(() => new Set(reader.calls).size === 20)
    },
  },
  {
    name: 'while pauses cannot be read, what was known last stays',
    run: async (world) => {
      let away = false
      const list: World['store']['pauses']['list'] = async () => {
        if (away) throw new Error('away')
        return world.store.pauses.list()
      }
      const hapax = world.hapax({ store: altered(world.store, { pauses: { list } }), delivery: 'local' })
      const { billing, witness, consume } = pair(world, hapax)
      await world.worker({ hapax }, { consume })
      await paused(hapax, 'billing')
      const told = new Promise<void>((resolve) => void hapax.events.on('worker-error', () => resolve()))
      away = true
      await told
      await publish(hapax, 10)
      await world.until(() => new Set(witness.calls).size === 10)
      assert.deepEqual(billing.calls, [])
      away = false
      await hapax.consumers.resume('billing')
      await world.until(() => new Set(billing.calls).size === 10)
    },
  },
]

const relays: readonly Case[] = [
  {
    name: 'a paused relay sends nothing while others do, and sends all of it when it is resumed',
    run: async (world) => {
      const hapax = world.hapax()
      const [one, two] = [new TestDestination(), new TestDestination()]
      await world.worker({ hapax }, { relays: { one, two } })
      const send = (relay: string, count: number): Promise<void> =>
        hapax.transaction(async (tx) => {
          for (let n = 0; n < count; n++) await hapax.publish(tx, Ping, { n }, { relay })
        })
      await send('one', 10)
      await world.until(() => one.arrived.length === 10)
      const stops = obeyed(hapax, 'paused')
      await hapax.relays.pause('one', BY)
      await stops
      await send('one', 10)
      await send('two', 10)
      await world.until(() => two.arrived.length === 10)
      assert.equal(one.arrived.length, 10)
      await hapax.relays.resume('one')
      await world.until(() => new Set(one.arrived).size === 20)
    },
  },
]

const people: readonly Case[] = [
  {
    name: 'a status says who has paused what, and why; a second pause, and one of a name that nobody knows, are refused',
    run: async (world) => {
      const { hapax, deliver } = world.reader()
      await deliver('a')
      await hapax.consumers.pause('billing', BY)
      const [pause, ...more] = (await hapax.status()).paused
      assert.deepEqual(more, [])
      const { at, ...told } = pause ?? { at: undefined }
      assert.deepEqual(told, { origin: 'inbox', scope: 'billing', ...BY })
      assert.ok(at instanceof Date)
      await assertRejects(hapax.consumers.pause('billing', { actor: 'bob' }), 'conflict')
      await assertRejects(hapax.consumers.pause('biling'), 'not-found')
      await assertRejects(hapax.relays.pause('billing'), 'not-found')
      await assertRejects(hapax.relays.resume('billing'), 'not-found')
      await hapax.consumers.resume('billing', BY)
      await assertRejects(hapax.consumers.resume('billing'), 'not-found')
      assert.deepEqual((await hapax.status()).paused, [])
      await assert.rejects(
        () => hapax.consumers.pause(''),
        (error) => isHapaxError(error, 'invalid-option'),
      )
    },
  },
]

export const pausing: readonly Case[] = [...consumers, ...relays, ...people]
