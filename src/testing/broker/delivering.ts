import assert from 'node:assert/strict'
import type { Case } from './case.ts'
import { Listener, type Received } from './listener.ts'
import { assertSame, message, numbered, publish, publishAll } from './world.ts'

const everyMessage: readonly Case[] = [
  {
    name: 'gives every group every message',
    run: async (world) => {
      const billing = await world.listen('billing')
      const stock = await world.listen('stock')
      await publishAll(world.destination(), numbered(10))
      await billing.take(10)
      await stock.take(10)
      assertSame(billing.ids, numbered(10))
      assertSame(stock.ids, numbered(10))
    },
  },
  {
    name: 'delivers what was sent before the first reader',
    run: async (world) => {
      await world.group('billing')
      await publishAll(world.destination(), numbered(10))
      const listener = await world.listen('billing')
      await listener.take(10)
      assertSame(listener.ids, numbered(10))
    },
  },
  {
    name: 'a reader may start before anything was ever published',
    run: async (world) => {
      const { destination, subscription } = await world.broker.untouched()
      const listener = world.closeLater(await Listener.open(subscription, { messages: 100, bytes: 1e9 }))
      await publishAll(world.closeLater(destination), numbered(3))
      await listener.takeAllOf(numbered(3))
    },
  },
  {
    name: 'gives each message to one of two readers of a group',
    needs: ['sharing'],
    run: async (world) => {
      const first = await world.listen('billing', { messages: 5 })
      const second = await world.listen('billing', { messages: 5 })
      await publishAll(world.destination(), numbered(10))
      // Nothing is acked, so neither reader can take more than its half.
      await first.take(5)
      await second.take(5)
      assertSame([...first.ids, ...second.ids], numbered(10))
    },
  },
  {
    name: 'does not mark a first delivery as redelivered, if the broker marks redeliveries',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), numbered(3))
      const received = await listener.take(3)
      if (!listener.features.marksRedelivered) return
      assert.deepEqual(
        received.map(({ arrival }) => arrival.redelivered),
        [false, false, false],
      )
    },
  },
]

const prefetching: readonly Case[] = [
  {
    name: 'hands out no more messages than the prefetch until they are settled',
    run: async (world) => {
      const listener = await world.listen('billing', { messages: 5 })
      const other = await world.listen('stock')
      await publishAll(world.destination(), numbered(20))
      await listener.came(5)
      // A driver that hands out more has had time to do so.
      await other.take(20)
      assert.equal(listener.received.length, 5)
      await listener.ackOneByOne(20)
      assert.equal(listener.most.messages, 5)
      assert.deepEqual(listener.ids, numbered(20))
    },
  },
  {
    name: 'hands out no more bytes than the prefetch, except for the last message',
    needs: ['byte limits'],
    run: async (world) => {
      const limit = 50_000
      const listener = await world.listen('billing', { bytes: limit })
      const other = await world.listen('stock')
      const large = numbered(20).map((id) => message(id, { data: Buffer.from(JSON.stringify('x'.repeat(9_998))) }))
      await publish(world.destination(), large)
      await other.take(20)
      await listener.ackOneByOne(20)
      assertSame(listener.ids, numbered(20))
      const most = limit + Math.max(...listener.received.map(({ bytes }) => bytes))
      assert.ok(listener.most.bytes < most, `${listener.most.bytes} bytes in hand`)
    },
  },
  {
    name: 'hands out a message that is larger than the prefetch by bytes',
    run: async (world) => {
      const listener = await world.listen('billing', { bytes: 1_000 })
      const large = ['a', 'b'].map((id) => message(id, { data: Buffer.from(JSON.stringify('x'.repeat(50_000))) }))
      await publish(world.destination(), large)
      for (const id of ['a', 'b']) (await listener.takeOne(id)).ack()
    },
  },
  {
    name: 'continues when each delivery is settled inside the call that hands it out',
    run: async (world) => {
      const listener = await world.listen('billing', { messages: 2, each: (received) => received.ack() })
      await publishAll(world.destination(), numbered(200))
      await listener.take(200)
      assert.deepEqual(listener.ids, numbered(200))
    },
  },
]

