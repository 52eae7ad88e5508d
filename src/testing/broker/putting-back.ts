import assert from 'node:assert/strict'
import type { Case } from './case.ts'
import { assertSame, numbered, publishAll } from './world.ts'

/** Longer than any case takes. */
const LONG_MS = 600_000

export const puttingBack: readonly Case[] = [
  {
    name: 'redelivers what is to be retried, and marks it',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), ['a'])
      for (let time = 0; time < 3; time++) {
        const received = await listener.takeOne('a')
        if (time > 0) assert.ok(received.arrival.redelivered)
        received.retry(1)
      }
      const received = await listener.takeOne('a')
      received.ack()
    },
  },
  {
    name: 'redelivers what was rejected, and marks it',
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing')
      await publishAll(destination, ['a'])
      const first = await listener.takeOne('a')
      first.reject(1)
      const again = await listener.takeOne('a')
      assert.ok(again.arrival.redelivered)
      again.ack()
      await listener.close()
      const next = await world.listen('billing')
      await publishAll(destination, ['last'])
      await next.takeOne('last')
    },
  },
  {
    name: 'keeps the bytes and attributes of what is handed out again',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), ['a', 'b'])
      const [a, b] = await listener.take(2)
      a?.retry(1)
      b?.reject(1)
      for (const again of await listener.take(2)) {
        const { redelivered: _, ...first } = again.id === 'a' ? (a?.message ?? {}) : (b?.message ?? {})
        const { redelivered, ...second } = again.message
        assert.ok(redelivered)
        assert.deepEqual(second, first)
      }
    },
  },
  {
    name: 'delivers other messages while one waits for its retry',
    run: async (world) => {
      const listener = await world.listen('billing', { messages: 2 })
      await publishAll(world.destination(), numbered(10))
      const first = await listener.takeOne('m0')
      first.retry(LONG_MS)
      await listener.ackOneByOne(9)
      assert.deepEqual(listener.ids, numbered(10))
    },
  },
  {
    name: 'loses nothing that waits for its retry when the reader closes',
    run: async (world) => {
      const first = await world.listen('billing')
      await publishAll(world.destination(), ['a', 'b'])
      const [a, b] = await first.take(2)
      a?.retry(LONG_MS)
      // Not the whole delay: a broker that delays messages itself continues to do so.
      b?.reject(50)
      await first.close()
      const second = await world.listen('billing')
      await second.take(2)
      assertSame(second.ids, ['a', 'b'])
      assertSame(first.ids, ['a', 'b'])
    },
  },
  {
    name: 'hands out nothing any more after it was closed',
    run: async (world) => {
      const first = await world.listen('billing')
      await publishAll(world.destination(), ['a', 'b'])
      const [a, b] = await first.take(2)
      a?.retry(20)
      b?.reject(20)
      await first.close()
      // While it closes, something may still come.
      const came = first.received.length
      const second = await world.listen('billing')
      // A message that was put back later, and for longer, comes later.
      for (const received of await second.take(2)) received.retry(60)
      await second.take(2)
      assert.equal(first.received.length, came)
    },
  },
  {
    name: 'an ack of a message that waits for its retry does nothing',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), ['a'])
      const first = await listener.takeOne('a')
      first.retry(20)
      first.ack()
      const second = await listener.takeOne('a')
      // Neither does a late one, to the delivery before.
      first.ack()
      second.retry(1)
      await listener.takeOne('a')
    },
  },
  {
    name: 'a paused reader gets nothing more, and may ack what it has in hand',
    run: async (world) => {
      const destination = world.destination()
      const paused = await world.listen('billing', { messages: 3 })
      const other = await world.listen('stock')
      await publishAll(destination, numbered(6))
      const received = await paused.take(3)
      await paused.pause()
      for (const each of received) each.ack()
      await publishAll(destination, ['last'])
      await other.take(7)
      assert.equal(paused.received.length, 3)
      await paused.close()
      const next = await world.listen('billing')
      await next.take(4)
      assertSame(next.ids, ['m3', 'm4', 'm5', 'last'])
    },
  },
  {
    name: 'what a paused reader puts back goes to another one at once, whatever the delay',
    needs: ['sharing'],
    run: async (world) => {
      const paused = await world.listen('billing')
      await publishAll(world.destination(), ['a', 'b', 'c', 'd'])
      const [a, b, c, d] = await paused.take(4)
      a?.retry(LONG_MS)
      await paused.pause()
      const other = await world.listen('billing')
      b?.retry(LONG_MS)
      c?.retry(0)
      d?.ack()
      await other.take(3)
      assertSame(other.ids, ['a', 'b', 'c'])
      assert.equal(paused.received.length, 4)
    },
  },
  {
    name: 'what a paused reader has in hand stays there until it is settled',
    needs: ['sharing'],
    run: async (world) => {
      const destination = world.destination()
      const paused = await world.listen('billing')
      await publishAll(destination, ['a'])
      const a = await paused.takeOne('a')
      await paused.pause()
      const other = await world.listen('billing')
      await publishAll(destination, ['b'])
      await other.takeOne('b')
      a.ack()
      await publishAll(destination, ['c'])
      await other.takeOne('c')
    },
  },
]
