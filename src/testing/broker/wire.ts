import assert from 'node:assert/strict'
import { type EventFormat, type IncomingMessage, isTextual, type OutgoingMessage } from '../../message/index.ts'
import type { Case } from './case.ts'
import type { DestinationOptions, RawMessage } from './harness.ts'
import type { Received } from './listener.ts'
import { assertConfirmed, assertSame, message, publish, type World } from './world.ts'

/** Every attribute, and texts that are hard on protocols which are made for ASCII. */
export const full: OutgoingMessage = message('Grüße, 50 % "ü" \u{1f600} 日本', {
  source: '/übung/a b?c=100%25&d=%zz',
  type: 'com.example.übung',
  subject: 'orders/7 "ä"',
  time: '2026-01-02T03:04:05.678Z',
  key: 'ключ 1',
  correlationId: 'corr 1%',
  causationId: 'cause-é',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'vendor=a,other=b',
  headers: { plain: 'yes', 'X-Mixed-Case': 'ä b % "c"', tenant: '日本', numeric: '17' },
})

const payloads: Readonly<Record<string, Pick<OutgoingMessage, 'data' | 'datacontenttype'>>> = {
  'an empty body': { data: Buffer.alloc(0), datacontenttype: 'application/octet-stream' },
  'an empty body that is said to be JSON': { data: Buffer.alloc(0), datacontenttype: 'application/json' },
  'bytes that are no UTF-8': { data: Buffer.from(allBytes()), datacontenttype: 'application/octet-stream' },
  'a text': { data: Buffer.from('100 % ü\r\n\u0000 日本'), datacontenttype: 'text/plain; charset=utf-8' },
  'a content type that is only said to be JSON': { data: Buffer.from('{"a":'), datacontenttype: 'application/json' },
  'JSON under another name': { data: Buffer.from('{"a":[1,2,{"b":null}]}'), datacontenttype: 'application/x+json' },
  '256 kB': { data: Buffer.from(JSON.stringify('ü'.repeat(128 * 1024))), datacontenttype: 'application/json' },
}

const bothFormats: readonly Case[] = (['binary', 'structured'] as const).flatMap((format) => [
  {
    name: `attributes, headers and bytes survive (${format})`,
    run: (world: World) => roundTrip(world, { format }, full),
  },
  {
    name: `a message with nothing but the necessary attributes survives (${format})`,
    run: (world: World) => {
      const { id, source, type, data } = full
      return roundTrip(world, { format }, { id, source, type, data })
    },
  },
  ...Object.entries(payloads).map(([what, payload]) => ({
    name: `${what} survives (${format})`,
    run: (world: World) => roundTrip(world, { format }, message('a', payload)),
  })),
])

const hostile: readonly Case[] = [
  {
    name: 'a header of any name is carried, left out or refused, and harms neither its message nor its neighbours',
    run: async (world) => {
      const listener = await world.listen('billing')
      const named = HEADER_NAMES.map((name, index) =>
        message(`m${index}`, { headers: Object.fromEntries([[name, 'posing']]) }),
      )
      await assertUnharmed(world, listener, named)
    },
  },
  {
    name: 'a header of any value is carried, left out or refused, and harms neither its message nor its neighbours',
    run: async (world) => {
      const listener = await world.listen('billing')
      const valued = HEADER_VALUES.map((value, index) => message(`m${index}`, { headers: { plain: value } }))
      await assertUnharmed(world, listener, valued)
      for (const { message: got } of listener.received) {
        const value = HEADER_VALUES[Number(got.id?.slice(1))]
        if (got.headers?.['plain'] !== undefined && value !== undefined) assert.equal(got.headers['plain'], value)
      }
    },
  },
  {
    name: 'a type of any letters is carried or refused, and harms neither its message nor its neighbours',
    run: async (world) => {
      const listener = await world.listen('billing')
      await assertUnharmed(
        world,
        listener,
        TYPES.map((type, index) => message(`m${index}`, { type })),
      )
    },
  },
]

