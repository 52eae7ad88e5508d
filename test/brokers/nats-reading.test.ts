import { type ConsumerConfig, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { type HapaxError, isHapaxError, type Subscription } from 'hapax'
import { type NatsConsumerOptions, type NatsStreamOptions, nats } from 'hapax/nats'
import { describe, expect, it } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, numbered, publish, publishAgain, publishAll } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { HASTY, type NatsPlace, natsPlace, PATIENT, waitingIn } from '../support/nats-place.ts'

/** Longer than a busy machine keeps a reader from saying that it is alive. */
const ACK_WAIT_MS = 20_000

function consumer(place: NatsPlace, options: Partial<NatsConsumerOptions> = {}): Subscription {
  return nats({ url: place.proxy.url, ...PATIENT }).consumer('billing', { stream: place.stream, ...options })
}

async function listen(
  subscription: Subscription,
  prefetch = { messages: 100, bytes: 1e9 },
): Promise<Listener & AsyncDisposable> {
  const listener = await Listener.open(subscription, prefetch)
  return Object.assign(listener, { [Symbol.asyncDispose]: () => listener.close() })
}

/** The stream of the place, made, and messages in it. */
async function filled(place: NatsPlace, ids: readonly string[], options: NatsStreamOptions = {}): Promise<void> {
  const destination = nats({ url: place.proxy.url, ...PATIENT }).stream(place.stream, options)
  await publishAgain(destination, ids)
  await destination.close()
}

function codes(reports: readonly HapaxError[]): string[] {
  return reports.map(({ code }) => code)
}

