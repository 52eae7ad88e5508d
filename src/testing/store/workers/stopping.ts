import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { Consumer, Leased, Source } from '../../../contracts/index.ts'
import type { WorkerOptions } from '../../../worker/index.ts'
import { feed } from '../../feed.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, gate, Ping, Pong, ping, type Tx, type World } from '../world.ts'

type Consumed = NonNullable<WorkerOptions<Tx>['consume']>[number]

/** A handler that only ends when it is aborted. */
interface Endless {
  /** It was called. */
  readonly entered: Promise<void>
  readonly told: () => boolean
  run(signal: AbortSignal): Promise<void>
}

function endless(): Endless {
  const entered = gate()
  let told = false
  return {
    entered: entered.passed,
    told: () => told,
    run: (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          told = true
          reject(signal.reason)
        })
        entered.open()
      }),
  }
}

/** A way in which messages come to a handler. */
interface Way {
  readonly name: string
  /** What the worker consumes; the messages `a` and `b` are on their way. */
  consumed(hapax: AnyHapax, handler: Endless, world: World): Promise<Consumed> | Consumed
}

const AB = ['a', 'b'] as const

function direct(hapax: AnyHapax, handler: Endless, options = {}): Source<Tx> {
  const consumer = hapax.consumer('billing', { concurrency: 1 }).on(Ping, (_, ctx) => handler.run(ctx.signal))
  return consumer.from(feed(AB, options).subscription)
}

function sms(hapax: AnyHapax, handler: Endless): Leased<Tx> {
  return hapax.leased('billing', { concurrency: 1 }).on(Ping, (_, ctx) => handler.run(ctx.signal))
}

const never = (): never => {
  throw new Permanent('never')
}

/** A consumer whose handler fails for good; its hook is the endless one. */
function failing(hapax: AnyHapax, handler: Endless, options = {}): Consumer<Tx> {
  const consumer = hapax.consumer('billing', { concurrency: 1, ...options })
  return consumer.on(Ping, never).onFailed(Ping, (_, __, ctx) => handler.run(ctx.signal))
}

const ways: readonly Way[] = [
  { name: 'fed from a subscription', consumed: (hapax, handler) => direct(hapax, handler) },
  {
    name: 'fed from a subscription that has delivered it before',
    consumed: (hapax, handler) => direct(hapax, handler, { redelivered: true }),
  },
  {
    name: 'fed from a subscription into its inbox',
    consumed: (hapax, handler) =>
      hapax
        .consumer('billing', { receive: 'store', concurrency: 1 })
        .on(Ping, (_, ctx) => handler.run(ctx.signal))
        .from(feed(AB).subscription),
  },
  {
    name: 'fed in groups from a subscription',
    consumed: (hapax, handler) =>
      hapax
        .consumer('billing', { group: { size: 2 }, concurrency: 1 })
        .on(Ping, (_, ctx) => handler.run(ctx.signal))
        .from(feed(AB).subscription),
  },
  {
    name: 'of many messages, fed from a subscription',
    consumed: (hapax, handler) =>
      hapax
        .consumer('billing', { concurrency: 1 })
        .onMany(Ping, (_, ctx) => handler.run(ctx.signal))
        .from(feed(AB).subscription),
  },
  {
    name: 'of many messages that wait in the inbox',
    consumed: async (hapax, handler) => {
      const consumer = hapax.consumer('billing', { receive: 'store', concurrency: 1 })
      consumer.onMany(Ping, (_, ctx) => handler.run(ctx.signal))
      await consumer.handleMany(AB.map((id) => ping(id)))
      return consumer
    },
  },
  {
    name: 'with a lease, fed from a subscription',
    consumed: (hapax, handler) => sms(hapax, handler).from(feed(AB).subscription),
  },
  {
    name: 'with a lease, of messages that wait in the inbox',
    consumed: async (hapax, handler, world) => {
      await world.reader(undefined, { receive: 'store' }).deliverMany(AB)
      return sms(hapax, handler)
    },
  },
  {
    name: 'with a lease, in what it does to complete',
    consumed: (hapax, handler) =>
      hapax
        .leased('billing', { concurrency: 1 })
        .on(Ping, (_, ctx) => ctx.complete(() => handler.run(ctx.signal)))
        .from(feed(AB).subscription),
  },
  {
    name: 'in its onFailed hook, fed from a subscription',
    consumed: (hapax, handler) => failing(hapax, handler).from(feed(AB).subscription),
  },
  {
    name: 'in its onFailed hook, of messages that wait in the inbox',
    consumed: async (hapax, handler) => {
      const consumer = failing(hapax, handler, { receive: 'store' })
      await consumer.handleMany(AB.map((id) => ping(id)))
      return consumer
    },
  },
  {
    name: 'in its onFailed hook, with a lease',
    consumed: (hapax, handler) =>
      hapax
        .leased('billing', { concurrency: 1 })
        .on(Ping, never)
        .onFailed(Ping, (_, __, ctx) => handler.run(ctx.signal))
        .from(feed(AB).subscription),
  },
]

/** After it was stopped, both messages take effect, each once, wherever they were. */
async function assertKept(world: World): Promise<void> {
  const reader = world.reader()
  const worker = await world.worker(reader)
  await reader.deliverMany(AB)
  // What was put back is due in a moment.
  await world.until(async () => (await world.database.effects()).length >= AB.length)
  await worker.drain()
  await world.assertEffects(AB)
  assert.deepEqual(await reader.hapax.failed.list(), [])
}

const handlers: readonly Case[] = ways.map(({ name, consumed }) => ({
  name: `K13: a stop aborts a handler at its deadline, ${name}`,
  run: async (world) => {
    const handler = endless()
    const hapax = world.hapax()
    const worker = await world.worker({ hapax }, { consume: [await consumed(hapax, handler, world)] })
    await handler.entered
    await worker.stop({ deadlineMs: 1 })
    assert.ok(handler.told(), 'the handler was aborted before stop resolved')
    await assertKept(world)
  },
}))

const relays: readonly Case[] = [
  {
    name: 'K13: a stop aborts a destination at its deadline',
    run: async (world) => {
      const entered = gate()
      let told = false
      const relay = {
        name: 'a destination that does not respond',
        features: { keepsOrder: true },
        prepare: async () => {},
        publish: (_: readonly unknown[], signal: AbortSignal) => {
          signal.addEventListener('abort', () => {
            told = true
          })
          entered.open()
        },
        close: async () => {},
      }
      const hapax = world.hapax()
      await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }))
      const worker = await world.worker({ hapax }, { relay })
      await entered.passed
      await worker.stop({ deadlineMs: 1 })
      assert.ok(told, 'the destination was aborted before stop resolved')
      assert.equal((await world.database.outbox()).length, 1)
    },
  },
]

export const stopping: readonly Case[] = [...handlers, ...relays]
