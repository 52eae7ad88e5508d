import assert from 'node:assert/strict'
import { until } from '../wait.ts'
import type { Case } from './case.ts'
import type { Listener, Received } from './listener.ts'
import { numbered, publishAll, type World } from './world.ts'

export const single: readonly Case[] = [
  {
    name: 'declares that it keeps the order of keys',
    needs: ['single reader'],
    run: async (world) => {
      const subscription = await world.broker.subscription('billing', { single: true })
      assert.equal(subscription.features.ordersKeys, true)
    },
  },
  {
    name: 'E3: of two readers only one has messages in hand, and they come in order',
    needs: ['single reader'],
    run: async (world) => {
      const pair = await Pair.open(world)
      await publishAll(world.destination(), numbered(20))
      await pair.ack(20)
      assert.deepEqual(pair.acked, numbered(20))
    },
  },
  {
    name: 'E3: when the reader closes, the other one continues in order with what was not acked',
    needs: ['single reader'],
    run: async (world) => {
      const pair = await Pair.open(world)
      await publishAll(world.destination(), numbered(20))
      await pair.ack(7)
      const holder = await pair.holder()
      await holder.close()
      pair.leave(holder)
      await pair.ack(13)
      assert.deepEqual(pair.acked, numbered(20))
    },
  },
  {
    name: 'E3: a paused reader is not overtaken in what it has in hand',
    needs: ['single reader'],
    run: async (world) => {
      const pair = await Pair.open(world)
      await publishAll(world.destination(), numbered(10))
      const holder = await pair.holder()
      await holder.pause()
      const [first] = pair.inHand(holder)
      const other = pair.otherThan(holder)
      const stock = await world.listen('stock')
      await publishAll(world.destination(), ['last'])
      await stock.takeOne('last')
      assert.deepEqual(other.ids, [])
      first?.ack()
      await holder.close()
      const left = numbered(10).slice(1)
      await other.came(1)
      for (let at = 0; at < left.length; at++) (await other.takeOne(left[at] as string)).ack()
    },
  },
  {
    name: 'E3: continues in order after a cut',
    needs: ['single reader', 'cutting links'],
    awaitsReturn: true,
    run: async (world) => {
      const listener = await world.listen('billing', { single: true, messages: 5 })
      await publishAll(world.destination(), numbered(20))
      await listener.ackOneByOne(7)
      await world.broker.cut()
      await until(
        () => {
          // What had been handed out of the old link may be answered; that does nothing.
          const next = listener.received.slice(7).filter(({ id }) => id === 'm19')
          for (const received of listener.received.slice(7)) received.ack()
          return next.length > 0
        },
        () => `the last message comes; came: ${listener.ids.join(' ')}`,
      )
      assert.deepEqual(firsts(listener.ids), numbered(20))
    },
  },
]

/** Each id where it came first. */
function firsts(ids: readonly string[]): readonly string[] {
  return [...new Set(ids)]
}

/** Two readers of one group of which one at a time may have messages. */
class Pair {
  readonly acked: string[] = []
  #readers: readonly Listener[]
  readonly #answered = new Set<Received>()

  constructor(readers: readonly Listener[]) {
    this.#readers = readers
  }

  static async open(world: World): Promise<Pair> {
    const options = { single: true, messages: 5 }
    return new Pair([await world.listen('billing', options), await world.listen('billing', options)])
  }

  otherThan(reader: Listener): Listener {
    return this.#readers.find((each) => each !== reader) as Listener
  }

  leave(reader: Listener): void {
    this.#readers = this.#readers.filter((each) => each !== reader)
  }

  inHand(reader: Listener): readonly Received[] {
    return reader.received.filter((received) => !this.#answered.has(received))
  }

  /** Waits for the one that has messages in hand. */
  async holder(): Promise<Listener> {
    let holders: readonly Listener[] = []
    await until(() => {
      holders = this.#readers.filter((each) => this.inHand(each).length > 0)
      assert.ok(holders.length <= 1, 'two readers have messages in hand')
      return holders.length === 1
    }, 'one of the readers has messages')
    return holders[0] as Listener
  }

  /** Acks so many messages one by one, whichever reader has them. */
  async ack(count: number): Promise<void> {
    for (let at = 0; at < count; at++) {
      const [next] = this.inHand(await this.holder())
      assert.ok(next)
      this.#answered.add(next)
      this.acked.push(next.id)
      next.ack()
    }
  }
}
