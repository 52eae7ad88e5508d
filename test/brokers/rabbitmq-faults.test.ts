import { createHapax, defineMessage, type HapaxError, type Subscription, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { numbered } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { Child } from '../support/child.ts'
import { countEffects, insertEffect, makePlace, openStore } from '../support/databases.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { testStores } from '../support/servers.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const Ping = defineMessage<{ id: string }>('ping')

/** The same subscription, which counts how often deliveries are put back, and does not wait long with it. */
function counted(subscription: Subscription) {
  const retried = new Map<string, number>()
  const open: Subscription['open'] = ({ receive, ...options }) =>
    subscription.open({
      ...options,
      receive: (deliveries) =>
        receive(
          deliveries.map((delivery) => ({
            arrival: delivery.arrival,
            bytes: delivery.bytes,
            ack: () => delivery.ack(),
            reject: (delayMs) => delivery.reject(delayMs),
            retry: () => {
              const id = String(delivery.arrival.attributes['id'])
              retried.set(id, (retried.get(id) ?? 0) + 1)
              delivery.retry(20)
            },
          })),
        ),
    })
  return { retried, subscription: { name: subscription.name, features: subscription.features, open } }
}

function closing(hapax: { close(): Promise<void> }): AsyncDisposable {
  return { [Symbol.asyncDispose]: () => hapax.close() }
}

/** A message as a sender that is not hapax sends it. */
function plain(id: string, source = '/shop') {
  const attributes = { specversion: '1.0', id, source, type: 'ping' }
  return { body: Buffer.from(JSON.stringify({ id })), contentType: 'application/json', attributes }
}

const withoutPostgres = testStores().includes('postgres') ? undefined : 'HAPAX_TEST_STORES leaves PostgreSQL out'

describe.skipIf(withoutPostgres)('the database', () => {
  it('C6 A25: thirty outages in a row take no message to the limit of its deliveries', async () => {
    await using place = await RabbitmqPlace.open()
    await using checker = await makePlace('postgres')
    await using database = await TcpProxy.open('postgres', checker.place.url)
    const deadLetterExchange = `${place.exchange}-dead`
    await place.channel.assertExchange(deadLetterExchange, 'fanout')
    await place.declare('dead', { 'x-queue-type': 'quorum' }, 'unused')
    await place.channel.bindQueue(place.queue('dead'), deadLetterExchange, '')
    const bind = { exchange: place.exchange, routingKey: '#' }
    const options = { bind, deliveryLimit: 2, deadLetterExchange }
    const { retried, subscription } = counted(place.rabbit.queue(place.queue('billing'), options))
    const store = await openStore(checker.place, { url: database.url })
    const hapax = createHapax({ store, source: '/billing', logger: silentLogger })
    // Not by the log, which is bounded.
    let errors = 0
    const count = (): void => {
      errors += 1
    }
    hapax.events.on('worker-error', count)
    hapax.events.on('rolled-back', count)
    await using _hapax = closing(hapax)
    const billing = hapax.consumer('billing', { concurrency: 3 }).on(Ping, async ({ id }, { tx }) => {
      await tx.query(insertEffect(checker.place, 'billing', id))
    })
    const worker = hapax.worker({ consume: [billing.from(subscription)] })
    await worker.start()
    const effects = new Set<string>()
    const seen = async (id: string): Promise<boolean> => {
      for (const key of (await countEffects(checker)).keys()) effects.add(key)
      return effects.has(`billing ${id}`)
    }
    for (const id of numbered(30)) {
      await database.refuse()
      const before = errors
      await place.send(plain(id))
      // It is in hand, and the database was asked for in vain; or the worker had noticed before, and has stopped reading.
      const isThere = async (): Promise<boolean> =>
        place.tap.unacked(place.queue('billing')) === 1 || (await place.ready('billing')) === 1
      await until(
        async () => errors > before && (await isThere()),
        () => `the outage is noticed while ${id} is there`,
      )
      await database.accept()
      await until(() => seen(id), `${id} has taken effect`)
      // The effect is there before the worker knows: an outage in between would leave two in hand.
      await until(() => place.tap.unacked(place.queue('billing')) === 0, `${id} is acked`)
    }
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(await countEffects(checker)).toEqual(new Map(numbered(30).map((id) => [`billing ${id}`, 1])))
    expect(retried.size).toBeGreaterThan(0)
    expect(place.tap.returned).toBe(0)
    expect(await place.ready('dead')).toBe(0)
    await worker.stop()
    await place.channel.deleteQueue(place.queue('billing'))
    await place.channel.deleteExchange(deadLetterExchange)
  })
})

describe('links', () => {
  it('D29: a thousand messages, a fifth of them twice, take effect once each through cuts on both sides', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    const store = memory()
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    await using _hapax = closing(hapax)
    const billing = hapax.consumer('billing', { group: { size: 20 } }).on(Ping, ({ id }, { tx }) => {
      tx.insert('effects', { id })
    })
    const ids = numbered(1_000)
    await hapax.transaction((tx) =>
      hapax.publishMany(
        tx,
        ids.map((id) => Ping.of({ id }, { id })),
      ),
    )
    const worker = hapax.worker({ relay: place.destination(), consume: [billing.from(subscription)], pollMs: 20 })
    await worker.start()
    const effects = (): readonly string[] => store.rows('effects').map((row) => (row as { id: string }).id)
    for (const [time, part] of Array.from({ length: 10 }, (_, index) =>
      ids.slice(index * 20, index * 20 + 20),
    ).entries()) {
      await until(
        () => effects().length >= time * 95,
        () => `${time * 95} effects; there are ${effects().length}`,
      )
      await place.cut()
      for (const id of part) await place.send(plain(id))
    }
    await until(
      () => new Set(effects()).size === 1_000,
      () => `1000 effects; there are ${new Set(effects()).size}`,
    )
    await worker.drain()
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect([...effects()].sort()).toEqual([...ids].sort())
    expect(await hapax.failed.count()).toBe(0)
    const { relays } = await hapax.status()
    expect(relays.map(({ waiting }) => waiting)).toEqual([0])
    await worker.stop()
  })

  it('groups are acked with few frames', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    const store = memory()
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    await using _hapax = closing(hapax)
    // How many messages a group has depends on how fast the server delivers; how many frames a group takes does not. One at a time:
    // what ends before an earlier group is acked one by one.
    let groups = 0
    const billing = hapax
      .consumer('billing', { concurrency: 1, group: { size: 100 } })
      .onMany(Ping, (items, { tx }) => {
        groups += 1
        for (const { data } of items) tx.insert('effects', { id: data.id })
      })
    const ids = numbered(2_000)
    await Promise.all(ids.map((id) => place.send(plain(id))))
    await until(async () => (await place.ready('billing')) === 2_000, 'everything is there')
    const worker = hapax.worker({ consume: [billing.from(subscription)] })
    await worker.start()
    await until(() => store.rows('effects').length >= 2_000, '2000 effects')
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(store.rows('effects')).toHaveLength(2_000)
    const { single, multiple } = place.tap.acks
    expect(single + multiple).toBeLessThanOrEqual(groups)
    await worker.stop()
  })
})

