import { CloudEvent, HTTP } from 'cloudevents'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Arrival } from '../../src/message/arrival.ts'
import { decodeArrival } from '../../src/message/arrival.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import {
  arrivalOf,
  type EncodedEvent,
  type EventFormat,
  encodeEvent,
  isStructured,
  isStructuredJson,
  percentDecode,
  percentEncode,
  sortHeaders,
} from '../../src/message/cloudevents.ts'
import { type IncomingMessage, REFUSED } from '../../src/message/message.ts'
import { anyCharacter } from '../support/any-text.ts'

const MAX_BYTES = 1024 * 1024
const anyText = fc.string({ unit: anyCharacter, maxLength: 40 })
const someText = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 40 })
const json = fc.json({ maxDepth: 5 }).filter((text) => !text.includes('__proto__'))
const payload = fc.oneof(
  fc.record({ data: json.map((text) => Buffer.from(text)), datacontenttype: fc.constant('application/json') }),
  fc.record({ data: json.map((text) => Buffer.from(text)), datacontenttype: fc.constant('application/vnd.x+json') }),
  fc.record({ data: bytes(), datacontenttype: fc.constantFrom('application/json', 'text/plain', 'a/b', 'image/png') }),
  fc.record({ data: fc.constant(Buffer.alloc(0)), datacontenttype: fc.constantFrom('application/json', 'text/plain') }),
)
const headers = fc.array(fc.tuple(someText, anyText), { maxLength: 5 }).map((pairs) => Object.fromEntries(pairs))
const optional = fc.record(
  {
    subject: anyText,
    time: anyText,
    key: anyText,
    correlationId: anyText,
    causationId: anyText,
    traceparent: anyText,
    tracestate: anyText,
    headers,
  },
  { requiredKeys: [] },
)
/** Without the sign for what could not be decoded, which is refused there (K20). */
const named = someText.filter((text) => !text.includes('\ufffd'))
const message: fc.Arbitrary<OutgoingMessage> = fc
  .tuple(fc.record({ id: named, source: named, type: someText }), optional, payload)
  .map(([identity, more, data]) => ({ ...identity, ...more, ...data }))

function bytes(): fc.Arbitrary<Buffer> {
  return fc.uint8Array({ maxLength: 100 }).map((array) => Buffer.from(array))
}

/** What a driver hands out for an event that it put on the wire under a prefix. */
function carried({ attributes, headers, contentType, body }: EncodedEvent, prefix: string): Arrival {
  const named = [...attributes.map(([name, value]) => [`${prefix}${name}`, value] as const), ...headers]
  const sorted = sortHeaders(named, { prefixes: [prefix.toLowerCase()], drop: () => false })
  return { ...sorted, body, contentType, properties: {}, redelivered: false, refused: undefined }
}

function assertSame(got: IncomingMessage, sent: OutgoingMessage, format: EventFormat): void {
  const { data: gotData, headers: gotHeaders = {}, ...gotAttributes } = got
  const { data, headers: all = {}, ...attributes } = sent
  expect(gotAttributes).toEqual(attributes)
  const sentHeaders = Object.entries(all).filter(([name]) => !/^(ce[-_]|cloudevents[:_]|content-type$)/i.test(name))
  expect(Object.entries(gotHeaders).sort()).toEqual(sentHeaders.sort())
  if (format === 'binary' || gotData instanceof Uint8Array) expect(Buffer.from(gotData as Uint8Array)).toEqual(data)
  else if (sent.datacontenttype === 'text/plain' && data.byteLength > 0)
    expect(gotData).toBe(Buffer.from(data).toString())
  else expect(gotData).toEqual(data.byteLength === 0 ? undefined : JSON.parse(Buffer.from(data).toString()))
}

