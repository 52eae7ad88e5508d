import assert from 'node:assert/strict'
import { pause, RetryAfter, silentLogger, systemClock } from '../../../base/index.ts'
import type { Consumer, Outcome } from '../../../contracts/index.ts'
import { defineMessage, type IncomingMessage, type MessageType, messageKey } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { type AnyHapax, assertOutcome, type Context, Ping, ping, type Tx, type World } from '../world.ts'

interface Order {
  readonly order: unknown
}

/** Pings whose type computes the key, the first letter of the order. */
const Keyed: MessageType<Order> = defineMessage<Order>('ping', { key: ({ order }) => String(order).slice(0, 1) })

/** Longer than later messages take to arrive and to be handled. */
const LATER_MS = 2_000

/** A message without a key; its data names the order it belongs to. */
function keyless(id: string, more: Partial<IncomingMessage> = {}): IncomingMessage {
  return ping(id, { data: { order: id }, ...more })
}

/** Writes the id as an effect; the message with this id fails its first attempt. */
function late(world: World, failing: string) {
  return async ({ tx, message, attempt }: Pick<Context, 'tx' | 'message' | 'attempt'>): Promise<void> => {
    if (message.id === failing && attempt === 1) throw new RetryAfter(LATER_MS)
    await world.database.effect(tx, message.id)
  }
}

interface OrderedOptions {
  readonly order?: 'none' | 'wait' | 'skip'
  readonly type?: MessageType<Order>
  readonly hapax?: AnyHapax
  readonly handler?: (ctx: Context) => Promise<void>
}

interface Ordered {
  readonly hapax: AnyHapax
  readonly consumer: Consumer<Tx>
}

/** A consumer with `order` for pings, whose type computes a key. */
function ordered(world: World, { order = 'wait', type = Keyed, ...options }: OrderedOptions = {}): Ordered {
  const { hapax = world.hapax(), handler = (ctx) => world.database.effect(ctx.tx, ctx.message.id) } = options
  const consumer = hapax.consumer('billing', { order, receive: 'store', lockTimeoutMs: 20_000 })
  return { hapax, consumer: consumer.on(type, (_, ctx) => handler(ctx)) }
}

/** The ids of the effects, once there are this many. */
async function effects(world: World, count: number): Promise<readonly string[]> {
  await world.until(async () => (await world.database.effects()).length >= count)
  return world.database.effects()
}

/** The keys of ordered rows, in row order. */
async function keys(world: World): Promise<readonly (string | null)[]> {
  return (await world.look()).entries.map(({ key }) => key).sort()
}

function stored(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) assertOutcome(outcome, 'stored')
}

