import { createHapax, defineMessage, HapaxError, type IncomingMessage, silentLogger, stubOf } from 'hapax'
import type { Arrival } from 'hapax/contracts'
import { memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'
import { describe, expect, it, onTestFinished } from 'vitest'
import { decodeArrival } from '../../src/message/arrival.ts'
import { sortHeaders } from '../../src/message/cloudevents.ts'

const Ping = defineMessage<unknown>('ping')
const MiB = 1024 * 1024
const NOW = Date.parse('2026-01-01T12:00:00Z')

const ping = (id: string, more: object = {}): IncomingMessage =>
  ({ id, source: '/sender', type: 'ping', data: { n: 1 }, ...more }) as IncomingMessage

function opened(maxMessageBytes = MiB) {
  const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger, maxMessageBytes })
  onTestFinished(() => hapax.close())
  return hapax
}

const arrival = (more: Partial<Arrival>): Arrival => ({
  body: Buffer.from('{"n":1}'),
  contentType: 'application/json',
  attributes: { specversion: '1.0', id: 'a', source: '/s', type: 'ping' },
  headers: {},
  properties: {},
  redelivered: false,
  refused: undefined,
  ...more,
})

describe('K20: an id or a source whose bytes a client could not decode', () => {
  const GARBLED = '\ufffd\ufffd'
  const attributes = (more: object) => ({ specversion: '1.0', id: 'a', source: '/s', type: 'ping', ...more })

  it.for([
    ['id', {}, { attributes: attributes({ id: GARBLED }) }, 'invalid-id'],
    ['source', {}, { attributes: attributes({ source: `/s/${GARBLED}` }) }, 'invalid-message'],
    ['id in a header', { id: { header: 'x-id' } }, { headers: { 'X-Id': GARBLED } }, 'invalid-id'],
    ['id in a property', { id: { property: 'messageId' } }, { properties: { messageId: GARBLED } }, 'invalid-id'],
  ] as const)('is refused, and every delivery of it is kept: %s', async ([, mapping, more, code]) => {
    const hapax = opened()
    const consumer = hapax.consumer('billing').on(Ping, () => {})
    for (let n = 0; n < 8; n++) {
      const body = Buffer.from('{"n":1}')
      const outcome = await consumer.handle(decodeArrival(arrival({ body, ...more }), mapping, MiB))
      expect(outcome).toMatchObject({ status: 'failed', error: { code } })
    }
    expect(await hapax.failed.count()).toBe(8)
  })

  it.for(['reject', 'hash'] as const)(
    'stays apart from others that came as bytes, missingId: %s',
    async (missingId) => {
      const hapax = opened()
      const consumer = hapax.consumer('billing', { missingId }).on(Ping, () => {})
      const headers = (id: number) =>
        [['ce_ID', Buffer.from([id])] as const, ['ce_source', '/s'], ['ce_type', 'ping']] as const
      const statuses: string[] = []
      for (const id of [0xff, 0xfe, 0xc0, 0x80]) {
        const sorted = sortHeaders(headers(id), { prefixes: ['ce_'], drop: () => false })
        const message = decodeArrival(arrival({ ...sorted, body: Buffer.from('{"n":1}') }), {}, MiB)
        statuses.push((await consumer.handle(message)).status)
      }
      const taken = missingId === 'hash'
      expect(statuses).toEqual(Array(4).fill(taken ? 'processed' : 'failed'))
      expect(await hapax.failed.count({ reason: 'invalid-id' })).toBe(taken ? 0 : 4)
    },
  )

  it('that is in the body was decoded here, so that the character is what the sender means', async () => {
    const consumer = opened()
      .consumer('billing')
      .on(Ping, () => {})
    const body = Buffer.from(JSON.stringify({ ...attributes({ id: GARBLED }), data: 1 }))
    const event = arrival({ body, attributes: {}, contentType: 'application/cloudevents+json' })
    expect(await consumer.handle(decodeArrival(event, {}, MiB))).toMatchObject({ status: 'processed' })
    const mapped = arrival({ body: Buffer.from(JSON.stringify({ name: `${GARBLED}2` })) })
    expect(await consumer.handle(decodeArrival(mapped, { id: { path: 'name' } }, MiB))).toMatchObject({
      status: 'processed',
    })
  })

  it('is not published, because no reader would take it', async () => {
    const hapax = opened()
    const publishing = hapax.transaction((tx) => hapax.publish(tx, Ping, 1, { id: GARBLED }))
    await expect(publishing).rejects.toMatchObject({ code: 'invalid-id' })
    expect(() => createHapax({ store: memory(), source: GARBLED })).toThrow('without U+FFFD')
  })
})

