import assert from 'node:assert/strict'
import { isHapaxError } from '../../base/index.ts'
import type { Confirmation, Destination } from '../../contracts/index.ts'
import { promised } from '../promised.ts'
import { settled } from '../wait.ts'
import type { Case } from './case.ts'
import {
  assertConfirmed,
  assertSame,
  assertStatuses,
  message,
  messages,
  numbered,
  publish,
  publishAgain,
  publishAll,
} from './world.ts'

export const publishing: readonly Case[] = [
  {
    name: 'confirms each message of a batch, and keeps their order',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), numbered(50))
      await listener.take(50)
      assert.deepEqual(listener.ids, numbered(50))
    },
  },
  {
    name: 'keeps the order of batches that follow each other without waiting',
    run: async (world) => {
      const listener = await world.listen('billing')
      const destination = world.destination()
      const sent = [0, 1, 2, 3].map((batch) => publish(destination, messages(numbered(10, `${batch}.`))))
      for (const confirmations of await Promise.all(sent)) assertConfirmed(confirmations)
      await listener.take(40)
      assert.deepEqual(
        listener.ids,
        [0, 1, 2, 3].flatMap((batch) => numbered(10, `${batch}.`)),
      )
    },
  },
  {
    name: 'confirms a thousand messages at once',
    run: async (world) => {
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      await publishAll(world.destination(), numbered(1_000))
      await listener.take(1_000)
      assertSame(listener.ids, numbered(1_000))
    },
  },
  {
    name: 'D13: confirms each of several messages with the same id',
    run: async (world) => {
      const listener = await world.listen('billing')
      assertConfirmed(await publish(world.destination(), messages(['a', 'a', 'b', 'a'])))
      await listener.takeAllOf(['a', 'b'])
    },
  },
  {
    name: 'returns no confirmations for no messages',
    run: async (world) => {
      assert.deepEqual(await publish(world.destination(), []), [])
    },
  },
  {
    name: 'D8 D13: an unroutable message fails; its neighbours are confirmed',
    needs: ['unroutable'],
    run: async (world) => {
      const listener = await world.listen('billing')
      const destination = world.destination()
      const nowhere = world.destination({ unroutable: true })
      const sent: Promise<readonly Confirmation[]>[] = []
      for (const id of numbered(10)) {
        sent.push(publish(destination, [message(id)]), publish(nowhere, [message(`lost ${id}`)]))
      }
      const all = (await Promise.all(sent)).flat()
      assertConfirmed(all.filter((_, index) => index % 2 === 0))
      for (const each of all.filter((_, index) => index % 2 === 1)) assertUnroutable(each)
      await listener.take(10)
      assertSame(listener.ids, numbered(10))
    },
  },
  {
    name: 'D14: a message that is too large is refused for good; its neighbours are confirmed',
    needs: ['too large'],
    run: async (world) => {
      const listener = await world.listen('billing')
      const destination = world.destination()
      const large = message('large', {
        // Of another key: where a batch keeps its order, nothing of its key may pass it.
        key: 'two',
        data: Buffer.alloc(world.broker.largestBytes, 'x'),
        datacontenttype: 'text/plain',
      })
      const sent = await publish(destination, [message('a'), large, message('b')])
      assertStatuses(sent, ['confirmed', 'refused', 'confirmed'])
      await publishAll(destination, ['c'])
      await listener.take(3)
      assertSame(listener.ids, ['a', 'b', 'c'])
    },
  },
  {
    name: 'D14 D15: where a batch keeps its order, nothing of a key is confirmed behind a message that was refused',
    needs: ['too large'],
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      const data = Buffer.alloc(world.broker.largestBytes, 'x')
      const large = message('large', { data, datacontenttype: 'text/plain' })
      const [before, refused, behind] = await publish(destination, [message('a'), large, message('b')])
      assert.equal(before?.status, 'confirmed')
      assert.equal(refused?.status, 'refused')
      // Otherwise the relay sends the messages of a key one after the other.
      if (destination.features.keepsOrder) assert.notEqual(behind?.status, 'confirmed')
      else assert.equal(behind?.status, 'confirmed')
    },
  },
  {
    name: 'prepares itself while the broker is unavailable',
    needs: ['cutting links'],
    run: async (world) => {
      await world.group('billing')
      await world.broker.away()
      const destination = world.destination()
      await destination.prepare()
      await world.broker.back()
      await publishAgain(destination, ['a'])
      const listener = await world.listen('billing')
      await listener.takeAllOf(['a'])
    },
  },
  {
    name: 'settles as unavailable while the broker is unavailable, and sends again when it is back',
    needs: ['cutting links'],
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      await publishAll(destination, ['before'])
      await world.broker.away()
      assertStatuses(await publish(destination, messages(['a', 'b'])), ['unavailable', 'unavailable'])
      await world.broker.back()
      await publishAgain(destination, ['after'])
      const listener = await world.listen('billing')
      await listener.takeAllOf(['before', 'after'])
    },
  },
  {
    name: 'settles as unavailable when the broker was never there, and sends when it comes',
    needs: ['cutting links'],
    run: async (world) => {
      await world.group('billing')
      await world.broker.away()
      const destination = world.destination()
      assertStatuses(await publish(destination, messages(['a'])), ['unavailable'])
      await world.broker.back()
      await publishAgain(destination, ['b'])
      const listener = await world.listen('billing')
      await listener.takeAllOf(['b'])
    },
  },
  {
    name: 'D9: a cut in the middle of a thousand messages settles every promise, and what was confirmed arrives',
    needs: ['cutting links'],
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      const ids = numbered(1_000)
      const sent = inBatches(destination, ids)
      await Promise.race(sent)
      await world.broker.cut()
      const confirmations = await settled(Promise.all(sent), 'every message has settled')
      for (const { status } of confirmations) assert.ok(status === 'confirmed' || status === 'unavailable', status)
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      await listener.takeAllOf(ids.filter((_, index) => confirmations[index]?.status === 'confirmed'))
      await publishAgain(
        destination,
        ids.filter((_, index) => confirmations[index]?.status !== 'confirmed'),
      )
      await listener.takeAllOf(ids)
    },
  },
  {
    name: 'settles as unavailable when the signal is aborted already',
    run: async (world) => {
      const destination = world.destination()
      assertStatuses(await publish(destination, messages(['a', 'b']), AbortSignal.abort()), [
        'unavailable',
        'unavailable',
      ])
      const listener = await world.listen('billing')
      await publishAll(destination, ['c'])
      await listener.takeAllOf(['c'])
    },
  },
  {
    name: 'D30: on a silent link, settles as unavailable at the latest with the signal, and sends again afterwards',
    needs: ['freezing links'],
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      await publishAgain(destination, ['before'])
      await world.broker.freeze()
      const limit = new AbortController()
      let sent: readonly Confirmation[] = []
      void Promise.all(promised(destination, messages(numbered(20)), limit.signal)).then((all) => {
        sent = all
      })
      await turns()
      limit.abort()
      // At once: not when a heartbeat is missed, seconds later.
      await turns()
      assertStatuses(
        sent,
        numbered(20).map(() => 'unavailable'),
      )
      await world.broker.thaw()
      await publishAgain(destination, ['after'])
      const listener = await world.listen('billing')
      await listener.takeAllOf(['before', 'after'])
    },
  },
  {
    name: 'D30: a silent link does not keep a destination from closing',
    needs: ['freezing links'],
    run: async (world) => {
      const destination = world.destination()
      const listener = await world.listen('billing')
      await publishAgain(destination, ['before'])
      await world.broker.freeze()
      const sent = promised(destination, messages(['a']))
      await settled(destination.close(), 'the destination is closed')
      await settled(Promise.all(sent), 'what was under way has settled')
      await listener.close()
      await world.broker.thaw()
    },
  },
  {
    name: 'what is in progress settles when the destination is closed',
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      const ids = numbered(100)
      const sent = promised(destination, messages(ids))
      await settled(destination.close(), 'the destination is closed')
      const confirmations = await settled(Promise.all(sent), 'every message has settled')
      const listener = await world.listen('billing')
      await listener.takeAllOf(ids.filter((_, index) => confirmations[index]?.status === 'confirmed'))
    },
  },
  {
    name: 'closes twice; what is published afterwards settles as unavailable',
    run: async (world) => {
      await world.group('billing')
      const destination = world.destination()
      await publishAll(destination, ['a'])
      await Promise.all([destination.close(), destination.close()])
      await destination.close()
      assertStatuses(await publish(destination, messages(['b', 'c'])), ['unavailable', 'unavailable'])
    },
  },
  {
    name: 'closes without having published',
    run: async (world) => {
      await settled(world.destination().close(), 'the destination is closed')
    },
  },
  {
    name: 'a destination that is closed does not disturb another one',
    run: async (world) => {
      const listener = await world.listen('billing')
      const [first, second] = [world.destination(), world.destination()]
      await publishAll(first, ['a'])
      await publishAll(second, ['b'])
      await first.close()
      await publishAll(second, ['c'])
      await listener.takeAllOf(['a', 'b', 'c'])
    },
  },
  {
    name: 'calls the same place by the same name',
    run: async (world) => {
      const { name } = world.destination()
      assert.equal(world.destination().name, name)
      assert.notEqual(name, '')
      const subscription = await world.broker.subscription('billing')
      assert.equal((await world.broker.subscription('billing')).name, subscription.name)
      assert.notEqual((await world.broker.subscription('stock')).name, subscription.name)
    },
  },
]

/** Lets everything run that does not wait for I/O. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}

function assertUnroutable(confirmation: Confirmation): void {
  assert.equal(confirmation.status, 'failed')
  assert.ok(isHapaxError(confirmation.error, 'unroutable'), confirmation.error.message)
}

/** Sends in small batches, one right after the other, so that some are on their way while others are confirmed. */
function inBatches(destination: Destination, ids: readonly string[]): readonly Promise<Confirmation>[] {
  const sent: Promise<Confirmation>[] = []
  for (let at = 0; at < ids.length; at += 50) sent.push(...promised(destination, messages(ids.slice(at, at + 50))))
  return sent
}