describe('topology', () => {
  it('an exchange that is deleted beside a healthy reader keeps messages in the outbox until its binding is back', async () => {
    await using place = await RabbitmqPlace.open()
    const store = memory()
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    await using _hapax = closing(hapax)
    const billing = hapax.consumer('billing').on(Ping, ({ id }, { tx }) => {
      tx.insert('effects', { id })
    })
    const effects = (): readonly string[] => store.rows('effects').map((row) => (row as { id: string }).id)
    const publish = (id: string) => hapax.transaction((tx) => hapax.publish(tx, Ping, { id }, { id }))
    const reading = () => hapax.worker({ consume: [billing.from(billingQueue)] })
    const billingQueue = await place.subscription('billing')
    const relay = hapax.worker({ relay: place.destination(), pollMs: 20 })
    const reader = reading()
    await Promise.all([relay.start(), reader.start()])
    await publish('before')
    await until(() => effects().includes('before'), 'the first one has taken effect')

    const retried: unknown[] = []
    hapax.events.on('relay-retrying', ({ message, error }) => retried.push([message.id, (error as HapaxError).code]))
    await place.channel.deleteExchange(place.exchange)
    await publish('after')
    // The relay has declared the exchange again. Nobody but a reader knows what was bound to it.
    await until(() => retried.length >= 2, 'it was tried again')
    expect(retried).toContainEqual(['after', 'unroutable'])
    const [row] = (await hapax.status()).relays
    expect(row).toMatchObject({ waiting: 1, failed: 0 })
    expect(effects()).toEqual(['before'])

    await reader.stop()
    const restarted = reading()
    await restarted.start()
    await until(() => effects().includes('after'), 'the second one has taken effect')
    expect(await hapax.failed.count()).toBe(0)
    await Promise.all([relay.stop(), restarted.stop()])
  })
})