describe('K21: maxAgeMs', () => {
  const clock = { now: () => NOW, monotonic: () => 0, after: () => () => {} }
  const status = async (time: unknown): Promise<string> => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger, clock })
    const consumer = hapax.consumer('billing', { maxAgeMs: 3_600_000 }).on(Ping, () => {})
    const { status } = await consumer.handle(ping('a', { time }))
    expect(await hapax.failed.count({ reason: 'expired' })).toBe(status === 'expired' ? 1 : 0)
    return status
  }
  const at = (ms: number): string => new Date(NOW + ms).toISOString()

  it('takes what is young enough, also from a clock that is a little ahead', async () => {
    for (const ms of [0, -3_600_000, 60_000]) expect(await status(at(ms))).toBe('processed')
  })

  it.for([undefined, null, 7, '', 'yesterday', at(-3_600_001), at(3_600_000)])('refuses the time %s', async (time) => {
    expect(await status(time)).toBe('expired')
  })
})

describe('K17: of a message that is too large', () => {
  it.for([
    ['bytes', Buffer.alloc(8 * MiB, 0x61), {}],
    ['bytes that are no JSON', Buffer.alloc(8 * MiB, 0xff), { id: undefined }],
    ['a text', 'é'.repeat(8 * MiB), { datacontenttype: 'text/plain' }],
    ['a JSON value', 'x'.repeat(8 * MiB), {}],
    ['without a type', Buffer.alloc(8 * MiB, 0x61), { type: undefined }],
  ] as const)('the beginning is kept: %s', async ([, data, more]) => {
    const hapax = opened()
    const consumer = hapax.consumer('billing').on(Ping, () => {})
    expect(await consumer.handle(ping('a', { data, ...more }))).toMatchObject({ status: 'failed' })
    const [failed] = await hapax.failed.list()
    expect(failed?.message.data.byteLength).toBe(64 * 1024)
    expect(failed?.message.data.buffer.byteLength).toBeLessThan(MiB)
    expect(failed && stubOf(failed.message)?.bytes).toBeGreaterThan(8 * MiB - 1)
  })

  it.for([
    [{ bytes: 4711 }, 'application/json', '{"n":1}'],
    [{}, 'application/json', '{"n":'],
    [{ bytes: 4711 }, 'application/cloudevents+json', '{"id":"a","data":'],
  ] as const)(
    'whose end was not read, the beginning does not pass for the whole: %s',
    async ([fields, contentType, body]) => {
      const hapax = opened()
      const consumer = hapax.consumer('billing').on(Ping, () => {})
      const refused = new HapaxError('too-large', 'of which only the beginning was read', { fields })
      const came = arrival({ body: Buffer.from(body), contentType, refused })
      expect(await consumer.handle(decodeArrival(came, {}, MiB))).toMatchObject({ error: { code: 'too-large' } })
      const [failed] = await hapax.failed.list()
      const bytes = 'bytes' in fields ? fields.bytes : null
      expect(failed && stubOf(failed.message)).toEqual({ bytes, sha256: null })
      expect(Buffer.from(failed?.message.data ?? '').toString()).toBe(body)
      await expect(hapax.failed.retry(failed?.seq ?? '')).rejects.toMatchObject({ code: 'not-whole' })
    },
  )

  it('all is kept if it is little, and it can be tried again with another limit', async () => {
    const store = memory()
    const strict = createHapax({ store, source: '/test', logger: silentLogger, maxMessageBytes: 100 })
    await strict
      .consumer('billing')
      .on(Ping, () => {})
      .handle(ping('a', { data: 'x'.repeat(200) }))
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const seen: unknown[] = []
    const consumer = hapax.consumer('billing').on(Ping, (data) => void seen.push(data))
    const [failed] = await hapax.failed.list()
    await hapax.failed.retry(failed?.seq ?? '')
    await using worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    expect(seen).toEqual(['x'.repeat(200)])
  })
})

it('K16: a reader acknowledges a message that cannot be taken, and goes on with the next ones', async () => {
  const broker = memoryBroker()
  const queue = broker.queue('billing', { topic: 'shop' })
  const hapax = opened(100_000)
  const seen: string[] = []
  const consumer = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, (_, { message }) => {
    seen.push(message.id)
  })
  const publisher = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  onTestFinished(() => publisher.close())
  await using relay = publisher.worker({ relay: broker.topic('shop') })
  await using worker = hapax.worker({ consume: [consumer.from(queue)] })
  await worker.start()
  await publisher.transaction(async (tx) => {
    await publisher.publish(tx, Ping, 1, { id: 'good 1' })
    await publisher.publish(tx, Ping, 'x'.repeat(200_000), { id: 'large' })
    await publisher.publish(tx, Ping, 1, { id: 'headers', headers: { large: 'x'.repeat(200_000) } })
    await publisher.publish(tx, Ping, 1, { id: 'good 2' })
  })
  await relay.start()
  await expect.poll(() => seen.toSorted()).toEqual(['good 1', 'good 2'])
  await expect.poll(() => hapax.failed.count()).toBe(2)
  await worker.drain()
})