describe.concurrent('a consumer of NATS', () => {
  it('that is not looked up does not stay with a server that does not reach it', async () => {
    await using place = await natsPlace()
    let links = 0
    await using proxy = await LinkProxy.open(place.proxy.url, () => {
      links += 1
      return { sent() {}, received() {}, ended() {} }
    })
    const js = nats({ url: proxy.url, ...HASTY })
    await using _ = await listen(js.consumer('billing', { stream: place.stream, declare: 'none' }))
    // Each attempt has one to be greeted, and one to stay.
    await until(() => links >= 4, 'another link')
    await until(() => proxy.size <= 2, 'the first to be closed')
  })

  it('is made as it was asked for', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'], { maxAgeMs: 86_400_000 })
    const options = { filter: `${place.prefix}.order.>`, ackWaitMs: 5_000, single: true } as const
    await using listener = await listen(consumer(place, options))
    expect(listener.features).toMatchObject({ ordersKeys: true, marksRedelivered: true })
    const { config } = await place.manager.consumers.info(place.stream, 'billing')
    expect(config).toMatchObject({
      durable_name: 'billing',
      ack_policy: 'explicit',
      ack_wait: 5_000e6,
      deliver_policy: 'all',
      filter_subject: `${place.prefix}.order.>`,
      max_ack_pending: 1,
      max_deliver: -1,
    })
  })

  it('makes its stream as well, if that is declared beside it', async () => {
    await using place = await natsPlace()
    const js = nats({ url: place.proxy.url, ...PATIENT })
    const destination = js.stream(place.stream, { maxAgeMs: 60_000 })
    await using listener = await listen(js.consumer('billing', { stream: place.stream }))
    await publishAll(destination, ['a'])
    await listener.takeOne('a')
    expect((await place.manager.streams.info(place.stream)).config.max_age).toBe(60_000e6)
    await destination.close()
  })

  it('begins with all that the stream has, or with what comes', async () => {
    await using place = await natsPlace()
    await filled(place, ['before'])
    await using all = await listen(consumer(place))
    const js = nats({ url: place.proxy.url, ...PATIENT })
    await using fresh = await listen(js.consumer('stock', { stream: place.stream, deliver: 'new' }))
    await filled(place, ['after'])
    await fresh.takeOne('after')
    await all.takeAllOf(['before', 'after'])
  })

  it('gets only the subjects that it asks for', async () => {
    await using place = await natsPlace()
    await using listener = await listenAfter(place, { filter: `${place.prefix}.b` })
    const destination = nats({ url: place.proxy.url, ...PATIENT }).stream(place.stream)
    await publish(
      destination,
      ['a', 'b', 'c', 'b'].map((type, index) => message(`m${index}`, { type })),
    )
    await listener.take(2)
    expect(listener.ids).toEqual(['m1', 'm3'])
    await destination.close()
  })

  it.each<[string, Partial<ConsumerConfig>, Partial<NatsConsumerOptions>]>([
    ['to be one that is pulled from', { deliver_subject: 'somewhere' }, {}],
    ['ack_policy', { ack_policy: 'all' }, {}],
    ['ack_wait', { ack_wait: 7e9 }, { ackWaitMs: 5_000 }],
    ['max_deliver', { max_deliver: 3 }, { maxDeliver: 5 }],
    ['filter_subject', { filter_subject: 'x' }, { filter: 'y' }],
    ['max_ack_pending', { max_ack_pending: 100 }, { single: true }],
    ['any number of times', { max_ack_pending: 1, max_deliver: 3 }, { single: true }],
  ])('is refused when what is there has another setting: %s', async (what, config, options) => {
    await using place = await natsPlace()
    await place.manager.streams.add({
      name: place.stream,
      subjects: ['x', 'y'].map((each) => `${place.prefix}.${each}`),
    })
    const prefixed = (subject: string | undefined): string | undefined => subject && `${place.prefix}.${subject}`
    const filter_subject = prefixed(config.filter_subject)
    await place.manager.consumers.add(place.stream, {
      durable_name: 'billing',
      ack_policy: 'explicit',
      ...config,
      ...(filter_subject === undefined ? {} : { filter_subject }),
    })
    const filter = prefixed(options.filter)
    const subscription = consumer(place, { ...options, ...(filter === undefined ? {} : { filter }) })
    const opening = listen(subscription)
    await expect(opening).rejects.toMatchObject({ code: 'topology-mismatch' })
    await expect(opening).rejects.toThrow(new RegExp(`^expected consumer billing of ${place.stream} .*${what}`))
  })

  it('with declare check it has to be there, and with none nobody looks', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'])
    await expect(listen(consumer(place, { declare: 'check' }))).rejects.toMatchObject({ code: 'topology-mismatch' })
    await place.manager.consumers.add(place.stream, { durable_name: 'billing', ack_policy: 'explicit' })
    await using checked = await listen(consumer(place, { declare: 'check' }))
    ;(await checked.takeOne('a')).ack()
    await checked.close()
    await filled(place, ['b'])
    await using unseen = await listen(consumer(place, { declare: 'none' }))
    await unseen.takeOne('b')
  })

  it('asks for no more than a consumer allows that somebody else made', async () => {
    await using place = await natsPlace()
    await filled(place, numbered(10))
    const limits = { max_batch: 2, max_bytes: 2_000, max_expires: 1_000e6 }
    await place.manager.consumers.add(place.stream, { durable_name: 'billing', ack_policy: 'explicit', ...limits })
    await using listener = await listen(consumer(place))
    await listener.take(10)
    expect(listener.ids).toEqual(numbered(10))
    expect(listener.reports).toEqual([])
  })

  it.each(['all', 'new'] as const)(
    'waits for a stream that does not exist yet, says so once, and leaves nothing out (%s)',
    async (deliver) => {
      await using place = await natsPlace()
      await using listener = await listen(consumer(place, { deliver }))
      await until(() => listener.reports.length > 0, 'it says that it waits')
      await filled(place, ['a', 'b'])
      await listener.takeAllOf(['a', 'b'])
      expect(listener.reports.map(({ message }) => message)).toEqual([
        `stream ${place.stream} does not exist yet: consumer billing waits for it`,
      ])
    },
  )

  it('waits for its stream and leaves nothing out although the answer to a question about it was lost', async () => {
    await using place = await natsPlace()
    let armed = false
    const lost = Promise.withResolvers<void>()
    await using proxy = await LinkProxy.open(place.proxy.url, () => ({
      sent(chunk) {
        if (!armed || !chunk.includes('$JS.API.')) return
        armed = false
        proxy.cut()
        lost.resolve()
      },
      received() {},
      ended() {},
    }))
    const js = nats({ url: proxy.url, ...PATIENT })
    await using listener = await listen(js.consumer('billing', { stream: place.stream, deliver: 'new' }))
    await until(() => listener.reports.length > 0, 'it says that it waits')
    armed = true
    await lost.promise
    await filled(place, ['a', 'b'])
    await listener.takeAllOf(['a', 'b'])
  })

  it('closes while it waits for its stream, and leaves no link behind', async () => {
    await using place = await natsPlace()
    const listener = await listen(consumer(place))
    await listener.close()
    await until(() => place.proxy.size === 0, 'every link is closed')
  })

  it('is refused where there is no stream and it was told to check', async () => {
    await using place = await natsPlace()
    await expect(listen(consumer(place, { declare: 'check' }))).rejects.toMatchObject({
      code: 'topology-mismatch',
      message: expect.stringMatching(/to exist, got no such stream/),
    })
  })

  it('says for how long the stream keeps messages', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'], { maxAgeMs: 3_600_000 })
    const ignore = { types: 'all', prefetch: { messages: 1, bytes: 1 }, receive: () => {}, report: () => {} } as const
    const reader = await consumer(place).open(ignore)
    expect(reader.horizonMs).toBe(3_600_000)
    await reader.close()
  })

  it('a message in hand longer than the ack time is not given to anybody else, also while it waits to be tried again', async () => {
    await using place = await natsPlace()
    await filled(place, ['a', 'b'])
    await using listener = await listen(consumer(place, { ackWaitMs: ACK_WAIT_MS }))
    await using other = await listen(consumer(place))
    const both = [listener, other]
    await until(() => both.reduce((sum, { received }) => sum + received.length, 0) === 2, 'both messages are in hand')
    const held = both.flatMap(({ received }) => received)
    held[0]?.retry(600_000)
    await deliveredAgain(place, 1)
    expect(both.flatMap(({ ids }) => ids).toSorted()).toEqual(['a', 'b'])
    const { num_redelivered, num_ack_pending } = await place.manager.consumers.info(place.stream, 'billing')
    expect({ num_redelivered, num_ack_pending }).toEqual({ num_redelivered: 0, num_ack_pending: 2 })
    held[1]?.ack()
  })

  it('what arrives while a reader pauses goes to another one at once', async () => {
    await using place = await natsPlace()
    await filled(place, numbered(200))
    const subscription = consumer(place, { ackWaitMs: 600_000 })
    const pausing = Promise.withResolvers<void>()
    const reader = await subscription.open({
      types: 'all',
      prefetch: { messages: 200, bytes: 1e9 },
      receive: (deliveries) => {
        pausing.resolve(reader.pause())
        for (const delivery of deliveries) delivery.retry(0)
      },
      report: () => {},
    })
    await pausing.promise
    await using other = await listen(subscription, { messages: 200, bytes: 1e9 })
    await other.takeAllOf(numbered(200))
    await reader.close()
  })

  it('that is deleted while it is read is reported and made again; what was not acked comes again', async () => {
    await using place = await natsPlace()
    await filled(place, numbered(5))
    await using listener = await listen(consumer(place))
    const received = await listener.take(5)
    received[0]?.ack()
    await until(async () => (await waitingIn(place, 'billing')) === 4, 'the ack has arrived')
    await place.manager.consumers.delete(place.stream, 'billing')
    await listener.came(10)
    expect(listener.ids.slice(5).toSorted()).toEqual(numbered(5))
    expect(codes(listener.reports)).toEqual(['topology-mismatch'])
  })

  it('that began with what came later goes on from there when it was deleted', async () => {
    await using place = await natsPlace()
    await filled(place, ['long ago'])
    await using listener = await listen(consumer(place, { deliver: 'new' }))
    await filled(place, ['a'])
    await listener.takeOne('a')
    await place.manager.consumers.delete(place.stream, 'billing')
    await filled(place, ['b'])
    await listener.came(3)
    expect(listener.ids).toEqual(['a', 'a', 'b'])
  })

  it('F13: an ack from before its stream was made anew does not hit the message that has the same number now', async () => {
    await using place = await natsPlace()
    const js = nats({ url: place.proxy.url, ...PATIENT })
    const destination = js.stream(place.stream)
    // No room for more: the reader does not ask, so the server does not tell it.
    await using listener = await listen(js.consumer('billing', { stream: place.stream }), { messages: 1, bytes: 1e9 })
    await publishAgain(destination, ['old'])
    const old = await listener.takeOne('old')
    await place.manager.streams.delete(place.stream)
    await until(() => listener.reports.length > 0, 'the reader knows that the consumer is gone')
    await publishAgain(destination, ['new'])
    const fresh = await listener.takeOne('new')
    expect(fresh.arrival.properties['seq']).toBe(old.arrival.properties['seq'])
    old.ack()
    await listener.close()
    expect(await waitingIn(place, 'billing')).toBe(1)
    await destination.close()
  })

  it('with declare check it is waited for when it was deleted', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'])
    const made = { durable_name: 'billing', ack_policy: 'explicit' } as const
    await place.manager.consumers.add(place.stream, made)
    await using listener = await listen(consumer(place, { declare: 'check' }))
    await listener.takeOne('a')
    let enquiries = 0
    const enquiry = `"subject":"$JS.API.CONSUMER.INFO.${place.stream}.billing"`
    const count = (text: string): number => (enquiries += text.includes(enquiry) ? 1 : 0)
    place.connection.subscribe('$JS.EVENT.ADVISORY.API', { callback: (_, each) => void count(each.string()) })
    await place.manager.consumers.delete(place.stream, 'billing')
    await until(() => enquiries >= 3, 'it looks again and again')
    await place.manager.consumers.add(place.stream, made)
    await listener.takeOne('a')
    expect(codes(listener.reports)).toEqual(['topology-mismatch'])
  })

  it('a request that the server does not answer is reported and made again', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'])
    // The server of 2.9 says nothing to whoever asks a consumer that is not there.
    const js = nats({ url: place.proxy.url, ...HASTY })
    await using listener = await listen(js.consumer('billing', { stream: place.stream, declare: 'none' }))
    await until(() => listener.reports.length > 0, 'it is reported')
    await place.manager.consumers.add(place.stream, { durable_name: 'billing', ack_policy: 'explicit' })
    await listener.takeOne('a')
    expect(new Set(codes(listener.reports))).toEqual(new Set(['broker-unavailable']))
  })

  it('reads on your own connection, also after that was cut, and leaves it open', async () => {
    await using place = await natsPlace()
    await filled(place, ['a'])
    const connection = await connect({ servers: place.proxy.url, reconnectTimeWait: 10, maxReconnectAttempts: -1 })
    const js = nats({ connection, ...PATIENT })
    const listener = await listen(js.consumer('billing', { stream: place.stream, ackWaitMs: 2_000 }))
    await listener.takeOne('a')
    place.proxy.cut()
    // More often, if this takes longer than the ack time.
    await listener.came(2)
    expect(new Set(listener.ids)).toEqual(new Set(['a']))
    for (const again of listener.received.slice(1)) again.ack()
    await filled(place, ['b'])
    await listener.takeAllOf(['b'])
    expect(codes(listener.reports)).toEqual(['broker-unavailable'])
    await listener.close()
    expect(connection.isClosed()).toBe(false)
    expect((await (await jetstreamManager(connection)).streams.info(place.stream)).state.messages).toBe(2)
    await connection.close()
  })

  it('shows where a message was, for mappings', async () => {
    await using place = await natsPlace()
    await using listener = await listenAfter(place, {})
    const sent = headers()
    sent.append('many', 'one')
    sent.append('many', 'two')
    await place.plain.publish(`${place.prefix}.legacy`, 'text', { msgID: 'order-7', headers: sent })
    const [first] = await listener.take(1)
    first?.reject(1)
    const [again] = await listener.take(1)
    const { properties, headers: others, attributes } = again?.arrival ?? {}
    expect(properties).toEqual({
      subject: `${place.prefix}.legacy`,
      stream: place.stream,
      seq: '1',
      deliveryCount: '2',
      msgId: 'order-7',
    })
    expect({ ...others }).toEqual({ many: 'one, two' })
    expect({ ...attributes }).toEqual({})
    again?.ack()
  })

  it('S3: headers that no client can read do not stop the reader', async () => {
    await using place = await natsPlace()
    await using listener = await listenAfter(place, {})
    const block = 'NATS/1.0\r\nwith space: x\r\n\u0001: y\r\n: z\r\nce-id: a\r\n\r\n'
    await publishRaw(place, `${place.prefix}.bad`, block, 'body')
    await filled(place, ['fine'])
    const [bad, fine] = await listener.take(2)
    expect(Buffer.from(bad?.arrival.body ?? []).toString()).toBe('body')
    expect(fine?.id).toBe('fine')
    expect(listener.reports).toEqual([])
  })
})

