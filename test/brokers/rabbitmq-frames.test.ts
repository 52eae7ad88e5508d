import { type ConfirmChannel, connect } from 'amqplib'
import fc from 'fast-check'
import { type AmqpConnection, rabbitmq } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { type Encoder, encoderOption } from '../../src/brokers/kit/index.ts'
import { Answer } from '../../src/brokers/rabbitmq/answer.ts'
import { rawChannel } from '../../src/brokers/rabbitmq/client.ts'
import { Frames } from '../../src/brokers/rabbitmq/outgoing-frames.ts'
import { encodeMessage } from '../../src/brokers/rabbitmq/wire.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import { message, messages, numbered, publish } from '../../src/testing/broker/world.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'

const EXCHANGE = 'shop'

/** The bytes that amqplib makes of a message. The server does not get them. */
function bytesOf(channel: ConfirmChannel, sent: OutgoingMessage, routingKey: string, encoder: Encoder): Buffer {
  const { connection, ch } = channel as unknown as { connection: { channels: { buffer: object }[] }; ch: number }
  const chunks: Buffer[] = []
  const buffer = connection.channels[ch]?.buffer as { write?: (chunk: Buffer) => boolean }
  buffer.write = (chunk) => chunks.push(chunk) > 0
  const { body, options } = encodeMessage(sent, encoder)
  channel.publish(EXCHANGE, routingKey, body, options, () => {})
  delete buffer.write
  return Buffer.concat(chunks)
}

function sentBy(sent: OutgoingMessage, routingKey: string, encoder = encoderOption({})): Answer {
  return Object.assign(new Answer(sent, encoder, 0, () => {}), { routingKey })
}

const text = fc.string({ unit: 'binary', maxLength: 60 })
const optional = fc.option(text, { nil: undefined })
const anyMessage = fc.record(
  {
    id: fc.oneof(text, fc.uuid()),
    source: text,
    type: text,
    subject: optional,
    time: fc.constantFrom('2026-01-01T00:00:00.000Z', '2126-01-01T00:00:00Z', 'yesterday', '1066-10-14T00:00:00Z'),
    key: optional,
    correlationId: fc.oneof(optional, fc.string({ minLength: 250, maxLength: 300 })),
    traceparent: optional,
    headers: fc.dictionary(
      fc.string({ maxLength: 20 }).filter((name) => !/^B?CC$/.test(name)),
      text,
    ),
    data: fc.uint8Array({ maxLength: 300 }),
  },
  { requiredKeys: ['id', 'source', 'type', 'data'] },
)

describe('frames of outgoing messages', () => {
  it.for(['cloudevents', 'plain-json'] as const)('are those that amqplib makes, byte by byte (%s)', async (encode) => {
    const encoder = encoderOption({ encode })
    const connection = await connect(requireServer('rabbitmq'))
    connection.on('error', () => {})
    const channel = await connection.createConfirmChannel()
    const number = rawChannel(channel)?.number ?? Number.NaN
    const frames = new Frames({ channel: number, exchange: EXCHANGE, frameMax: 131_072 })
    let packed = 0
    fc.assert(
      fc.property(fc.array(fc.tuple(anyMessage, text), { maxLength: 5 }), (sent) => {
        const expected: Buffer[] = []
        for (const [each, routingKey] of sent as [OutgoingMessage, string][]) {
          // What amqplib refuses is refused before, or left to it.
          if (!frames.add(sentBy(each, routingKey, encoder))) continue
          expected.push(bytesOf(channel, each, routingKey, encoder))
          packed += 1
        }
        expect(frames.take() ?? Buffer.alloc(0)).toEqual(Buffer.concat(expected))
      }),
    )
    expect(packed).toBeGreaterThan(100)
    await connection.close().catch(() => {})
  })

  it('leave to amqplib what is large, or does not fit', () => {
    const frames = new Frames({ channel: 1, exchange: EXCHANGE, frameMax: 131_072 })
    const add = (more: Partial<OutgoingMessage>, routingKey = 'ping'): boolean =>
      frames.add(sentBy(message('a', more), routingKey))
    expect(add({}, 'k'.repeat(256))).toBe(false)
    expect(add({ headers: { ['n'.repeat(256)]: 'v' } })).toBe(false)
    expect(add({ headers: { big: 'v'.repeat(70_000) } })).toBe(false)
    expect(add({ datacontenttype: 'x'.repeat(256) })).toBe(false)
    expect(add({ data: Buffer.alloc(200_000) })).toBe(false)
    expect(frames.take()).toBeUndefined()
    expect(add({})).toBe(true)
    expect(frames.take()?.length).toBeGreaterThan(0)
  })
})

describe('messages that are sent together', () => {
  it('keep their order when some of them are large', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = place.destination()
    const ids = numbered(60)
    const large = { data: Buffer.from(JSON.stringify('x'.repeat(100_000))) }
    const sent = ids.map((id, index) => message(id, index % 7 === 3 ? large : {}))
    const told = await publish(destination, sent)
    expect(new Set(told.map(({ status }) => status))).toEqual(new Set(['confirmed']))
    const received = await place.receive('billing', ids.length)
    expect(received.map(({ attributes }) => attributes?.['id'])).toEqual(ids)
    await destination.close()
  })

  it('are sent by a version of amqplib that has no such way inside', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const plain = await connect(requireServer('rabbitmq'))
    const connection = hiding(plain, {
      createConfirmChannel: async () => hiding(await plain.createConfirmChannel(), { ch: undefined }),
    })
    const destination = rabbitmq({ connection: connection as unknown as AmqpConnection }).exchange(place.exchange)
    const told = await publish(destination, messages(numbered(50)))
    expect(new Set(told.map(({ status }) => status))).toEqual(new Set(['confirmed']))
    expect(await place.ready('billing')).toBe(50)
    await destination.close()
    await plain.close()
  })
})

/** The same object to others, except for some of its properties. */
function hiding<T extends object>(target: T, instead: Readonly<Record<string, unknown>>): T {
  return new Proxy(target, {
    get(_, name) {
      if (typeof name === 'string' && Object.hasOwn(instead, name)) return instead[name]
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
