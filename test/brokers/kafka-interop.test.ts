import { CloudEvent, Kafka, type KafkaMessage } from 'cloudevents'
import type { Mapping } from 'hapax'
import { kafka } from 'hapax/kafka'
import { memory } from 'hapax/memory'
import { describe, expect, it, vi } from 'vitest'
import { Shop } from '../../src/testing/broker/shop.ts'
import { fresh, type KafkaPlace, kafkaPlace, message, PATIENT, publish } from '../support/kafka-place.ts'
import { kafkaServer } from '../support/kafka-server.ts'

vi.setConfig({ maxConcurrency: 25 })

const event = new CloudEvent({
  id: 'evt-1',
  source: '/sdk',
  type: 'ping',
  subject: 'orders/7',
  time: '2026-01-02T03:04:05.678Z',
  datacontenttype: 'application/json',
  partitionkey: 'A1',
  data: { id: 'evt-1', amount: 7 },
})

type Sent = Parameters<KafkaPlace['plain']['send']>[1]

/** Sends a record with the plain client; gives the message that a handler of hapax got. */
async function handled({ topic, plain, proxy }: KafkaPlace, sent: Sent, id: string, mapping: Mapping = {}) {
  const shop = new Shop({ rows: memory() })
  const seen: unknown[] = []
  const billing = shop.consumer({}, (ctx) => void seen.push(ctx.message))
  const subscription = kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...PATIENT })
  await shop.work({ consume: [billing.from(subscription, mapping)] })
  await plain.send(topic, sent)
  await shop.untilEffects([id])
  await shop.close()
  return seen
}

describe.skipIf(kafkaServer === undefined).concurrent(`Kafka and others (${kafkaServer})`, () => {
  it.each(['binary', 'structured'] as const)('an event of the CloudEvents SDK is handled (%s)', async (mode) => {
    await using place = await kafkaPlace()
    const { headers, key, value } = Kafka[mode](event) as KafkaMessage
    const body = typeof value === 'string' ? value : JSON.stringify(value)
    const named = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, String(text)]))
    const seen = await handled(place, { value: Buffer.from(body), key: String(key), headers: named }, 'evt-1')
    const { id, source, subject, time, data, datacontenttype, partitionkey } = event
    expect(seen).toMatchObject([{ id, source, type: 'ping', subject, time, key: partitionkey, data, datacontenttype }])
  })

  it.each(['binary', 'structured'] as const)('the CloudEvents SDK reads what hapax sends (%s)', async (format) => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const destination = kafka({ url: proxy.url }).topic(topic, { format })
    const more = { key: 'A1', subject: 'orders/7', time: '2026-01-02T03:04:05.678Z', correlationId: 'c1' }
    const sent = message('m1', more)
    await publish(destination, [sent])
    await destination.close()
    const [record] = await plain.take(topic, fresh('sdk'), 1)
    const headers = Object.fromEntries([...(record?.headers ?? [])].map((each) => each.map(String)))
    const raw = { headers, key: String(record?.key), value: String(record?.value), body: String(record?.value) }
    const { id, source, type, subject, time, datacontenttype } = sent
    const named = { partitionkey: 'A1', correlationid: 'c1' }
    expect(Kafka.toEvent(raw)).toMatchObject({
      id,
      source,
      type,
      subject,
      time,
      datacontenttype,
      ...named,
      data: { id },
    })
  })

  it('a record of a client that knows nothing of CloudEvents is handled where .from() says what it is', async () => {
    await using place = await kafkaPlace()
    const sent = { value: Buffer.from('{"order":{"id":7}}'), key: 'customer 7', headers: { tenant: 'north' } }
    const seen = await handled(place, sent, '7', {
      id: { path: 'order.id' },
      type: 'ping',
      source: ({ headers, properties }) => `/${headers['tenant']}/${properties['topic']}`,
    })
    // The key of a record is the key of its message.
    const source = `/north/${place.topic}`
    expect(seen).toMatchObject([{ id: '7', source, key: 'customer 7', data: { order: { id: 7 } } }])
  })

  it('a record names where it stands, and when it was written', async () => {
    await using place = await kafkaPlace()
    const properties: unknown[] = []
    const sent = { value: Buffer.from('{}'), key: 'k', partition: 2 }
    await handled(place, sent, 'a', {
      type: 'ping',
      source: '/legacy',
      id: (arrival) => {
        properties.push(arrival.properties)
        return 'a'
      },
    })
    const timestamp = expect.stringMatching(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(properties[0]).toEqual({ topic: place.topic, partition: '2', offset: '0', key: 'k', timestamp })
  })

  it('a record without value, key and headers is a message without data', async () => {
    await using place = await kafkaPlace()
    const mapping = { id: { property: 'offset' }, type: 'ping', source: '/tombstones' }
    const seen = await handled(place, { value: null }, '0', mapping)
    expect(seen).toMatchObject([{ id: '0', source: '/tombstones' }])
    expect(seen[0]).not.toHaveProperty('key')
  })
})