const arrivals: readonly Case[] = [
  ...(['wait', 'skip'] as const).flatMap((order): readonly Case[] => [
    {
      name: `order ${order}: messages without a key get the one that their type computes, and are not overtaken`,
      run: async (world) => {
        const { hapax, consumer } = ordered(world, { order, handler: late(world, 'a1') })
        await world.worker({ hapax, consumer })
        assertOutcome(await consumer.handle(keyless('a1')), 'stored')
        stored(await consumer.handleMany(['a2', 'b1', 'a3'].map((id) => keyless(id))))
        assert.deepEqual(await effects(world, 4), ['b1', 'a1', 'a2', 'a3'])
      },
    },
  ]),
  {
    name: 'the key that arrives with a message takes precedence over that of its type',
    run: async (world) => {
      const { consumer } = ordered(world)
      stored(await consumer.handleMany([keyless('a1', { key: 'x' }), keyless('a2'), keyless('a3', { key: 'x' })]))
      assert.deepEqual(await keys(world), ['a', 'x', 'x'])
    },
  },
  {
    name: 'ctx.message has the key of the type, also without order, and the identity of the message is unchanged',
    run: async (world) => {
      const seen: unknown[] = []
      const consumer = world.hapax().consumer('billing', { missingId: 'hash' })
      consumer.on(Keyed, (_, { message }) => void seen.push(message.key))
      const { id: _, ...nameless } = keyless('a1')
      assertOutcome(await consumer.handle(keyless('a1')), 'processed')
      assertOutcome(await consumer.handle(nameless), 'processed')
      const before = world.hapax().consumer('billing', { missingId: 'hash' })
      before.on(Ping, () => {})
      for (const message of [keyless('a1'), nameless]) assertOutcome(await before.handle(message), 'duplicate')
      assert.deepEqual(seen, ['a', 'a'])
    },
  },
  {
    name: 'publishers and consumers compute the key from the same data: as it is on the wire',
    run: async (world) => {
      const Dated = defineMessage<{ readonly at: unknown }>('ping', { key: ({ at }) => String(at) })
      const hapax = world.hapax({ delivery: 'local' })
      const consumer = hapax.consumer('billing', { order: 'wait' }).on(Dated, () => {})
      const at = new Date(1)
      await hapax.transaction((tx) => hapax.publish(tx, Dated, { at }))
      assertOutcome(await consumer.handle(ping('a', { data: { at } })), 'stored')
      assert.deepEqual(await keys(world), [at.toJSON(), at.toJSON()])
    },
  },
  {
    name: 'with order, a message whose key cannot be computed fails and names the reason; the others are taken',
    run: async (world) => {
      const answers = new Map<unknown, unknown>([
        ['empty', ''],
        ['number', 7],
        ['long', 'x'.repeat(2049)],
      ])
      const type = defineMessage<Order>('ping', {
        key: ({ order }) => {
          if (order === 'throws') throw new Error('no order')
          return (answers.get(order) ?? 'a') as string
        },
      })
      const { hapax, consumer } = ordered(world, { type })
      const ids = ['throws', ...(answers.keys() as Iterable<string>)]
      for (const outcome of await consumer.handleMany(ids.map((id) => keyless(id)))) {
        assertOutcome(outcome, 'failed', 'invalid-message')
        assert.match(outcome.error?.message ?? '', /\bkey\b.*ping/)
      }
      assertOutcome(await consumer.handle(keyless('json', { data: Buffer.from('{') })), 'failed', 'invalid-payload')
      stored(await consumer.handleMany([keyless('b')]))
      assert.deepEqual(await keys(world), ['a'])
      await world.drain({ hapax, consumer })
      await world.assertEffects(['b'])
      const failed = await hapax.failed.list()
      assert.equal(failed.length, ids.length + 1)
    },
  },
  {
    name: 'without order, a message whose key cannot be computed is taken',
    run: async (world) => {
      const type = defineMessage<Order>('ping', { key: () => assert.fail('no key') })
      const { consumer } = ordered(world, { order: 'none', type })
      assertOutcome(await consumer.handle(keyless('a')), 'stored')
    },
  },
  {
    name: 'a consumer with order warns once per type about messages without a key, and doctor counts them',
    run: async (world) => {
      const warned: unknown[] = []
      const logger = {
        ...silentLogger,
        warn: (fields: { readonly advice?: unknown }, message: string) =>
          void (message.includes('without a key') && warned.push(fields.advice)),
      }
      const hapax = world.hapax({ logger })
      const told: unknown[] = []
      hapax.events.on('keyless', ({ consumer, message }) => told.push([consumer, message.type, message.id]))
      const consumer = hapax.consumer('billing', { order: 'wait' }).on(Ping, () => {})
      consumer.on(defineMessage<unknown>('pong', { key: () => undefined }), () => {})
      stored(await consumer.handleMany([ping('a'), ping('b'), ping('c', { type: 'pong' }), ping('d', { key: 'k' })]))
      stored([await consumer.handle(ping('e'))])
      assert.deepEqual(told, [
        ['billing', 'ping', 'a'],
        ['billing', 'pong', 'c'],
      ])
      assert.equal(warned.length, 2)
      assert.match(String(warned[0]), /defineMessage\('ping', \{ key \}\)/)
      await world.store.subscriptions.add('billing', ['ping', 'pong'], true)
      const [finding] = (await hapax.doctor()).filter(({ message }) => message.includes('without a key'))
      assert.equal(finding?.level, 'warning')
      assert.match(finding.message, /^4 .*billing/)
    },
  },
]