const plain: readonly Case[] = [
  {
    name: 'the plain client sees the attributes of CloudEvents (binary)',
    needs: ['plain client'],
    run: async (world) => {
      const [raw] = await received(world, 'binary', full)
      assert.deepEqual({ ...raw?.attributes }, attributesOf(full))
      assert.equal(raw?.contentType, 'application/json')
      assert.deepEqual(Buffer.from(raw?.body ?? []), full.data)
      for (const [name, value] of Object.entries(full.headers ?? {})) assert.equal(raw?.headers?.[name], value, name)
    },
  },
  {
    name: 'the plain client sees a CloudEvent in JSON (structured)',
    needs: ['plain client'],
    run: async (world) => {
      const [raw] = await received(world, 'structured', full)
      assert.match(String(raw?.contentType), /^application\/cloudevents\+json/)
      const event = JSON.parse(Buffer.from(raw?.body ?? []).toString())
      assert.deepEqual(event, {
        ...attributesOf(full),
        datacontenttype: 'application/json',
        data: JSON.parse(full.data.toString()),
      })
    },
  },
  {
    name: 'a CloudEvent of the plain client is understood (binary)',
    needs: ['plain client'],
    run: async (world) => {
      const { headers = {}, data } = full
      const sent = { body: data, contentType: 'application/json', attributes: attributesOf(full), headers }
      const got = await sentPlain(world, sent)
      assertSameMessage(got.message, full)
      assert.deepEqual(Buffer.from(got.arrival.body), full.data)
    },
  },
  {
    name: 'a CloudEvent of the plain client is understood (structured)',
    needs: ['plain client'],
    run: async (world) => {
      const event = { ...attributesOf(full), datacontenttype: 'application/json', data: { n: [1] }, sequence: '7' }
      const body = Buffer.from(JSON.stringify(event))
      const { message: got } = await sentPlain(world, { body, contentType: 'application/cloudevents+json' })
      const { headers: _, ...attributes } = full
      assertSameMessage({ ...got, headers: {} }, { ...attributes, data: Buffer.from('{"n":[1]}') })
      assert.equal(got.headers?.['sequence'], '7')
    },
  },
  {
    name: 'a message without CloudEvents attributes arrives with its headers and its bytes',
    needs: ['plain client'],
    run: async (world) => {
      const body = Buffer.from('{"order":7}')
      const { arrival } = await sentPlain(world, { body, contentType: 'application/json', headers: { tenant: 'ä b' } })
      assert.deepEqual(Buffer.from(arrival.body), body)
      assert.equal(arrival.contentType, 'application/json')
      assert.equal(arrival.headers['tenant'], 'ä b')
      assert.equal(arrival.attributes['id'], undefined)
      assert.equal(arrival.refused, undefined)
      for (const [name, value] of Object.entries(arrival.properties)) assert.equal(typeof value, 'string', name)
    },
  },
  {
    name: 'garbage arrives as the bytes that it is',
    needs: ['plain client'],
    run: async (world) => {
      const { arrival } = await sentPlain(world, { body: Buffer.from(allBytes()) })
      assert.deepEqual(Buffer.from(arrival.body), Buffer.from(allBytes()))
      assert.equal(arrival.attributes['id'], undefined)
    },
  },
  {
    name: 'headers named like members of objects are ordinary headers',
    needs: ['plain client'],
    run: async (world) => {
      const names = ['constructor', '__proto__', 'toString', 'hasOwnProperty']
      const headers = Object.fromEntries(names.map((name) => [name, 'text']))
      const { arrival } = await sentPlain(world, { body: Buffer.from('1'), headers })
      for (const name of Object.keys(arrival.headers)) assert.equal(arrival.headers[name], 'text', name)
      assert.equal(Object.hasOwn(arrival.headers, 'constructor'), true)
      assert.equal(arrival.attributes['constructor'], undefined)
    },
  },
]

export const wire: readonly Case[] = [...bothFormats, ...hostile, ...plain]

function allBytes(): readonly number[] {
  return Array.from({ length: 256 }, (_, byte) => 255 - byte)
}

/** Sends a message and gets the same one back. */
export async function roundTrip(world: World, written: DestinationOptions, sent: OutgoingMessage): Promise<void> {
  const listener = await world.listen('billing')
  assertConfirmed(await publish(world.destination(written), [sent]))
  const [got] = await listener.take(1)
  assert.ok(got)
  assertSameMessage(got.message, { datacontenttype: 'application/json', ...sent })
  if (written.format !== 'structured') assert.deepEqual(Buffer.from(got.arrival.body), Buffer.from(sent.data))
}

