import type { GetMessage } from 'amqplib'
import { type CloudEvent, HTTP, CloudEvent as SdkEvent } from 'cloudevents'
import { createHapax, defineMessage, type Message, type SourceOptions, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, publish } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'

const Order = defineMessage<{ total: number }>('order.placed')

/** What a consumer makes of messages that somebody else sends. */
async function handled(place: RabbitmqPlace, mapping: SourceOptions, send: () => Promise<void>, count = 1) {
  const seen: Message[] = []
  const hapax = createHapax({ store: memory(), source: '/billing', logger: silentLogger })
  const billing = hapax.consumer('billing').on(Order, (_, ctx) => {
    seen.push(ctx.message)
  })
  const worker = hapax.worker({ consume: [billing.from(await place.subscription('billing'), mapping)] })
  await worker.start()
  try {
    await send()
    await until(
      () => seen.length >= count,
      () => `${count} messages are handled; there are ${seen.length}`,
    )
    expect(await hapax.failed.count()).toBe(0)
    return seen
  } finally {
    await worker.stop()
    await hapax.close()
  }
}

describe.concurrent('messages of plain clients', () => {
  it('are handled where .from() says what they are: by properties, headers, the body', async () => {
    await using place = await RabbitmqPlace.open()
    const mapping = { id: { property: 'messageId' }, type: { property: 'routingKey' }, source: { property: 'appId' } }
    const [seen] = await handled(place, { ...mapping, key: { path: 'customer.id' } }, async () => {
      const body = Buffer.from('{"total":7,"customer":{"id":42}}')
      const options = {
        messageId: 'x1',
        appId: '/legacy',
        contentType: 'application/json',
        headers: { tenant: 'acme' },
      }
      place.channel.publish(place.exchange, 'order.placed', body, options)
    })
    expect(seen).toMatchObject({
      id: 'x1',
      type: 'order.placed',
      source: '/legacy',
      key: '42',
      headers: { tenant: 'acme' },
    })
    expect(seen?.data).toEqual({ total: 7, customer: { id: 42 } })
  })

  it('show what the protocol has fields for, and headers of every kind as texts', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await place.subscription('billing'), { messages: 1, bytes: 1e6 })
    const headers = {
      text: 'ü',
      number: 7,
      flag: true,
      bytes: Buffer.from('b'),
      at: { '!': 'timestamp', value: 1_700_000_000 },
      list: ['a'],
      table: { a: 'b' },
      nothing: null,
      'x-death': [{ count: 1 }],
      'x-first-death-queue': 'q',
      'x-mine': 'kept',
    }
    const options = {
      headers,
      messageId: 'm',
      type: 't',
      appId: 'a',
      correlationId: 'c',
      replyTo: 'r',
      userId: 'guest',
      timestamp: 1_700_000_000,
      expiration: '600000',
      priority: 3,
      contentEncoding: 'identity',
      contentType: 'text/plain',
    }
    place.channel.publish(place.exchange, 'some.key', Buffer.from('hello'), options)
    const [received] = await listener.take(1)
    expect(received?.arrival).toMatchObject({ contentType: 'text/plain', redelivered: false, refused: undefined })
    expect({ ...received?.arrival.properties }).toEqual({
      exchange: place.exchange,
      routingKey: 'some.key',
      messageId: 'm',
      type: 't',
      appId: 'a',
      correlationId: 'c',
      replyTo: 'r',
      userId: 'guest',
      timestamp: '1700000000',
      expiration: '600000',
      priority: '3',
      contentEncoding: 'identity',
    })
    expect({ ...received?.arrival.headers }).toEqual({
      text: 'ü',
      number: '7',
      flag: 'true',
      bytes: 'b',
      at: '2023-11-14T22:13:20.000Z',
      'x-mine': 'kept',
    })
    await listener.close()
  })

  it('are read by plain clients when hapax sends them: id, type, time and correlation in fields of their own', async () => {
    await using place = await RabbitmqPlace.open()
    await place.subscription('billing')
    const destination = place.destination()
    const sent = message('a', { time: '2023-11-14T22:13:20.123Z', correlationId: 'c', headers: { tenant: 'acme' } })
    await publish(destination, [sent])
    const received = await place.channel.get(place.queue('billing'))
    if (received === false) throw new Error('expected a message')
    expect(received.fields.routingKey).toBe('ping')
    expect(received.properties).toMatchObject({
      messageId: 'a',
      type: 'ping',
      correlationId: 'c',
      timestamp: 1_700_000_000,
      contentType: 'application/json',
      deliveryMode: 2,
    })
    expect(received.properties.headers).toMatchObject({
      tenant: 'acme',
      cloudEvents_id: 'a',
      cloudEvents_partitionkey: 'one',
    })
    place.channel.ack(received)
    await destination.close()
  })
})

/** The headers of a message, without what a quorum queue adds. */
function withoutCount({ properties }: GetMessage): object {
  const { 'x-delivery-count': _, ...headers } = properties.headers ?? {}
  return headers
}

