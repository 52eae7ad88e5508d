import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Admin, Consumer, compatibilityPartitioner, Producer } from '@platformatic/kafka'
import {
  type KafkaClientSettings,
  type KafkaConsumerSettings,
  type KafkaProducer,
  type KafkaProducerSettings,
  kafka,
} from 'hapax/kafka'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { promised } from '../../src/testing/promised.ts'
import { fresh, type KafkaPlace, kafkaPlace, message, messages, publish } from '../support/kafka-place.ts'
import { kafkaServer } from '../support/kafka-server.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

vi.setConfig({ maxConcurrency: 25 })

describe.skipIf(kafkaServer === undefined).concurrent(`sending to Kafka (${kafkaServer})`, () => {
  it('D12: asks for the acks of all replicas, as an idempotent producer that counts its messages', async () => {
    await using place = await kafkaPlace()
    const batches = batchesOf(place)
    const destination = kafka({ url: place.proxy.url }).topic(place.topic)
    expect(await publish(destination, messages(3))).toEqual(Array(3).fill('confirmed'))
    expect(await publish(destination, messages(2))).toEqual(Array(2).fill('confirmed'))
    const [first, second] = batches
    expect(batches).toMatchObject([
      { acks: -1, count: 3, firstSequence: 0 },
      { acks: -1, count: 2, firstSequence: 3 },
    ])
    expect(first?.producerId).toBeGreaterThanOrEqual(0)
    expect(second?.producerId).toBe(first?.producerId)
    await destination.close()
  })

  it('puts a key where every client of Kafka puts it, and messages without a key anywhere', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const destination = kafka({ url: proxy.url }).topic(topic)
    const keyed = ['A1', 'B2', 'order-17', 'Ü', 'a longer key, of more than sixteen bytes'].map((key) =>
      message(key, { key }),
    )
    expect(await publish(destination, keyed)).toEqual(keyed.map(() => 'confirmed'))
    for (let time = 0; time < 4; time++) await publish(destination, messages(2, {}))
    const records = await plain.take(topic, fresh('plain'), keyed.length + 8)
    for (const { key, partition } of records) {
      if (key !== undefined) expect(compatibilityPartitioner(undefined as never, key) % 4).toBe(partition)
    }
    const others = Map.groupBy(records, ({ key, partition }) => (key === undefined ? partition : -1))
    expect([0, 1, 2, 3].map((partition) => others.get(partition)?.length)).toEqual([2, 2, 2, 2])
    await destination.close()
  })

  it('sends in batches that a topic takes, in order', async () => {
    await using place = await kafkaPlace()
    const batches = batchesOf(place)
    const destination = kafka({ url: place.proxy.url }).topic(place.topic)
    const large = Array.from({ length: 20 }, (_, at) =>
      message(`m${at}`, { key: 'one', data: Buffer.alloc(200_000, 'x') }),
    )
    expect(await publish(destination, large)).toEqual(large.map(() => 'confirmed'))
    expect(batches.map(({ count }) => count)).toEqual([4, 4, 4, 4, 4])
    const records = await place.plain.take(place.topic, fresh('plain'), 20)
    expect(records.map(idOf)).toEqual(large.map(({ id }) => id))
    await destination.close()
  })

  it('D14: behind a message that is too large, no message of its key is confirmed; others are', async () => {
    await using place = await kafkaPlace()
    const destination = kafka({ url: place.proxy.url }).topic(place.topic, { maxMessageBytes: 10_000 })
    const large = message('large', { key: 'one', data: Buffer.alloc(10_000, 'x') })
    const sent = [
      ...[message('a', { key: 'one' }), large, message('b', { key: 'one' })],
      ...[message('c', { key: 'two' }), message('d'), { ...large, id: 'large, no key', key: undefined }, message('e')],
    ]
    expect(destination.features.keepsOrder).toBe(true)
    expect(await publish(destination, sent as (typeof large)[])).toEqual([
      ...['confirmed', 'refused too-large', 'unavailable broker-unavailable'],
      ...['confirmed', 'confirmed', 'refused too-large', 'confirmed'],
    ])
    // It is the call that keeps order: the sender has been told, and may go on.
    expect(await publish(destination, [message('b', { key: 'one' })])).toEqual(['confirmed'])
    await destination.close()
  })

  it('D30: a call that is given up on a silent link does not hold up the next one', async () => {
    await using place = await kafkaPlace()
    const { topic, proxy } = place
    let sends = 0
    const clients = {
      producer: (settings: KafkaProducerSettings): KafkaProducer => {
        const producer = new Producer(settings)
        const send = producer.send.bind(producer)
        return Object.assign(producer, {
          send: (options: never) => {
            sends += 1
            return send(options)
          },
        })
      },
      consumer: (settings: KafkaConsumerSettings) => new Consumer(settings),
      admin: (settings: KafkaClientSettings) => new Admin(settings),
    }
    // No deadline of its own comes into it.
    const destination = kafka({ url: proxy.url, clients }).topic(topic, { publishTimeoutMs: 600_000 })
    expect(await publish(destination, messages(1))).toEqual(['confirmed'])
    proxy.freeze()
    const patience = new AbortController()
    const stuck = promised(destination, messages(2), patience.signal)
    await vi.waitFor(() => expect(sends).toBe(2), { timeout: 30_000 })
    const next = publish(destination, [message('next')])
    proxy.thaw()
    patience.abort()
    expect(await Promise.all(stuck)).toMatchObject(
      Array(2).fill({ status: 'unavailable', error: { code: 'broker-timeout' } }),
    )
    expect(await next).toEqual(['confirmed'])
    await destination.close()
  })
})

