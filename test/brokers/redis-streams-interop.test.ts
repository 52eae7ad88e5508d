import { CloudEvent, type Headers, HTTP } from 'cloudevents'
import { createHapax, defineMessage } from 'hapax'
import { memory } from 'hapax/memory'
import { type RedisGroupOptions, redisStreams } from 'hapax/redis-streams'
import { describe, expect, it, vi } from 'vitest'
import type { SourceOptions } from '../../src/contracts/consumers.ts'
import { listen, message, publish, type RedisPlace, redisPlace } from '../support/redis-place.ts'

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 50_000, interval: 10 })
}

interface Handled {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly data: unknown
  readonly headers: Readonly<Record<string, string>> | undefined
}

/** A consumer of `order.placed`, and what it handled. */
async function consuming(place: RedisPlace, mapping: SourceOptions, options: Partial<RedisGroupOptions> = {}) {
  const hapax = createHapax({ store: memory(), source: '/billing', logger: silent })
  const handled: Handled[] = []
  const billing = hapax.consumer('billing')
  billing.on(defineMessage('order.placed'), (data, { message: { id, source, type, headers } }) => {
    handled.push({ id, source, type, data, headers })
  })
  const group = redisStreams({ url: place.proxy.url }).group('billing', { stream: place.stream, ...options })
  const worker = hapax.worker({ consume: [billing.from(group, mapping)] })
  await worker.start()
  return {
    handled,
    hapax,
    [Symbol.asyncDispose]: async () => {
      await worker.stop()
      await hapax.close()
    },
  }
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

describe.concurrent('an entry of a sender that knows nothing of hapax', () => {
  it('is its fields as JSON, and a mapping finds id, type and source in them', async () => {
    await using place = await redisPlace()
    await using consumer = await consuming(place, {
      id: { header: 'order' },
      type: { path: 'kind' },
      source: '/legacy',
    })
    for (let time = 0; time < 2; time++) {
      await place.plain.xadd(place.stream, '*', 'order', 'A1', 'kind', 'order.placed', 'total', '12.50')
    }
    await eventually(async () =>
      expect(await place.plain.xpending(place.stream, 'billing')).toEqual([0, null, null, null]),
    )
    const data = { order: 'A1', kind: 'order.placed', total: '12.50' }
    expect(consumer.handled).toEqual([
      { id: 'A1', source: '/legacy', type: 'order.placed', data, headers: expect.objectContaining(data) },
    ])
  })

  it('K20: is kept if its id is no text, and so is every other one with the same payload', async () => {
    await using place = await redisPlace()
    await using consumer = await consuming(place, {})
    for (let byte = 0x80; byte < 0x88; byte++) {
      const fields = ['ce_id', Buffer.from([byte]), 'ce_source', '/s', 'ce_type', 'order.placed', 'data', '{}'] as const
      await place.plain.xadd(place.stream, '*', ...fields)
    }
    await eventually(async () => expect(await consumer.hapax.failed.count({ reason: 'invalid-id' })).toBe(8))
    expect(consumer.handled).toEqual([])
  })

  it('has the body where the settings say, whatever bytes they are', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    const redis = redisStreams({ url: proxy.url })
    await using listening = await listen(redis.group('billing', { stream, body: 'payload' }))
    const bytes = Buffer.from([0xff, 0x00, 0x80])
    await plain.xadd(stream, '*', 'payload', bytes, 'note', 'hello', 'binary', bytes, 'data', 'no body here')
    await plain.xadd(stream, '*', 'note', 'hello', 'binary', bytes)
    await eventually(async () => expect(listening.deliveries).toHaveLength(2))
    const [first, second] = listening.deliveries.map(({ arrival }) => arrival)
    expect(Buffer.from(first?.body ?? '')).toEqual(bytes)
    expect(first?.contentType).toBe(undefined)
    expect({ ...first?.headers }).toEqual({ note: 'hello', data: 'no body here' })
    expect(first?.properties).toEqual({ entryId: expect.stringMatching(/^\d+-\d+$/), stream, deliveryCount: '1' })
    expect(JSON.parse(Buffer.from(second?.body ?? '').toString())).toEqual({
      note: 'hello',
      binary_base64: bytes.toString('base64'),
    })
    expect(second?.contentType).toBe('application/json')
  })

  it('cannot do harm by the names of its fields', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    await using listening = await listen(redisStreams({ url: proxy.url }).group('billing', { stream }))
    const names = ['__proto__', 'constructor', 'ce___proto__', 'header___proto__', '', 'ce_', 'header_', 'CE_ID']
    await plain.xadd(stream, '*', ...names.flatMap((name) => [name, 'x']))
    await plain.callBuffer('XADD', stream, '*', Buffer.from([0xff]), 'x', 'data', 'y')
    await eventually(async () => expect(listening.deliveries).toHaveLength(2))
    expect(Object.getPrototypeOf(listening.deliveries[0]?.arrival.headers)).toBe(null)
    expect(listening.deliveries[0]?.arrival.attributes['id']).toBe('x')
    expect(({} as { x?: string }).x).toBe(undefined)
  })
})