/** Waits until the server has delivered a message again so many times to somebody who never answers. */
async function deliveredAgain({ manager, plain, stream }: NatsPlace, times: number): Promise<void> {
  const ack_wait = ACK_WAIT_MS * 1e6
  await manager.consumers.add(stream, { durable_name: 'silent', ack_policy: 'explicit', ack_wait, max_ack_pending: 1 })
  const silent = await plain.consumers.get(stream, 'silent')
  for (let count = 0; count <= times; count++) await silent.next({ expires: 30_000 })
}

async function listenAfter(
  place: NatsPlace,
  options: Partial<NatsConsumerOptions>,
): Promise<Listener & AsyncDisposable> {
  await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
  return listen(consumer(place, options))
}

/** Headers as no client library would write them. */
async function publishRaw(place: NatsPlace, subject: string, block: string, body: string): Promise<void> {
  const bytes = Buffer.from(block)
  const raw = { encode: () => bytes } as unknown as ReturnType<typeof headers>
  place.connection.publish(subject, body, { headers: raw })
  await place.connection.flush()
}

describe('options of NATS', () => {
  const url = 'nats://127.0.0.1:4222'
  const js = nats({ url })

  it.each<[() => unknown, string]>([
    [
      () => nats({ url: 'http://x' }),
      'expected url to be like nats://host:4222 or tls://host:4222, or a list of such, got "http://x"',
    ],
    [() => nats({ url: [] }), 'expected url to be like nats://'],
    [() => nats({ connection: {} as never }), 'expected connection to be a connection of @nats-io/transport-node'],
    [() => nats({ url, heartbeatMs: 0 }), 'expected heartbeatMs to be a positive integer, got 0'],
    [() => nats({ url, host: 'x' } as never), 'expected options of nats to be an object with the options url'],
    [() => js.stream('A.B'), 'expected name to be a name of printable ASCII'],
    [() => js.stream('A', { subjects: [] }), 'expected subjects to be a list of subjects'],
    [() => js.stream('A', { subjects: ['a..b'] }), 'expected subjects to be a list of subjects'],
    [() => js.stream('A', { declare: 'yes' as never }), "expected declare to be 'assert' or 'check' or 'none'"],
    [() => js.consumer('a b', { stream: 'A' }), 'expected name to be a name of printable ASCII'],
    [() => js.consumer('a', {} as never), 'expected stream to be a non-empty'],
    [() => js.consumer('a', { stream: 'A', maxDeliver: 0 }), 'expected maxDeliver to be a positive integer, got 0'],
    [() => js.consumer('a', { stream: 'A', single: true, maxDeliver: 3 }), 'expected maxDeliver to be absent'],
  ])('refuses what cannot be meant (%#)', (make, words) => {
    expect(make).toThrow(words)
  })

  it('shows what would be made, without asking the server', () => {
    const shop = nats({ url })
    shop.stream('SHOP', { maxAgeMs: 86_400_000, replicas: 3 })
    shop.consumer('billing', { stream: 'SHOP', maxDeliver: 5 })
    shop.consumer('stock', { stream: 'SHOP', filter: 'shop.order.>', single: true, declare: 'check' })
    expect(shop.topology()).toEqual([
      'stream SHOP: shop.>; file, 3 replicas, kept for 86400000 ms (assert)',
      'consumer billing of SHOP: all subjects, all; ack within 30000 ms, at most 5 deliveries (assert)',
      'consumer stock of SHOP: shop.order.>, all; ack within 30000 ms, any number of deliveries, one message at a time (check)',
      'stream HAPAX_GIVEN_UP_SHOP_billing: what billing gave up after 5 deliveries, until it is stored (assert)',
    ])
  })

  it('says which server it cannot reach, without the password', async () => {
    const gone = nats({ url: 'nats://shop:secret@127.0.0.1:1', ...PATIENT })
    const opening = gone
      .consumer('a', { stream: 'A' })
      .open({ types: 'all', prefetch: { messages: 1, bytes: 1 }, receive: () => {}, report: () => {} })
    const error = await opening.then(
      () => undefined,
      (thrown: Error) => thrown,
    )
    expect(isHapaxError(error, 'broker-unavailable')).toBe(true)
    expect(error?.message).not.toContain('secret')
  })
})