describe.for<EventFormat>(['binary', 'structured'])('an event in %s mode', (format) => {
  it.for(['ce-', 'ce_', 'cloudEvents_', 'cloudEvents:'])(
    'says what its message says, under the prefix %s',
    (prefix) => {
      fc.assert(
        fc.property(message, (sent) => {
          const got = decodeArrival(carried(encodeEvent(sent, format), prefix), {}, MAX_BYTES)
          assertSame(got, sent, format)
        }),
        { numRuns: 100 },
      )
    },
  )

  it('keeps each byte of any payload', () => {
    fc.assert(
      fc.property(bytes(), (data) => {
        const sent = { id: 'a', source: '/s', type: 't', datacontenttype: 'application/octet-stream', data }
        const got = decodeArrival(carried(encodeEvent(sent, format), 'ce_'), {}, MAX_BYTES)
        expect(Buffer.from((got.data as Uint8Array | undefined) ?? [])).toEqual(data)
      }),
    )
  })

  it('is JSON unless the message says otherwise', () => {
    const sent = { id: 'a', source: '/s', type: 't', data: Buffer.from('{"n":1}') }
    const got = decodeArrival(carried(encodeEvent(sent, format), 'ce_'), {}, MAX_BYTES)
    expect(got.datacontenttype).toBe('application/json')
  })

  it('can be read if it can be published, also when it is as large and as deep as may be', () => {
    const data = Buffer.alloc(MAX_BYTES, 0xff)
    const large = { id: 'i'.repeat(2048), source: '/s', type: 't', datacontenttype: 'a/b', data }
    const got = decodeArrival(carried(encodeEvent(large, format), 'ce_'), {}, MAX_BYTES)
    expect(Buffer.from(got.data as Uint8Array).equals(data)).toBe(true)
    const deep = { id: 'a', source: '/s', type: 't', data: Buffer.from(`${'['.repeat(64)}${']'.repeat(64)}`) }
    expect(decodeArrival(carried(encodeEvent(deep, format), 'ce_'), {}, MAX_BYTES)[REFUSED]).toBeUndefined()
  })

  it('is read by the SDK of CloudEvents', () => {
    const sent = { id: 'a', source: '/s', type: 't', key: 'k', subject: 'x', data: Buffer.from('{"n":[1,"ü"]}') }
    const { attributes, contentType, body } = encodeEvent(sent, format)
    const named = Object.fromEntries(attributes.map(([name, value]) => [`ce-${name}`, value]))
    const event = HTTP.toEvent({ headers: { ...named, 'content-type': contentType }, body: body.toString() })
    expect(event).toMatchObject({ id: 'a', source: '/s', type: 't', partitionkey: 'k', subject: 'x' })
    expect((event as CloudEvent<unknown>).data).toEqual({ n: [1, 'ü'] })
  })

  it('of the SDK of CloudEvents is read here', () => {
    const event = new CloudEvent({
      id: 'a',
      source: '/s',
      type: 't',
      partitionkey: 'k',
      sequence: 7,
      data: { n: ['ü'] },
    })
    const { headers: named, body } = format === 'binary' ? HTTP.binary(event) : HTTP.structured(event)
    const sorted = sortHeaders(Object.entries(named), { prefixes: ['ce-'], drop: (name) => name === 'content-type' })
    const contentType = Object.entries(named).find(([name]) => name.toLowerCase() === 'content-type')?.[1]
    const arrival = {
      ...sorted,
      body: Buffer.from(body as string),
      contentType: String(contentType),
      properties: {},
      redelivered: false,
      refused: undefined,
    }
    const got = decodeArrival(arrival, {}, MAX_BYTES)
    expect(got).toMatchObject({ id: 'a', source: '/s', type: 't', key: 'k', headers: { sequence: '7' } })
    const data = got.data instanceof Uint8Array ? JSON.parse(Buffer.from(got.data).toString()) : got.data
    expect(data).toEqual({ n: ['ü'] })
  })
})