const switched: readonly Case[] = [
  {
    name: 'order switched on: messages stored without order are not overtaken by later ones',
    run: async (world) => {
      const before = ordered(world, { order: 'none', handler: late(world, 'a1') })
      const first = await world.worker(before)
      stored(await before.consumer.handleMany([keyless('a1'), keyless('b1', { key: 'b' })]))
      assert.deepEqual(await effects(world, 1), ['b1'])
      await world.until(async () => (await before.hapax.status()).consumers.some(({ retrying }) => retrying === 1))
      await first.stop()
      const after = ordered(world, { hapax: world.hapax(), handler: late(world, 'a1') })
      await world.worker(after)
      stored(await after.consumer.handleMany([keyless('a2'), keyless('a3')]))
      assert.deepEqual(await effects(world, 4), ['b1', 'a1', 'a2', 'a3'])
    },
  },
  {
    name: 'order switched on: many rows, some of them without a key, keep their positions',
    run: async (world) => {
      const before = ordered(world, { order: 'none', type: Ping as never })
      const ids = Array.from({ length: 1_200 }, (_, n) => `${n % 40 === 0 ? '-' : String(n % 7)}${n}`)
      const messages = ids.map((id) => (id.startsWith('-') ? ping(id) : ping(id, { key: id.slice(0, 1) })))
      for (let from = 0; from < ids.length; from += 400) {
        stored(await before.consumer.handleMany(messages.slice(from, from + 400)))
      }
      assert.equal(await world.store.inbox.addOrder('other'), 0)
      assert.equal(await world.store.inbox.addOrder('billing'), ids.filter((id) => !id.startsWith('-')).length)
      assert.equal(await world.store.inbox.addOrder('billing'), 0)
      await world.drain(ordered(world, { hapax: world.hapax(), type: Ping as never }))
      const done = await world.database.effects()
      assert.equal(done.length, ids.length)
      for (const key of ['0', '1', '2', '3', '4', '5', '6']) {
        const its = (all: readonly string[]): readonly string[] => all.filter((id) => id.startsWith(key))
        assert.deepEqual(its(done), its(ids))
      }
    },
  },
  {
    name: 'switched on: a worker that starts waits for rows that another one is putting in order',
    run: async (world) => {
      const before = ordered(world, { order: 'none', type: Ping as never })
      const ids = ['a1', 'a2', 'b1']
      stored(await before.consumer.handleMany(ids.map((id) => ping(id, { key: id.slice(0, 1) }))))
      const seqs: string[] = []
      for (const id of ids) {
        seqs.push(
          (await world.store.inbox.find('billing', messageKey('/sender', id))) ?? assert.fail('it is not there'),
        )
      }
      const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000, isolation: world.isolation }
      const [claimed, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const other = world.store.transactions.run(options, { kind: 'claim', seqs, locked: 'skip' }, async () => {
        claimed.resolve()
        await released.promise
        return { value: undefined, writes: undefined }
      })
      await claimed.promise
      const adding = world.store.inbox.addOrder('billing')
      await Promise.race([adding, pause(systemClock, 300)])
      released.resolve()
      await other
      assert.equal(await adding, ids.length)
    },
  },
  {
    name: 'a worker with type and order orders messages that a concurrent process without either has stored',
    run: async (world) => {
      const { hapax, consumer } = ordered(world, { handler: late(world, 'a1') })
      const told: string[] = []
      hapax.events.on('keyless', ({ message }) => told.push(message.id))
      const worker = await world.worker({ hapax, consumer })
      // This process knows neither the type nor the key.
      const other = world.hapax().consumer('billing', { order: 'wait' })
      other.on(defineMessage('pong'), () => {})
      stored(await other.handleMany([keyless('a1')]))
      await world.until(async () => (await hapax.status()).consumers.some(({ retrying }) => retrying === 1))
      const without = ordered(world, { order: 'none', hapax: world.hapax() })
      stored(await without.consumer.handleMany([keyless('a2', { key: 'a' })]))
      stored([await consumer.handle(keyless('a3'))])
      assert.deepEqual(await effects(world, 3), ['a1', 'a2', 'a3'])
      assert.deepEqual(told, ['a1'])
      await worker.drain()
    },
  },
  {
    name: 'messages of a process without order are ordered when its worker stops, even if they are not due',
    run: async (world) => {
      const old = world.hapax()
      const before = old.consumer('billing').on(Keyed, () => {
        throw new RetryAfter(3_600_000)
      })
      const first = await world.worker({ hapax: old, consumer: before })
      const after = ordered(world)
      await world.worker(after)
      assertOutcome(await before.handle(keyless('a1')), 'retrying')
      assert.deepEqual(await keys(world), [])
      await first.stop()
      await world.until(async () => (await keys(world)).includes('a'))
      stored(await after.consumer.handleMany(['a2', 'b1'].map((id) => keyless(id))))
      assert.deepEqual(await effects(world, 1), ['b1'])
    },
  },
  {
    name: 'leased work that was stored without order is ordered as well',
    run: async (world) => {
      const hapax = world.hapax()
      const leased = hapax.leased('billing', { order: 'wait' })
      const consumer = leased.on(Keyed, (_, ctx) => {
        if (ctx.message.id === 'a1' && ctx.attempt === 1) throw new RetryAfter(LATER_MS)
        ctx.complete((tx) => world.database.effect(tx, ctx.message.id))
      })
      const after = { hapax, consumer }
      await world.worker(after)
      // This process does not know the key.
      const other = world.hapax().consumer('billing', { order: 'wait' })
      other.on(defineMessage('pong'), () => {})
      stored([await other.handle(keyless('a1'))])
      await world.until(async () => (await after.hapax.status()).consumers.some(({ retrying }) => retrying === 1))
      stored(await after.consumer.handleMany([keyless('a2')]))
      assert.deepEqual(await effects(world, 2), ['a1', 'a2'])
    },
  },
  {
    name: 'a stored message whose key a worker cannot compute fails and names the reason',
    run: async (world) => {
      const other = world.hapax().consumer('billing', { order: 'wait' })
      other.on(defineMessage('pong'), () => {})
      const { hapax, consumer } = ordered(world, { type: defineMessage('ping', { key: () => assert.fail('no key') }) })
      const worker = await world.worker({ hapax, consumer })
      stored(await other.handleMany([keyless('a1')]))
      await worker.drain()
      const [failed] = await hapax.failed.list()
      assert.deepEqual([failed?.message.id, failed?.reason], ['a1', 'invalid-message'])
    },
  },
]

