import assert from 'node:assert/strict'
import { systemClock } from '../../../base/index.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { AT_ONCE, assertOutcome, type Context, Ping, Pong, ping, statuses, type World } from '../world.ts'

/** Every handler is quick by this clock, however busy the machine is. */
const STILL = { ...systemClock, monotonic: () => 0 }

const ids = (count: number, from = 0): readonly string[] =>
  Array.from({ length: count }, (_, index) => `m${from + index}`)

/** How many handlers were called in each transaction, in the order of the transactions. A transaction has one signal. */
class Seen {
  readonly #calls = new Map<AbortSignal, string[]>()

  saw({ signal, message }: Context): void {
    const calls = this.#calls.get(signal)
    if (calls === undefined) this.#calls.set(signal, [message.id])
    else calls.push(message.id)
  }

  get sizes(): readonly number[] {
    return [...this.#calls.values()].map(({ length }) => length)
  }

  /** What shared a transaction with this message, at any time. */
  besides(id: string): readonly string[] {
    return [...this.#calls.values()]
      .filter((calls) => calls.includes(id))
      .flatMap((calls) => calls.filter((each) => each !== id))
  }
}

/** A consumer that says nothing of groups, one transaction at a time. */
function reader(world: World, handler: (ctx: Context) => unknown = () => {}, receive: 'direct' | 'store' = 'direct') {
  const seen = new Seen()
  const made = world.reader(
    async (ctx) => {
      seen.saw(ctx)
      await world.database.effect(ctx.tx, ctx.message.id)
      await handler(ctx)
    },
    { receive, concurrency: 1, hapax: world.hapax({ clock: STILL }) },
  )
  return { ...made, seen }
}

export const automaticGroups: readonly Case[] = [
  {
    name: 'grow while handlers are quick',
    run: async (world) => {
      const { deliverMany, seen } = reader(world)
      assert.deepEqual(new Set(statuses(await deliverMany(ids(60)))), new Set(['processed']))
      assert.deepEqual(seen.sizes, [1, 2, 4, 8, 16, 29])
      await world.assertEffects(ids(60))
    },
  },
  {
    name: 'grow in the inbox as well',
    run: async (world) => {
      const { seen, ...made } = reader(world, undefined, 'store')
      await made.deliverMany(ids(60))
      await world.drain(made)
      assert.ok(Math.max(...seen.sizes) > 1, `each group had one message: ${seen.sizes.join()}`)
      await world.assertEffects(ids(60))
    },
  },
  {
    name: 'have one message each while handlers are slow',
    run: async (world) => {
      const clock = new LeapingClock()
      const seen = new Seen()
      const slow = world.reader(
        async (ctx) => {
          seen.saw(ctx)
          await world.database.effect(ctx.tx, ctx.message.id)
          clock.leap(100)
        },
        { hapax: world.hapax({ clock }), concurrency: 1 },
      )
      await slow.deliverMany(ids(10))
      assert.deepEqual(seen.sizes, Array(10).fill(1))
      await world.assertEffects(ids(10))
    },
  },
  {
    name: 'begin again after a failure, and the others of that group take effect once',
    run: async (world) => {
      const { deliverMany, seen } = reader(world, ({ message }) => {
        if (message.id === 'm20') throw new Error('bad')
      })
      const outcomes = await deliverMany(ids(50))
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ids(50).map((id) => (id === 'm20' ? 'retrying' : 'processed')),
      )
      // 16 fail at the sixth of them, and run one by one. So do 17 more, before two share a transaction again.
      assert.deepEqual(seen.sizes, [1, 2, 4, 8, 6, ...Array(33).fill(1), 2])
      await world.assertEffects(ids(50).filter((id) => id !== 'm20'))
    },
  },
  {
    name: 'leave out a message that has failed before',
    run: async (world) => {
      const { seen, ...made } = reader(world, undefined, 'store')
      const failing = world.reader(() => {
        throw new Error('not yet')
      })
      await made.deliverMany(ids(40))
      await world.drain(made)
      assertOutcome(await failing.deliver('bad'), 'retrying')
      await made.deliverMany(ids(10, 40))
      await world.drain(made)
      assert.deepEqual(seen.besides('bad'), [])
      await world.assertEffects([...ids(50), 'bad'])
    },
  },
  {
    name: 'have no handler that has not succeeded by itself: one that commits on its own commits for no other message',
    needs: ['ending the transaction'],
    run: async (world) => {
      for (const receive of ['direct', 'store'] as const) {
        const hapax = world.hapax({ clock: STILL })
        const consumer = hapax.consumer(receive, { receive, concurrency: 1, retry: AT_ONCE })
        consumer.on(Ping, ({ n }, { tx }) => world.database.effect(tx, `${receive} ${n}`))
        consumer.on(Pong, async (_, { tx, message }) => {
          await world.database.effect(tx, message.id)
          await world.database.commitInside(tx)
        })
        const made = { hapax, consumer }
        const messages = Array.from({ length: 40 }, (_, n) => ping(`${receive} ${n}`, { data: { n } }))
        const bad = ping(`${receive} bad`, { type: Pong.type })
        await consumer.handleMany(messages.slice(0, 20))
        if (receive === 'store') await world.drain(made)
        await consumer.handleMany([...messages.slice(20, 30), bad, ...messages.slice(30)])
        if (receive === 'store') await world.drain(made)
        const failed = await hapax.failed.list({ consumer: receive })
        assert.deepEqual(
          failed.map(({ message, reason }) => `${message.id} ${reason}`),
          [`${receive} bad broken-atomicity`],
        )
      }
      const done = (receive: string) => [...ids(40).map((id) => `${receive} ${id.slice(1)}`), `${receive} bad`]
      await world.assertEffects([...done('direct'), ...done('store')])
    },
  },
]