describe('encodeEvent', () => {
  it('leaves out headers that a reader would take for attributes', () => {
    const names = [
      'ce-id',
      'CE_id',
      'cloudEvents:id',
      'cloudevents_id',
      'Content-Type',
      'certain',
      'x-ce-id',
      'ceremony',
    ]
    const sent = {
      ...{ id: 'a', source: '/s', type: 't', data: Buffer.alloc(0) },
      headers: Object.fromEntries(names.map((name) => [name, 'x'])),
    }
    expect(encodeEvent(sent, 'binary').headers.map(([name]) => name)).toEqual(['certain', 'x-ce-id', 'ceremony'])
  })

  it('writes what only claims to be JSON as base64', () => {
    for (const data of [Buffer.from('{"a":'), Buffer.from([0xff]), Buffer.from('\ufeff[')]) {
      const { body } = encodeEvent({ id: 'a', source: '/s', type: 't', data }, 'structured')
      expect(JSON.parse(body.toString())).toMatchObject({ data_base64: data.toString('base64') })
    }
  })

  const structured = (datacontenttype: string, data: Buffer): Record<string, unknown> => {
    const { body } = encodeEvent({ id: 'a', source: '/s', type: 't', datacontenttype, data }, 'structured')
    return JSON.parse(body.toString())
  }

  it.for(['text/plain', 'text/plain; charset=utf-8', 'Text/CSV; charset="UTF-8"', 'text/html; charset=us-ascii'])(
    'writes text as a JSON string (%s)',
    (contentType) => {
      for (const text of ['"fine": ü\n', '\ufeffwith a byte order mark', '12']) {
        expect(structured(contentType, Buffer.from(text))).toMatchObject({ datacontenttype: contentType, data: text })
      }
    },
  )

  it.for([
    ['text/plain; charset=iso-8859-1', Buffer.from('abc')],
    ['text/plain', Buffer.from([0xff])],
    ['application/octet-stream', Buffer.from('abc')],
    ['text/plain', Buffer.alloc(10_000)],
  ] as const)('writes base64 where it is another encoding, no text, or shorter (%s)', ([contentType, data]) => {
    expect(structured(contentType, data)).toMatchObject({ data_base64: data.toString('base64') })
  })

  it('is read as the published text, even at the maximum size and with nothing but escapes', () => {
    for (const data of [Buffer.alloc(MAX_BYTES, '"'), Buffer.alloc(MAX_BYTES, 'x')]) {
      const sent = { id: 'a', source: '/s', type: 't', datacontenttype: 'text/plain', data }
      const got = decodeArrival(carried(encodeEvent(sent, 'structured'), 'ce_'), {}, MAX_BYTES)
      expect(Buffer.from(got.data as string | Uint8Array).equals(data)).toBe(true)
    }
  })

  it('keeps the text of numbers that JavaScript cannot hold', () => {
    const data = Buffer.from('{"n":12345678901234567890.10}')
    expect(encodeEvent({ id: 'a', source: '/s', type: 't', data }, 'structured').body.toString()).toContain(
      '"data":{"n":12345678901234567890.10}',
    )
  })
})

describe('arrivalOf', () => {
  it('is read as the message that it was made of', () => {
    fc.assert(
      fc.property(message, fc.boolean(), (sent, redelivered) => {
        const got = decodeArrival(arrivalOf(sent, redelivered), {}, MAX_BYTES)
        const { redelivered: marked, ...rest } = got
        expect(marked).toBe(redelivered ? true : undefined)
        expect(Object.fromEntries(Object.entries(rest).filter(([name]) => name !== 'headers'))).toEqual(
          Object.fromEntries(Object.entries(sent).filter(([name]) => name !== 'headers')),
        )
        expect(Object.entries(rest.headers ?? {})).toEqual(Object.entries(sent.headers ?? {}))
      }),
    )
  })
})