describe('a link to Kafka', () => {
  it('E8: that is reset while the client says who it is ends no process', async () => {
    const uncaught = uncaughtErrors()
    let resets = 0
    const server = createServer((socket) =>
      socket.once('data', () => {
        resets += 1
        socket.resetAndDestroy()
      }),
    ).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const sasl = { mechanism: 'PLAIN', username: 'ann', password: 'secret' } as const
    const destination = kafka({ brokers: [`127.0.0.1:${port}`], sasl }).topic('shop', { publishTimeoutMs: 10_000 })
    expect(await publish(destination, [message('a')])).toEqual(['unavailable broker-unavailable'])
    await destination.close()
    expect(resets).toBeGreaterThan(0)
    expect(uncaught).toEqual([])
  })
})

function idOf({ headers }: { readonly headers: ReadonlyMap<Buffer, Buffer> }): string {
  return String([...headers].find(([name]) => String(name) === 'ce_id')?.[1])
}

interface Batch {
  readonly acks: number
  readonly producerId: number
  readonly firstSequence: number
  readonly count: number
}

const PRODUCE = 0

/** The batches that go by from now on, of requests with one batch each. */
function batchesOf({ proxy }: KafkaPlace): readonly Batch[] {
  const batches: Batch[] = []
  proxy.onRequest = (frame) => {
    if (frame.readInt16BE(4) === PRODUCE) batches.push(batchOf(frame))
  }
  return batches
}

/**
 * Reads a request of version 3 to 12: client, transaction, acks, timeout, one topic, one partition, one batch. From version 9 on the
 * header ends in tags, and lengths have as many bytes as they need.
 */
function batchOf(frame: Buffer): Batch {
  const isCompact = frame.readInt16BE(6) >= 9
  let at = 14 + frame.readInt16BE(12) + (isCompact ? 1 : 0)
  const varint = (): number => {
    let [value, shift] = [0, 0]
    for (let byte = 0x80; byte >= 0x80; shift += 7) {
      byte = frame.readUInt8(at)
      at += 1
      value |= (byte & 0x7f) << shift
    }
    return value
  }
  const skipText = (): void => {
    const length = isCompact ? varint() - 1 : frame.readInt16BE(at)
    at += Math.max(0, length) + (isCompact ? 0 : 2)
  }
  const skipLength = (): void => {
    if (isCompact) varint()
    else at += 4
  }
  skipText()
  const acks = frame.readInt16BE(at)
  at += 6
  skipLength()
  skipText()
  skipLength()
  at += 4
  skipLength()
  return {
    acks,
    producerId: Number(frame.readBigInt64BE(at + 43)),
    firstSequence: frame.readInt32BE(at + 53),
    count: frame.readInt32BE(at + 57),
  }
}
