import assert from 'node:assert/strict'
import { isHapaxError } from '../../base/index.ts'
import type { Delivery } from '../../contracts/index.ts'
import { gate, until } from '../wait.ts'
import type { Case } from './case.ts'
import { HurriedClock, outage, twice, watchedBy } from './shop.ts'
import { assertSame, numbered, publishAll } from './world.ts'

const AT_ONCE = { attempts: 1_000_000, minDelayMs: 5, maxDelayMs: 5 }

const thereAndBack: readonly Case[] = [
  {
    name: 'D29: from the outbox to the effect, once, although every message is sent twice',
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const consumer = shop.consumer()
      const worker = await shop.work({ relay: twice(world.destination()), consume: [consumer.from(subscription)] })
      await shop.publish(numbered(30))
      await shop.untilEffects(numbered(30))
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await worker.drain()
      shop.assertEffects(numbered(30))
      assert.deepEqual(
        (await shop.hapax.status()).relays.map(({ waiting }) => waiting),
        [0],
      )
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
  {
    name: 'from the outbox to the effect, once, through cuts',
    needs: ['cutting links'],
    awaitsReturn: true,
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const ids = numbered(100)
      await shop.publish(ids)
      const worker = await shop.work({ relay: world.destination(), consume: [shop.consumer().from(subscription)] })
      for (const count of [1, 30, 60]) {
        await until(() => shop.effects.length >= count, `${count} effects`)
        await world.broker.cut()
      }
      await shop.untilEffects(ids)
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await worker.drain()
      shop.assertEffects(ids)
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
  {
    name: 'D14: a message that the broker refuses ends in the failed store; the others are sent',
    needs: ['too large'],
    run: async (world) => {
      const { largestBytes } = world.broker
      const shop = world.shop({ maxMessageBytes: 2 * largestBytes })
      const subscription = await world.broker.subscription('billing')
      await shop.work({ relay: world.destination(), consume: [shop.consumer().from(subscription)] })
      await shop.publish(['a'])
      await shop.publish(['large'], {}, { pad: 'x'.repeat(largestBytes) })
      await shop.publish(['b'])
      await shop.untilEffects(['a', 'b'])
      const [failed] = await shop.failed(1)
      assert.equal(failed?.message.id, 'large')
      assert.equal(failed.reason, 'refused-by-broker')
    },
  },
  {
    name: 'D8: an unroutable message stays in the outbox with the reason; the others are sent',
    needs: ['unroutable'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const relays = { default: world.destination(), nowhere: world.destination({ unroutable: true }) }
      await shop.work({ relays, consume: [shop.consumer().from(subscription)] })
      await shop.publish(['lost'], { relay: 'nowhere' })
      await shop.publish(['a'])
      await shop.untilEffects(['a'])
      await until(async () => {
        const [trace] = await shop.hapax.explain('lost')
        return trace?.where === 'outbox' && trace.error?.code === 'unroutable'
      }, 'the outbox says that the message is unroutable')
    },
  },
]

const foreign: readonly Case[] = [
  {
    name: 'C5: what cannot be decoded ends in the failed store with its bytes, and is acked',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [shop.consumer().from(subscription)] })
      for (const body of UNDECODABLE) await world.broker.send({ body, contentType: 'application/cloudevents+json' })
      const batch = Buffer.from('[]')
      await world.broker.send({ body: batch, contentType: 'application/cloudevents-batch+json' })
      const failed = await shop.failed(UNDECODABLE.length + 1)
      for (const { reason } of failed) assert.equal(reason, 'undecodable')
      assertSame(
        failed.map(({ message }) => Buffer.from(message.data).toString('hex')),
        [...UNDECODABLE, batch].map((body) => body.toString('hex')),
      )
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await publishAll(world.destination(), ['a'])
      await shop.untilEffects(['a'])
    },
  },
  {
    name: 'a message without id, source or type ends in the failed store with an error that says what to set',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const consumer = shop.consumer()
      const subscription = await world.broker.subscription('billing')
      const attributes = { specversion: '1.0', id: 'a', source: '/sender', type: 'ping' }
      await shop.work({ consume: [consumer.from(subscription)] })
      for (const absent of ['id', 'source', 'type'] as const) {
        const { [absent]: _, ...others } = attributes
        const body = Buffer.from(JSON.stringify({ without: absent }))
        await world.broker.send({ body, contentType: 'application/json', attributes: others })
      }
      for (const { message, error } of await shop.failed(3)) {
        const { without } = JSON.parse(Buffer.from(message.data).toString())
        assert.match(error.message, new RegExp(`came without an? ${without}: .*'${without}' in \\.from\\(\\)`))
      }
      if (world.can('counting')) await world.untilNothingWaits('billing')
    },
  },
  {
    name: 'a message of a third-party sender is handled if .from() maps it',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const seen: unknown[] = []
      const consumer = shop.consumer({}, ({ message }) => {
        const { id, source, type, key, data } = message
        seen.push({ id, source, type, key, data })
      })
      const subscription = await world.broker.subscription('billing')
      const mapping = { id: { header: 'Order-Id' }, type: 'ping', source: '/legacy', key: { path: 'customer.0' } }
      await shop.work({ consume: [consumer.from(subscription, mapping)] })
      const body = { customer: [7] }
      for (let time = 0; time < 2; time++) {
        await world.broker.send({
          body: Buffer.from(JSON.stringify(body)),
          contentType: 'application/json',
          headers: { 'order-id': 'x1' },
        })
      }
      await shop.untilEffects(['x1'])
      if (world.can('counting')) await world.untilNothingWaits('billing')
      assert.deepEqual(seen, [{ id: 'x1', source: '/legacy', type: 'ping', key: '7', data: body }])
      shop.assertEffects(['x1'])
    },
  },
]