describe.concurrent('services that know nothing of CloudEvents', () => {
  const sent = message('a', {
    type: 'App\\Message\\OrderPlaced',
    time: '2023-11-14T22:13:20.123Z',
    correlationId: 'c',
    headers: { tenant: 'acme' },
  })

  it('get the data, properties and headers with plain names (plain-json)', async () => {
    await using place = await RabbitmqPlace.open()
    await place.subscription('billing')
    const destination = place.destination({ encode: 'plain-json' })
    await publish(destination, [sent])
    const received = await place.channel.get(place.queue('billing'))
    if (received === false) throw new Error('expected a message')
    expect(received.content.toString()).toBe('{"id":"a"}')
    expect(received.properties).toMatchObject({
      messageId: 'a',
      type: 'App\\Message\\OrderPlaced',
      appId: '/sender',
      correlationId: 'c',
      timestamp: 1_700_000_000,
      contentType: 'application/json',
      deliveryMode: 2,
    })
    // Symfony Messenger finds the class of a message in the header `type`.
    expect(withoutCount(received)).toEqual({
      tenant: 'acme',
      'message-id': 'a',
      type: 'App\\Message\\OrderPlaced',
      source: '/sender',
      time: '2023-11-14T22:13:20.123Z',
      key: 'one',
      'correlation-id': 'c',
    })
    place.channel.ack(received)
    await destination.close()
  })

  it('get what a function writes, with its properties', async () => {
    await using place = await RabbitmqPlace.open()
    await place.subscription('billing')
    const destination = place.destination({
      encode: ({ id, data }) => ({
        body: data,
        contentType: 'application/vnd.masstransit+json',
        headers: { 'MT-Message-Type': 'urn:message:Shop:OrderPlaced' },
        properties: { messageId: `urn:${id}`, appId: 'shop' },
      }),
    })
    await publish(destination, [sent, { ...sent, id: 'x'.repeat(300) }])
    const received = await place.channel.get(place.queue('billing'))
    if (received === false) throw new Error('expected a message')
    expect(received.properties).toMatchObject({
      messageId: 'urn:a',
      appId: 'shop',
      correlationId: 'c',
      contentType: 'application/vnd.masstransit+json',
      headers: { 'MT-Message-Type': 'urn:message:Shop:OrderPlaced' },
    })
    expect(Object.keys(withoutCount(received))).toEqual(['MT-Message-Type'])
    place.channel.ack(received)
    // The property of the second one would not fit into its field.
    expect(await place.channel.get(place.queue('billing'))).toBe(false)
    await destination.close()
  })

  it('are understood by the properties message-id, type and app-id', async () => {
    await using place = await RabbitmqPlace.open()
    const [seen] = await handled(place, {}, async () => {
      const options = { messageId: 'x1', type: 'order.placed', appId: '/legacy', correlationId: 'c' }
      for (let time = 0; time < 2; time++) {
        place.channel.publish(place.exchange, 'any', Buffer.from('{"total":7}'), options)
      }
    })
    expect(seen).toMatchObject({ id: 'x1', type: 'order.placed', source: '/legacy', correlationId: 'c' })
    expect(seen?.data).toEqual({ total: 7 })
  })
})

describe.concurrent('the SDK of CloudEvents', () => {
  const event: CloudEvent<{ total: number }> = new SdkEvent({
    id: 'sdk-1',
    source: '/sdk',
    type: 'order.placed',
    subject: 'order 7',
    time: '2026-11-16T03:00:00.000Z',
    datacontenttype: 'application/json',
    partitionkey: 'k',
    data: { total: 7 },
  })
  const expected = {
    id: 'sdk-1',
    source: '/sdk',
    type: 'order.placed',
    subject: 'order 7',
    key: 'k',
    data: { total: 7 },
  }

  it('what it makes is handled (structured)', async () => {
    await using place = await RabbitmqPlace.open()
    const [seen] = await handled(place, {}, async () => {
      const { headers, body } = HTTP.structured(event)
      const contentType = String(headers['content-type'])
      place.channel.publish(place.exchange, 'any', Buffer.from(String(body)), { contentType })
    })
    expect(seen).toMatchObject({ ...expected, time: '2026-11-16T03:00:00.000Z' })
  })

  it.for(['cloudEvents_', 'cloudEvents:'])('what it makes is handled (binary, %s)', async (prefix) => {
    await using place = await RabbitmqPlace.open()
    const [seen] = await handled(place, {}, async () => {
      const { headers, body } = HTTP.binary(event)
      const attributes = Object.entries(headers).filter(([name]) => name.startsWith('ce-'))
      place.channel.publish(place.exchange, 'any', Buffer.from(String(body)), {
        contentType: String(headers['content-type']),
        headers: Object.fromEntries(attributes.map(([name, value]) => [prefix + name.slice(3), value])),
      })
    })
    expect(seen).toMatchObject({ ...expected, time: '2026-11-16T03:00:00.000Z' })
  })

  it.for(['binary', 'structured'] as const)('reads what hapax sends (%s)', async (format) => {
    await using place = await RabbitmqPlace.open()
    await place.subscription('billing')
    const destination = place.destination({ format })
    const data = Buffer.from('{"total":7}')
    const time = '2026-11-16T03:00:00.000Z'
    const sent = { id: 'h-1', source: '/shop', type: 'order.placed', subject: 'größe 7', time, key: 'k', data }
    expect(await publish(destination, [{ ...sent, datacontenttype: 'application/json' }])).toEqual([
      { status: 'confirmed' },
    ])
    const received = await place.channel.get(place.queue('billing'))
    if (received === false) throw new Error('expected a message')
    const attributes = Object.entries(received.properties.headers ?? {})
      .filter(([name]) => name.startsWith('cloudEvents_'))
      .map(([name, value]) => [`ce-${name.slice('cloudEvents_'.length)}`, value])
    const headers = { ...Object.fromEntries(attributes), 'content-type': received.properties.contentType }
    const read = HTTP.toEvent<{ total: number }>({ headers, body: received.content.toString() }) as CloudEvent<unknown>
    read.validate()
    expect(read).toMatchObject({ id: 'h-1', source: '/shop', type: 'order.placed', subject: 'größe 7', time })
    expect(read['partitionkey']).toBe('k')
    expect(read.data).toEqual({ total: 7 })
    place.channel.ack(received)
    await destination.close()
  })
})