const acking: readonly Case[] = [
  {
    name: 'forgets what was acked',
    run: async (world) => {
      const destination = world.destination()
      const first = await world.listen('billing')
      await publishAll(destination, numbered(10))
      for (const received of await first.take(10)) received.ack()
      await first.close()
      const second = await world.listen('billing')
      await publishAll(destination, ['last'])
      await second.take(1)
      assert.deepEqual(second.ids, ['last'])
    },
  },
  {
    name: 'counts down to nothing as messages are acked',
    needs: ['counting'],
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), numbered(10))
      const received = await listener.take(10)
      assert.equal(await world.broker.waiting('billing'), 10)
      for (const each of received) each.ack()
      await world.untilNothingWaits('billing')
    },
  },
  {
    name: 'E4: acks in any order; what is not acked comes again, and only that',
    needs: ['single acks'],
    run: async (world) => {
      const destination = world.destination()
      const first = await world.listen('billing')
      await publishAll(destination, numbered(10))
      const received = await first.take(10)
      for (const at of [9, 1, 5, 7, 3]) received[at]?.ack()
      await first.close()
      const second = await world.listen('billing')
      await publishAll(destination, ['last'])
      await second.take(6)
      assertSame(second.ids, ['m0', 'm2', 'm4', 'm6', 'm8', 'last'])
    },
  },
  {
    name: 'E4: an ack of later messages does not ack an earlier one',
    run: async (world) => {
      const first = await world.listen('billing')
      await publishAll(world.destination(), numbered(10))
      for (const received of (await first.take(10)).toReversed()) if (received.id !== 'm4') received.ack()
      await first.close()
      const second = await world.listen('billing')
      await second.takeAllOf(['m4'])
      assert.ok(!second.ids.some((id) => ['m0', 'm1', 'm2', 'm3'].includes(id)), second.ids.join(' '))
    },
  },
  {
    name: 'redelivers what was not acked when the reader closed, marked as redelivered if the broker can',
    run: async (world) => {
      const first = await world.listen('billing')
      await publishAll(world.destination(), numbered(5))
      for (const received of (await first.take(5)).slice(0, 2)) received.ack()
      await first.close()
      const second = await world.listen('billing')
      const again = await second.take(3)
      assertSame(second.ids, ['m2', 'm3', 'm4'])
      if (!second.features.marksRedelivered) return
      for (const { arrival, id } of again) assert.ok(arrival.redelivered, id)
    },
  },
  {
    name: 'accepts only the first settlement of a delivery',
    run: async (world) => {
      const destination = world.destination()
      const first = await world.listen('billing')
      await publishAll(destination, ['a', 'b'])
      for (const received of await first.take(2)) {
        received.ack()
        received.ack()
        received.retry(0)
        received.reject(0)
      }
      // A close does not wait for ever until acks have arrived.
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await first.close()
      const second = await world.listen('billing')
      await publishAll(destination, ['last'])
      await second.takeOne('last')
      assert.deepEqual(first.ids, ['a', 'b'])
    },
  },
  {
    name: 'E5: an ack after the reader was closed does nothing: the message is redelivered and can be acked',
    run: async (world) => {
      const destination = world.destination()
      const first = await world.listen('billing')
      await publishAll(destination, ['a', 'b', 'c'])
      const [a, b, c] = await first.take(3)
      await first.close()
      a?.ack()
      b?.retry(0)
      c?.reject(0)
      const second = await world.listen('billing')
      for (const received of await second.take(3)) received.ack()
      assertSame(second.ids, ['a', 'b', 'c'])
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await second.close()
      const third = await world.listen('billing')
      await publishAll(destination, ['last'])
      await third.takeOne('last')
      assert.equal(first.ids.length, 3)
    },
  },
]

const closing: readonly Case[] = [
  {
    name: 'closes twice, and after a pause',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), ['a'])
      await listener.take(1)
      await listener.pause()
      await listener.pause()
      await Promise.all([listener.close(), listener.close()])
      await listener.close()
    },
  },
  {
    name: 'loses nothing when readers close while messages come',
    run: async (world) => {
      const acked = new Set<string>()
      let calls = 0
      const each = (received: Received): void => {
        calls += 1
        if (calls % 7 === 0) return
        received.ack()
        acked.add(received.id)
      }
      const first = await world.listen('billing', { messages: 10, each })
      const sending = publishAll(world.destination(), numbered(200))
      await first.take(20)
      await first.close()
      const came = first.ids.length
      await sending
      const second = await world.listen('billing', { each: (received) => received.ack() })
      await second.takeAllOf(numbered(200).filter((id) => !acked.has(id)))
      assert.equal(first.ids.length, came, 'nothing is handed out after the close')
    },
  },
]

export const delivering: readonly Case[] = [...everyMessage, ...prefetching, ...acking, ...closing]