function assertSameMessage(got: IncomingMessage, sent: OutgoingMessage): void {
  const { data: gotData, headers: gotHeaders = {}, redelivered: _, ...gotAttributes } = got
  const { data, headers = {}, ...attributes } = sent
  assert.deepEqual({ ...gotAttributes }, attributes)
  assert.deepEqual({ ...gotHeaders }, { ...headers })
  assert.deepEqual(bytesOf(gotData, sent.datacontenttype), Buffer.from(data))
}

/** Data inside an event is a value: a text, or JSON that was written without spaces. */
function bytesOf(data: unknown, contentType: string | undefined): Buffer {
  if (data === undefined) return Buffer.alloc(0)
  if (typeof data === 'string' && isTextual(contentType)) return Buffer.from(data)
  return data instanceof Uint8Array ? Buffer.from(data) : Buffer.from(JSON.stringify(data))
}

async function received(world: World, format: EventFormat, sent: OutgoingMessage): Promise<readonly RawMessage[]> {
  await world.group('billing')
  assertConfirmed(await publish(world.destination({ format }), [sent]))
  return world.broker.receive('billing', 1)
}

async function sentPlain(world: World, sent: RawMessage): Promise<Received> {
  const listener = await world.listen('billing')
  await world.broker.send(sent)
  const [got] = await listener.take(1)
  assert.ok(got)
  got.ack()
  return got
}

function attributesOf(sent: OutgoingMessage): Record<string, string> {
  const { id, source, type, subject, time, traceparent, tracestate, key, correlationId, causationId } = sent
  const named = { id, source, type, subject, time, traceparent, tracestate }
  const renamed = { partitionkey: key, correlationid: correlationId, causationid: causationId }
  return { specversion: '1.0', ...named, ...renamed } as Record<string, string>
}

const HEADER_NAMES = [
  'ce-id',
  'ce_id',
  'CE_Type',
  'cloudEvents:id',
  'cloudEvents_source',
  'content-type',
  'Content-Type',
  'Nats-Msg-Id',
  'Nats-Rollup',
  'Nats-Expected-Stream',
  'CC',
  'BCC',
  'x-death',
  'x-delivery-count',
  'data',
  'constructor',
  '__proto__',
  'with space',
  'with:colon',
  'with\r\nline: breaks',
  'ümlaut',
  '',
  'x'.repeat(300),
]

const HEADER_VALUES = [
  '',
  ' ',
  ' around ',
  '%',
  '%41',
  '"',
  'a\r\nb: c',
  '\u0000',
  '\t',
  'ü\u{1f600}',
  'x'.repeat(5_000),
]

const TYPES = [
  'a b',
  'a*',
  '*',
  '>',
  'a.>',
  '.',
  'a..b',
  '.a.',
  '#',
  'a\r\nPUB x',
  '%',
  '\u0000',
  'ü\u{1f600}',
  'x'.repeat(400),
]

/** Each is confirmed and arrives as what it is, or is refused; neighbours that are nothing special all arrive. */
async function assertUnharmed(
  world: World,
  listener: Awaited<ReturnType<World['listen']>>,
  special: readonly OutgoingMessage[],
): Promise<void> {
  const ordinary = special.map(({ id }) => message(`ordinary ${id}`))
  const all = special.flatMap((each, index) => [each, ordinary[index] as OutgoingMessage])
  const sent = await publish(world.destination(), all)
  assertConfirmed(sent.filter((_, index) => index % 2 === 1))
  const arriving = all.filter((each, index) => {
    const status = sent[index]?.status
    assert.ok(status === 'confirmed' || status === 'refused', `${JSON.stringify(each.headers ?? each.type)}: ${status}`)
    return status === 'confirmed'
  })
  await listener.take(arriving.length)
  assertSame(
    listener.ids,
    arriving.map(({ id }) => id),
  )
  for (const { message: got } of listener.received) {
    const { type, source, datacontenttype, key } = all.find(({ id }) => id === got.id) as OutgoingMessage
    const same = { type: got.type, source: got.source, datacontenttype: got.datacontenttype, key: got.key }
    assert.deepEqual(same, { type, source, datacontenttype, key })
  }
}