describe.concurrent('processes', () => {
  it.for(['there', 'away', 'silent', 'silent for long'] as const)(
    'H9: a process ends by itself when everything is closed, and the server is %s',
    async (how) => {
      await using place = await RabbitmqPlace.open()
      await place.subscription('billing')
      const { exchange, proxy } = place
      const program = new URL('rabbitmq-child.ts', import.meta.url)
      const child = new Child(program, { url: proxy.url, exchange, queue: place.queue('billing') }, 45_000)
      await child.next()
      if (how === 'away') await place.away()
      if (how.startsWith('silent')) await place.freeze()
      child.tell({ afterLoss: how === 'silent for long' })
      expect(await child.ended).toEqual({ code: 0, signal: null, errors: '' })
    },
  )
})

describe('order', () => {
  it('E1: a consumer that wants order is refused on a queue that several may read', async () => {
    await using place = await RabbitmqPlace.open()
    const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
    await using _hapax = closing(hapax)
    const billing = hapax.consumer('billing', { order: 'wait' }).on(Ping, () => {})
    const worker = hapax.worker({ consume: [billing.from(await place.subscription('billing'))] })
    await expect(worker.start()).rejects.toMatchObject({ code: 'order-impossible' })
  })

  it('E2: order holds while single readers come and go, and are cut off', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing', { single: true })
    const store = memory()
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    await using _hapax = closing(hapax)
    const billing = hapax.consumer('billing', { order: 'wait' }).on(Ping, ({ id }, { tx }) => {
      tx.insert('effects', { id })
    })
    const Keyed = defineMessage<{ id: string }>('ping', { key: ({ id }) => `key ${Number(id.slice(1)) % 3}` })
    const ids = numbered(300)
    await hapax.transaction((tx) =>
      hapax.publishMany(
        tx,
        ids.map((id) => Keyed.of({ id }, { id })),
      ),
    )
    const relay = hapax.worker({ relay: place.destination(), pollMs: 20 })
    await relay.start()
    const effects = (): readonly string[] => store.rows('effects').map((row) => (row as { id: string }).id)
    const reading = () => hapax.worker({ consume: [billing.from(subscription, { prefetch: 15 })], pollMs: 20 })
    let worker = reading()
    await worker.start()
    for (const [time, count] of [30, 70, 110, 150, 190, 230].entries()) {
      await until(
        () => effects().length >= count,
        () => `${count} effects; there are ${effects().length}`,
      )
      if (time % 2 === 0) await place.cut()
      else {
        const next = reading()
        await Promise.all([worker.stop(), next.start()])
        worker = next
      }
    }
    await until(
      () => effects().length >= 300,
      () => `300 effects; there are ${effects().length}`,
    )
    for (const key of [0, 1, 2]) {
      const ofKey = (each: readonly string[]) => each.filter((id) => Number(id.slice(1)) % 3 === key)
      expect(ofKey(effects())).toEqual(ofKey(ids))
    }
    await Promise.all([relay.stop(), worker.stop()])
  })
})
