import assert from 'node:assert/strict'
import { HapaxError } from '../../base/index.ts'
import { settled, until } from '../wait.ts'
import type { Case } from './case.ts'
import type { Listener } from './listener.ts'
import { numbered, publishAgain, publishAll } from './world.ts'

/** The reader has noticed that its link was lost, and has said so. */
function noticed(listener: Listener, times = 1): Promise<void> {
  return until(
    () => listener.reports.length >= times,
    () => `the reader reports ${times} losses; it reported ${listener.reports.length}`,
  )
}

export const interruptions: readonly Case[] = [
  {
    name: 'refuses to open while the broker is unavailable, and opens when it is back',
    needs: ['cutting links'],
    run: async (world) => {
      const subscription = await world.broker.subscription('billing')
      await world.broker.away()
      const ignore = (): void => {}
      const options = {
        types: 'all',
        prefetch: { messages: 1, bytes: 1_000 },
        receive: ignore,
        report: ignore,
      } as const
      await assert.rejects(settled(subscription.open(options), 'open has settled'), HapaxError)
      await world.broker.back()
      await publishAgain(world.destination(), ['a'])
      const listener = await world.listen('billing')
      await listener.takeOne('a')
    },
  },
  {
    name: 'a destination tells whether its broker answers, without a message',
    needs: ['cutting links'],
    run: async (world) => {
      const destination = world.destination()
      await world.listen('billing')
      const reach = (): Promise<void> => destination.reach?.() ?? assert.fail('it cannot be asked')
      await settled(reach(), 'a destination that was not used yet is reached')
      await world.broker.away()
      await until(
        () =>
          reach().then(
            () => false,
            (error: unknown) => error instanceof HapaxError,
          ),
        'a broker that is away is not reached',
      )
      await world.broker.back()
      await until(
        () =>
          reach().then(
            () => true,
            () => false,
          ),
        'a broker that is back is reached',
      )
      await publishAgain(destination, ['a'])
    },
  },
  {
    name: 'continues after a cut, which it reports once',
    needs: ['cutting links'],
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      for (const time of [1, 2, 3]) {
        await publishAgain(destination, [`before ${time}`])
        await listener.takeAllOf([`before ${time}`])
        await world.broker.cut()
        await noticed(listener, time)
        await publishAgain(destination, [`after ${time}`])
        await listener.takeAllOf([`after ${time}`])
        assert.equal(listener.reports.length, time, listener.reports.join('\n'))
      }
      for (const report of listener.reports) assert.ok(report instanceof HapaxError)
    },
  },
  {
    name: 'continues after the broker was unavailable, which it reports once',
    needs: ['cutting links'],
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      await publishAll(destination, ['before'])
      await listener.takeAllOf(['before'])
      await world.broker.away()
      await noticed(listener)
      await world.broker.back()
      await publishAgain(destination, ['after'])
      await listener.takeAllOf(['after'])
      assert.equal(listener.reports.length, 1, listener.reports.join('\n'))
    },
  },
  {
    name: 'redelivers what was in hand when the connection was cut, marked as redelivered if the broker can',
    needs: ['cutting links', 'links hold messages'],
    awaitsReturn: true,
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), numbered(5))
      for (const received of (await listener.take(5)).slice(0, 2)) received.retry(600_000)
      await world.broker.cut()
      const again = await listener.take(5)
      assert.deepEqual(again.map(({ id }) => id).sort(), numbered(5))
      if (!listener.features.marksRedelivered) return
      for (const { arrival, id } of again) assert.ok(arrival.redelivered, id)
    },
  },
  {
    name: 'E5 E6: an ack from before the cut does nothing: the message is redelivered and can be acked',
    needs: ['cutting links', 'links hold messages'],
    awaitsReturn: true,
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing')
      await publishAll(destination, ['a', 'b', 'c'])
      const [a, b, c] = await listener.take(3)
      // More than three, if that took longer than such a return.
      const before = listener.received.length
      await world.broker.cut()
      await noticed(listener)
      a?.ack()
      b?.retry(0)
      c?.reject(0)
      await listener.came(before + 3)
      const again = listener.received.slice(before)
      assert.deepEqual(again.map(({ id }) => id).sort(), ['a', 'b', 'c'])
      a?.ack()
      b?.reject(0)
      for (const received of again) received.ack()
      await listener.close()
      const next = await world.listen('billing')
      await publishAgain(destination, ['last'])
      await next.takeOne('last')
      assert.equal(listener.reports.length, 1, 'the new link is still the same')
    },
  },
  {
    name: 'what was in hand when the link was cut is not lost: the next reader gets it, and can ack it',
    needs: ['cutting links'],
    awaitsReturn: true,
    run: async (world) => {
      const destination = world.destination()
      const first = await world.listen('billing')
      await publishAll(destination, numbered(5))
      await first.take(5)
      await world.broker.cut()
      await first.close()
      const second = await world.listen('billing', { each: (received) => received.ack() })
      await second.takeAllOf(numbered(5))
      await second.close()
      const third = await world.listen('billing')
      await publishAgain(destination, ['last'])
      await third.takeOne('last')
    },
  },
  {
    name: 'acks while the link is being cut lose nothing',
    needs: ['cutting links'],
    awaitsReturn: true,
    run: async (world) => {
      const destination = world.destination()
      const acked = new Set<string>()
      const listener = await world.listen('billing', {
        messages: 20,
        each: (received) => {
          received.ack()
          acked.add(received.id)
        },
      })
      await publishAll(destination, numbered(100))
      for (let cuts = 0; cuts < 3; cuts++) {
        await listener.came(10 * (cuts + 1))
        await world.broker.cut()
      }
      await listener.takeAllOf(numbered(100))
      assert.equal(acked.size, 100)
      await publishAgain(destination, ['last'])
      await listener.takeAllOf(['last'])
      if (world.can('counting')) await world.untilNothingWaits('billing')
    },
  },
  {
    name: 'E8: notices a silent connection, reports it, and continues',
    needs: ['freezing links'],
    awaitsReturn: true,
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      await publishAgain(destination, ['before'])
      await listener.takeAllOf(['before'])
      await world.broker.freeze()
      await noticed(listener, listener.reports.length + 1)
      await world.broker.thaw()
      await publishAgain(destination, ['after'])
      await listener.takeAllOf(['after'])
    },
  },
  {
    name: 'closes while the broker is unavailable',
    needs: ['cutting links'],
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), ['a'])
      const received = await listener.takeOne('a')
      await world.broker.away()
      received.ack()
      await listener.pause()
      await listener.close()
      await world.broker.back()
    },
  },
  {
    name: 'closes while the connection is silent',
    needs: ['freezing links'],
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAgain(world.destination(), ['a'])
      const received = await listener.takeOne('a')
      await world.broker.freeze()
      received.ack()
      await listener.pause()
      await listener.close()
      await world.broker.thaw()
    },
  },
]