describe('sortHeaders', () => {
  const none = { prefixes: ['ce-'], drop: () => false }

  it('parts attributes from headers, whatever the case, and drops what the broker adds', () => {
    const sorted = sortHeaders(
      [
        ['CE-Id', 'a'],
        ['ce-SOURCE', '/s'],
        ['Tenant', 'b'],
        ['X-Death', 'c'],
        ['ce', 'd'],
      ],
      { prefixes: ['ce-', 'ce_'], drop: (name) => name === 'x-death' },
    )
    expect({ ...sorted.attributes }).toEqual({ id: 'a', source: '/s' })
    expect({ ...sorted.headers }).toEqual({ Tenant: 'b', ce: 'd' })
  })

  it('takes texts, numbers, truth, dates and bytes that are UTF-8; not lists, tables and other bytes', () => {
    const values: [string, unknown][] = [
      ['text', 'a'],
      ['number', 1.5],
      ['bigint', 2n ** 63n],
      ['boolean', false],
      ['date', new Date(0)],
      ['bytes', Buffer.from('ü')],
      ['never', new Date(Number.NaN)],
      ['broken', Buffer.from([0xff])],
      ['list', ['a']],
      ['table', { a: 1 }],
      ['null', null],
      ['absent', undefined],
      ['call', () => 'a'],
    ]
    expect({ ...sortHeaders(values, none).headers }).toEqual({
      text: 'a',
      number: '1.5',
      bigint: '9223372036854775808',
      boolean: 'false',
      date: '1970-01-01T00:00:00.000Z',
      bytes: 'ü',
    })
  })

  it('reads UTF-8 after bytes that were none', () => {
    for (let time = 0; time < 3; time++) {
      const pairs: [string, unknown][] = [
        ['broken', Buffer.from([0xe2, 0x82])],
        ['fine', Buffer.from('€')],
      ]
      expect({ ...sortHeaders(pairs, none).headers }).toEqual({ fine: '€' })
    }
  })

  it('does not reach into prototypes', () => {
    const names = ['__proto__', 'constructor', 'toString', 'ce-__proto__', 'ce-constructor']
    const { attributes, headers } = sortHeaders(
      names.map((name) => [name, 'x']),
      none,
    )
    expect(Object.keys(headers)).toEqual(['__proto__', 'constructor', 'toString'])
    expect(Object.keys(attributes)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(headers)).toBeNull()
    expect(Object.getPrototypeOf(attributes)).toBeNull()
  })

  it('takes twenty thousand headers', () => {
    const many = Array.from({ length: 20_000 }, (_, n) => [n % 2 === 0 ? `ce-a${n}` : `h${n}`, 'x'] as const)
    const { attributes, headers } = sortHeaders(many, none)
    expect([Object.keys(attributes).length, Object.keys(headers).length]).toEqual([10_000, 10_000])
  })
})

describe('percent encoding', () => {
  it('brings any text back, in printable ASCII without spaces and quotes', () => {
    fc.assert(
      fc.property(anyText, (value) => {
        const encoded = percentEncode(value)
        expect(encoded).toMatch(/^[!#-~]*$/)
        expect(percentDecode(encoded)).toBe(value)
      }),
      { numRuns: 500 },
    )
  })

  it('leaves plain texts alone and writes the rest as the binding says', () => {
    expect(percentEncode('/shop?a=b&c')).toBe('/shop?a=b&c')
    expect(percentEncode('Euro € 😀 "50 %"')).toBe('Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%20%25%22')
    expect(percentEncode('a\r\nb\u0000\u007f')).toBe('a%0D%0Ab%00%7F')
  })

  it('reads what is not well encoded as it stands', () => {
    for (const value of ['%', '100%', '%zz', '%ff', '%e2%82', 'a%']) expect(percentDecode(value)).toBe(value)
    expect(percentDecode('%e2%82%ac')).toBe('€')
  })
})

describe('content types', () => {
  it.for([
    ['application/cloudevents+json', true, true],
    ['Application/CloudEvents+JSON; charset=utf-8', true, true],
    [' application/cloudevents+json ;charset=UTF-8', true, true],
    ['application/cloudevents', true, false],
    ['application/cloudevents-batch+json', true, false],
    ['application/cloudevents+avro', true, false],
    ['application/cloudevents+jsonx', true, false],
    ['application/json', false, false],
    ['application/cloudeventsx+json', false, false],
    ['text/plain; application/cloudevents+json', false, false],
  ] as const)('%s', ([contentType, structured, readable]) => {
    expect(isStructured(contentType)).toBe(structured)
    expect(isStructuredJson(contentType)).toBe(readable)
  })

  it('none is no event', () => {
    expect(isStructured(undefined)).toBe(false)
  })
})