const rows: readonly Case[] = [
  {
    name: 'a row that gets a key keeps its position, before later rows of that key',
    run: async (world) => {
      const before = ordered(world, { order: 'none', type: Ping as never })
      stored(await before.consumer.handleMany([ping('first'), ping('other', { key: 'b' })]))
      const after = ordered(world)
      stored([await after.consumer.handle(keyless('a2'))])
      const seqOf = async (id: string): Promise<string> =>
        (await world.store.inbox.find('billing', messageKey('/sender', id))) ?? assert.fail('it is not in the inbox')
      const [first, other, second] = [await seqOf('first'), await seqOf('other'), await seqOf('a2')]
      assert.equal(await world.store.inbox.addKey(first, 'a'), true)
      assert.equal(await world.store.inbox.addKey(first, 'b'), false)
      assert.equal(await world.store.inbox.addKey('999-999', 'a'), false)
      const opening = { kind: 'claim', seqs: [second, other], locked: 'skip' } as const
      const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000, isolation: world.isolation }
      const claimed = await world.store.transactions.run(options, opening, async (unit) => ({
        value: [...unit.claimed.keys()],
        writes: undefined,
      }))
      assert.deepEqual(claimed, [other])
    },
  },
]

export const messageKeys: readonly Case[] = [...arrivals, ...switched, ...atEachLevel(rows)]