describe.concurrent('the CloudEvents SDK', () => {
  const event = new CloudEvent({
    id: 'A1',
    source: '/sdk',
    type: 'order.placed',
    subject: 'Größe 7 %',
    data: { total: 7 },
    partitionkey: 'k',
  })

  it('sends structured events that are consumed', async () => {
    await using place = await redisPlace()
    await using consumer = await consuming(place, {})
    const { headers, body } = HTTP.structured(event)
    await place.plain.xadd(place.stream, '*', 'content-type', String(headers['content-type']), 'data', body as string)
    await eventually(async () => expect(consumer.handled).toHaveLength(1))
    expect(consumer.handled[0]).toMatchObject({ id: 'A1', source: '/sdk', type: 'order.placed', data: { total: 7 } })
  })

  it('sends binary events that are consumed, its headers ce- as fields ce_', async () => {
    await using place = await redisPlace()
    await using consumer = await consuming(place, {})
    const { headers, body } = HTTP.binary(event)
    const fields = Object.entries(headers).flatMap(([name, value]) => [name.replace(/^ce-/, 'ce_'), String(value)])
    await place.plain.xadd(place.stream, '*', ...fields, 'data', body as string)
    await eventually(async () => expect(consumer.handled).toHaveLength(1))
    expect(consumer.handled[0]).toMatchObject({ id: 'A1', source: '/sdk', type: 'order.placed', data: { total: 7 } })
  })

  it.for(['structured', 'binary'] as const)('reads what hapax sends (%s)', async (format) => {
    await using place = await redisPlace()
    const destination = redisStreams({ url: place.proxy.url }).stream(place.stream, { format })
    const sent = message('B2', {
      subject: 'größe',
      key: 'k',
      time: '2026-11-16T00:00:00.000Z',
      headers: { tenant: 't1' },
    })
    await publish(destination, [sent])
    await destination.close()
    const [entry] = await place.plain.xrange(place.stream, '-', '+')
    const pairs = entry?.[1] ?? []
    const fields = Object.fromEntries(
      Array.from({ length: pairs.length / 2 }, (_, at) => [pairs[2 * at], pairs[2 * at + 1]]),
    )
    expect(fields['header_tenant']).toBe('t1')
    const headers = Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name.replace(/^ce_/, 'ce-'), value]),
    )
    const read = HTTP.toEvent({ headers: headers as Headers, body: fields['data'] }) as CloudEvent<unknown>
    expect(read.validate()).toBe(true)
    expect(read).toMatchObject({ id: 'B2', source: '/sender', type: 'ping', subject: 'größe', data: { id: 'B2' } })
    expect(read['partitionkey']).toBe('k')
  })
})