const failing: readonly Case[] = [
  {
    name: 'C6: a handler that fails is retried from the inbox, while nothing waits in the broker',
    needs: ['counting'],
    run: async (world) => {
      const shop = world.shop()
      let broken = true
      const consumer = shop.consumer({ retry: AT_ONCE }, () => {
        if (broken) throw new Error('not yet')
      })
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [consumer.from(subscription)] })
      await publishAll(world.destination(), ['a'])
      await world.untilNothingWaits('billing')
      await until(() => shop.calls.length >= 3, 'the handler is called again and again')
      assert.deepEqual(
        (await shop.hapax.status()).consumers.map(({ retrying }) => retrying),
        [1],
      )
      broken = false
      await shop.untilEffects(['a'])
      shop.assertEffects(['a'])
    },
  },
  {
    name: 'a handler whose errors are left to the broker gets the message again, and the broker may count that',
    run: async (world) => {
      const shop = world.shop()
      const consumer = shop.consumer({ onError: 'rollback' }, () => {
        if (shop.calls.length < 3) throw new Error('not yet')
      })
      let rejects = 0
      const watched = watchedBy(await world.broker.subscription('billing'), (delivery) => ({
        ...answersOf(delivery),
        reject: () => {
          rejects += 1
          delivery.reject(1)
        },
      }))
      await shop.work({ consume: [consumer.from(watched)] })
      await publishAll(world.destination(), ['a'])
      await shop.untilEffects(['a'])
      assert.deepEqual(shop.calls, ['a', 'a', 'a'])
      assert.equal(rejects, 2)
      shop.assertEffects(['a'])
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
  {
    name: 'A25: the database is unavailable thirty times in a row: nothing is lost, and everything takes effect once',
    run: async (world) => {
      const clock = new HurriedClock()
      const rows = world.openStore()
      const down = outage(rows, 60)
      const shop = world.shop({ rows, store: down.store, clock })
      const subscription = await world.broker.subscription('billing')
      let retries = 0
      const hurried = watchedBy(subscription, (delivery) => ({
        ...answersOf(delivery),
        retry: () => {
          retries += 1
          delivery.retry(1)
        },
        reject: () => assert.fail('a rejection would count as a delivery attempt'),
      }))
      const consumer = shop.consumer({ timeoutMs: 1e9, lockTimeoutMs: 1e9 })
      await shop.work({ takeoverMs: 1e9, consume: [consumer.from(hurried)] })
      clock.speed = 10_000
      await publishAll(world.destination(), numbered(5))
      await until(() => down.left === 0, 'the database is back')
      clock.speed = 1
      await shop.untilEffects(numbered(5))
      if (world.can('counting')) await world.untilNothingWaits('billing')
      shop.assertEffects(numbered(5))
      assert.ok(retries >= 30, `${retries} retries`)
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
]

const stopping: readonly Case[] = [
  {
    name: 'a worker that stops gives back what it has not begun',
    needs: ['sharing'],
    run: async (world) => {
      const shop = world.shop()
      const running = gate()
      const begun = gate()
      const consumer = shop.consumer({ concurrency: 1 }, async () => {
        begun.open()
        await running.passed
      })
      const subscription = await world.broker.subscription('billing')
      const worker = await shop.work({ consume: [consumer.from(subscription, { prefetch: 20 })] })
      await publishAll(world.destination(), numbered(10))
      await begun.passed
      const stopped = worker.stop()
      const listener = await world.listen('billing')
      const others = await listener.take(9)
      running.open()
      await stopped
      for (const received of others) received.ack()
      assertSame([...shop.effects, ...listener.ids], numbered(10))
      await listener.close()
      const next = await world.listen('billing')
      await publishAll(world.destination(), ['last'])
      await next.takeOne('last')
    },
  },
  {
    name: 'workers that start and stop while messages come lose none and double none',
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const consumer = shop.consumer()
      const sending = publishAll(world.destination(), numbered(100))
      for (let time = 1; time <= 3; time++) {
        const worker = await shop.work({ consume: [consumer.from(subscription, { prefetch: 10 })] })
        await until(() => shop.effects.length >= time * 20, `${time * 20} effects`)
        await worker.stop()
      }
      await sending
      await shop.work({ consume: [consumer.from(subscription)] })
      await shop.untilEffects(numbered(100))
      if (world.can('counting')) await world.untilNothingWaits('billing')
      shop.assertEffects(numbered(100))
    },
  },
]

const ordered: readonly Case[] = [
  {
    name: 'E1: a consumer that wants order is refused unless the subscription keeps the order of keys',
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const consumer = shop.consumer({ order: 'wait' })
      const starting = shop.work({ consume: [consumer.from(subscription)] })
      if (subscription.features.ordersKeys) await starting
      else await assert.rejects(starting, (error) => isHapaxError(error, 'order-impossible'))
    },
  },
  {
    name: 'E1: with a single reader messages take effect in the order in which they were sent',
    needs: ['single reader'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing', { single: true })
      const consumer = shop.consumer({ order: 'wait', retry: AT_ONCE }, ({ attempt, message }) => {
        if (message.id.endsWith('3') && attempt === 1) throw new Error('not yet')
      })
      await shop.work({ relay: world.destination(), consume: [consumer.from(subscription)] })
      await shop.publish(numbered(20), { key: 'one' })
      await shop.untilEffects(numbered(20))
      assert.deepEqual(shop.effects, numbered(20))
    },
  },
  {
    name: 'E2: the order survives cuts and the replacement of the worker',
    needs: ['single reader', 'cutting links'],
    awaitsReturn: true,
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing', { single: true })
      const consumer = shop.consumer({ order: 'wait', retry: AT_ONCE })
      const consume = [consumer.from(subscription, { prefetch: 10 })]
      await shop.publish(numbered(60), { key: 'one' })
      const relay = await shop.work({ relay: world.destination() })
      const first = await shop.work({ consume })
      await until(() => shop.effects.length >= 15, '15 effects')
      await world.broker.cut()
      await until(() => shop.effects.length >= 30, '30 effects')
      await Promise.all([first.stop(), shop.work({ consume })])
      await shop.untilEffects(numbered(60))
      assert.deepEqual(shop.effects, numbered(60))
      await relay.stop()
    },
  },
]

export const handling: readonly Case[] = [...thereAndBack, ...foreign, ...failing, ...stopping, ...ordered]

/** Bodies that are said to be CloudEvents. */
const UNDECODABLE = [
  '{"id":',
  '7',
  '{"specversion":"0.3","id":"a","source":"/sender","type":"ping"}',
  '{"specversion":"1.0","id":"a","source":"/sender","type":"ping","data_base64":"!"}',
  '{"specversion":"1.0","id":"a","source":"/sender","type":"ping","data":{"__proto__":{"polluted":true}}}',
  `{"specversion":"1.0","id":"a","source":"/sender","type":"ping","data":${'['.repeat(500)}${']'.repeat(500)}}`,
].map((text) => Buffer.from(text))

/** No UTF-8. */
UNDECODABLE.push(Buffer.from([0x7b, 0xff, 0x7d]))

function answersOf(delivery: Delivery): Delivery {
  const { arrival, bytes } = delivery
  return {
    arrival,
    bytes,
    ack: () => delivery.ack(),
    retry: (delayMs) => delivery.retry(delayMs),
    reject: (delayMs) => delivery.reject(delayMs),
  }
}
