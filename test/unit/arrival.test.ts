import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { createHapax, defineMessage, HapaxError, type Mapping, silentLogger } from 'hapax'
import type { Arrival } from 'hapax/contracts'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { checkMapping, decodeArrival } from '../../src/message/arrival.ts'
import { DELIVERY, type IncomingMessage, REFUSED } from '../../src/message/message.ts'
import { anyCharacter } from '../support/any-text.ts'

const MAX_BYTES = 1024 * 1024
const STRUCTURED = 'application/cloudevents+json'
const PING = { specversion: '1.0', id: 'a', source: '/s', type: 'ping' }

interface Given extends Partial<Omit<Arrival, 'body'>> {
  readonly body?: Uint8Array | string
}

function arrival({ body = '', ...more }: Given): Arrival {
  return {
    body: typeof body === 'string' ? Buffer.from(body) : body,
    contentType: 'application/json',
    attributes: {},
    headers: {},
    properties: {},
    redelivered: false,
    refused: undefined,
    ...more,
  }
}

function decode(given: Given, mapping: Mapping = {}, maxBytes = MAX_BYTES): IncomingMessage {
  return decodeArrival(arrival(given), mapping, maxBytes)
}

const event = (more: object): Given => ({ contentType: STRUCTURED, body: JSON.stringify({ ...PING, ...more }) })

/** It is refused with this code, and all of its bytes are kept. */
function expectKept(given: Given, code: HapaxError['code'], mapping: Mapping = {}, maxBytes = MAX_BYTES): HapaxError {
  const message = decode(given, mapping, maxBytes)
  const refused = message[REFUSED]
  expect(refused?.code, refused?.message).toBe(code)
  expect(Buffer.from(message.data as Uint8Array).equals(arrival(given).body)).toBe(true)
  expect(message.datacontenttype).toBe(arrival(given).contentType)
  return refused as HapaxError
}

describe('a CloudEvent', () => {
  it('in binary mode has its attributes beside the body', () => {
    const attributes = { ...PING, subject: 'x', partitionkey: 'k', correlationid: 'c', causationid: 'd', tenant: 't' }
    const got = decode({ body: '{"n":1}', attributes, headers: { plain: 'p', tenant: 'of the header' } })
    expect(got).toEqual({
      ...{ id: 'a', source: '/s', type: 'ping', subject: 'x', key: 'k', correlationId: 'c', causationId: 'd' },
      datacontenttype: 'application/json',
      data: Buffer.from('{"n":1}'),
      headers: { plain: 'p', tenant: 'of the header' },
    })
  })

  it.for([
    ['1731960000123', '2024-11-18T20:00:00.123Z'],
    ['1731960000', '2024-11-18T20:00:00.000Z'],
    ['2024-11-18T21:00:00+01:00', '2024-11-18T21:00:00+01:00'],
    ['17319600001', '17319600001'],
    ['yesterday', 'yesterday'],
  ] as const)('has the time %s as a number of SDKs, or as it was written', ([time, expected]) => {
    expect(decode({ attributes: { ...PING, time } }).time).toBe(expected)
    expect(decode(event({ time: /^\d+$/.test(time) ? Number(time) : time })).time).toBe(expected)
  })

  it('in binary mode has the content type of its data as an attribute, and not as a header', () => {
    const attributes = { ...PING, datacontenttype: 'text/csv' }
    const alone = decode({ contentType: undefined, body: 'a,b', attributes })
    expect(alone).toMatchObject({ datacontenttype: 'text/csv' })
    expect(alone.headers).toBeUndefined()
    expect(decode({ contentType: 'text/plain', body: 'a,b', attributes }).datacontenttype).toBe('text/plain')
  })

  it('in structured mode has them in the body, and extensions among the headers', () => {
    const given = event({ data: { n: 1 }, datacontenttype: 'application/x+json', sequence: 7, dry: true, none: null })
    const got = decode({ ...given, headers: { plain: 'p' } })
    const { headers, ...others } = got
    expect(others).toEqual({
      ...{ id: 'a', source: '/s', type: 'ping' },
      datacontenttype: 'application/x+json',
      data: { n: 1 },
    })
    expect({ ...headers }).toEqual({ plain: 'p', sequence: '7', dry: 'true' })
  })

  it.for([
    ['a value', { data: [1] }, [1]],
    ['null', { data: null }, null],
    ['a text', { data: 'x', datacontenttype: 'text/plain' }, 'x'],
    ['nothing', {}, undefined],
    ['bytes', { data_base64: 'AP8=' }, Buffer.from([0, 255])],
    ['bytes without padding', { data_base64: 'AP8' }, Buffer.from([0, 255])],
    ['no bytes', { data_base64: '' }, Buffer.alloc(0)],
    ['null instead of bytes', { data_base64: null, data: 1 }, 1],
  ] as const)('carries %s as data', ([, more, expected]) => {
    expect(decode(event(more)).data).toEqual(expected)
  })

  it('may say that it came before', () => {
    expect(decode({ attributes: PING, redelivered: true }).redelivered).toBe(true)
    expect(decode({ attributes: PING })).not.toHaveProperty('redelivered')
  })

  it('that the broker has given up is refused, and keeps its data', () => {
    const got = decode({
      ...event({ data: { n: 1 } }),
      refused: new HapaxError('given-up-by-broker', 'after 5 deliveries'),
    })
    expect(got[REFUSED]).toMatchObject({ code: 'given-up-by-broker', message: 'after 5 deliveries' })
    expect(got).toMatchObject({ id: 'a', data: { n: 1 } })
  })

  it('that lacks its source or type says which, and how to set it', () => {
    for (const absent of ['source', 'type'] as const) {
      const { [absent]: _, ...attributes } = PING
      const got = decode({ attributes, body: '1' })
      expect(got[REFUSED]).toMatchObject({ code: 'invalid-message', fields: { attribute: absent } })
      expect(got[REFUSED]?.message).toBe(
        `the message came without a ${absent}: say where it is found, with '${absent}' in .from()`,
      )
      expect(got.id).toBe('a')
    }
  })
})

describe('a message of a sender that knows nothing of CloudEvents', () => {
  const body = JSON.stringify({
    order: { id: 'o1', number: 7, big: 2 ** 53, half: 1.5, yes: true, none: null, list: [{ id: 'first' }, 'second'] },
    'a.b': 'dotted',
  })
  const given = {
    body,
    headers: { 'X-Id': 'h1', constructor: 'c' },
    properties: { messageId: 'p1', type: 'ping' },
  }
  const id = (from: Mapping['id'] & {}): string | undefined =>
    decode(given, { id: from, type: 'ping', source: '/legacy' }).id

  it.for<[string, Mapping['id'] & {}, string | undefined]>([
    ['a fixed text', 'fixed', 'fixed'],
    ['a property', { property: 'messageId' }, 'p1'],
    ['a property that is not there', { property: 'appId' }, undefined],
    ['a property that every object has', { property: 'toString' }, undefined],
    ['a header', { header: 'X-Id' }, 'h1'],
    ['a header in another case', { header: 'x-iD' }, 'h1'],
    ['a header called constructor', { header: 'constructor' }, 'c'],
    ['a header that every object has', { header: 'toString' }, undefined],
    ['a path', { path: 'order.id' }, 'o1'],
    ['a path into a list', { path: 'order.list.0.id' }, 'first'],
    ['a path to an item', { path: 'order.list.1' }, 'second'],
    ['a path behind a list', { path: 'order.list.2.id' }, undefined],
    ['a path through a text', { path: 'order.id.length' }, undefined],
    ['a path that leads nowhere', { path: 'no.where' }, undefined],
    ['a path to what every object has', { path: 'constructor.name' }, undefined],
    ['a path to __proto__', { path: '__proto__.id' }, undefined],
    ['a path through a prototype', { path: 'order.list.__proto__.length' }, undefined],
    ['a whole number', { path: 'order.number' }, '7'],
    ['a number that may have lost digits', { path: 'order.big' }, undefined],
    ['a fraction', { path: 'order.half' }, undefined],
    ['truth', { path: 'order.yes' }, undefined],
    ['null', { path: 'order.none' }, undefined],
    ['an object', { path: 'order' }, undefined],
    ['a function', ({ headers, properties }) => `${headers['X-Id']}-${properties['messageId']}`, 'h1-p1'],
    ['a function that finds nothing', () => undefined, undefined],
  ])('has its id from %s', ([, from, expected]) => {
    expect(id(from)).toBe(expected)
  })

  it('has all of its attributes from where .from() says', () => {
    const got = decode(given, {
      id: { header: 'x-id' },
      type: { property: 'type' },
      source: '/legacy',
      key: { path: 'order.id' },
    })
    expect(got).toMatchObject({ id: 'h1', type: 'ping', source: '/legacy', key: 'o1', data: Buffer.from(body) })
    expect(got[REFUSED]).toBeUndefined()
  })

  it('keeps what it says itself where the mapping finds nothing', () => {
    const got = decode(
      { attributes: PING, body },
      { id: { header: 'none' }, source: { property: 'none' }, type: 'pong' },
    )
    expect(got).toMatchObject({ id: 'a', source: '/s', type: 'pong' })
  })

  it('is not parsed unless a path asks for it', () => {
    expect(decode({ body: 'no JSON' }, { id: 'a', type: 'ping', source: '/s' })[REFUSED]).toBeUndefined()
    expectKept({ body: 'no JSON' }, 'undecodable', { id: { path: 'a' }, type: 'ping', source: '/s' })
  })

  it('is refused with its bytes where a function throws, whatever it throws', () => {
    for (const thrown of [new Error('mine'), 'text', null, undefined, new Proxy({}, { get: () => assertNever() })]) {
      const id = (): never => {
        throw thrown
      }
      expectKept({ body, attributes: PING }, 'undecodable', { id })
      expectKept(event({ data: 1 }), 'undecodable', { id })
    }
  })

  it('is refused where a function gives no text, also later', async () => {
    const unhandled: unknown[] = []
    const note = (error: unknown): void => void unhandled.push(error)
    process.on('unhandledRejection', note)
    for (const answer of [7, {}, Symbol('s'), Promise.resolve('a'), Promise.reject(new Error('late'))]) {
      const refused = expectKept({ body, attributes: PING }, 'undecodable', { id: (() => answer) as () => string })
      expect(refused.message).toMatch(/expected the function in \.from\(\) to return a text at once/)
    }
    await setImmediate()
    await setImmediate()
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })
})

describe('what was sent to do harm', () => {
  it.for<[string, Given]>([
    ['half a text', { body: '{"id":' }],
    ['nothing', { body: '' }],
    ['a number', { body: '7' }],
    ['null', { body: 'null' }],
    ['a list', { body: '[]' }],
    ['bytes that are no UTF-8', { body: Buffer.from([0x7b, 0xff, 0x7d]) }],
    ['a field called __proto__', { body: '{"id":"a","__proto__":{"type":"ping"}}' }],
    ['a field called __proto__, deep inside', event({ data: { a: [JSON.parse('{"__proto__":1}')] } })],
    ['depth 100,000', { body: `{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}` }],
    ['depth 100,000 without an end', { body: '{"data":'.repeat(100_000) }],
    ['version 0.3', event({ specversion: '0.3' })],
    ['version 2.0', event({ specversion: '2.0' })],
    ['base64 with other signs', event({ data_base64: 'AP8!' })],
    ['base64 of an impossible length', event({ data_base64: 'AP8AA' })],
    ['base64 with wrong padding', event({ data_base64: 'AP8==' })],
    ['base64 with padding inside', event({ data_base64: 'AP=8' })],
    ['base64 that is a number', event({ data_base64: 7 })],
  ])('an event of %s is refused, with its bytes', ([, given]) => {
    expectKept({ contentType: STRUCTURED, ...given }, 'undecodable')
    expect(({} as { type?: unknown }).type).toBeUndefined()
  })

  it.for(['application/cloudevents-batch+json', 'application/cloudevents+avro', 'application/cloudevents'])(
    '%s is refused, with its bytes',
    (contentType) => {
      const { message } = expectKept({ body: `[${JSON.stringify(PING)}]`, contentType }, 'undecodable')
      expect(message).toContain(`expected application/cloudevents+json, got ${contentType}`)
    },
  )

  it('version 0.3 in binary mode is refused, with its bytes', () => {
    expectKept({ body: '{}', attributes: { ...PING, specversion: '0.3' } }, 'undecodable')
  })

  it('an event above the limit is not parsed', () => {
    const body = Buffer.alloc(10 * 1024 * 1024, '[')
    expectKept({ body, contentType: STRUCTURED }, 'too-large')
    expectKept({ body, attributes: PING }, 'too-large', { key: { path: 'a' } })
    expect(decode({ body, attributes: PING })[REFUSED]).toBeUndefined()
  })

  it('numbers in the place of texts are taken only as far as they are exact', () => {
    expect(decode(event({ id: 7 })).id).toBe('7')
    const given = { contentType: STRUCTURED, body: '{"id":12345678901234567890,"source":"/s","type":"ping"}' }
    expect(decode(given).id).toBeUndefined()
    expect(decode(event({ id: {} })).id).toBeUndefined()
    expect(decode(event({ source: ['/s'] }))[REFUSED]).toMatchObject({ fields: { attribute: 'source' } })
  })

  it('names that objects have are names like others', () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'headers', 'data']
    const hostile = Object.fromEntries(names.map((name) => [name, 'x']))
    const got = decode({ attributes: { ...hostile, ...PING }, headers: hostile, properties: hostile })
    expect(got).toMatchObject({ id: 'a', source: '/s', type: 'ping', data: Buffer.alloc(0) })
    expect(Object.keys(got.headers ?? {}).sort()).toEqual([...names].sort())
    expect(Object.getPrototypeOf(got)).toBe(Object.prototype)
    const structured = decode(event({ constructor: 'x', toString: 'y', redelivered: true, attempt: 7 }))
    expect({ ...structured.headers }).toEqual({ constructor: 'x', toString: 'y', redelivered: 'true', attempt: '7' })
    expect(structured).not.toHaveProperty('redelivered')
  })

  it('twenty thousand headers and attributes are taken', () => {
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`a${n}`, 'x']))
    const got = decode({ attributes: { ...many, ...PING }, headers: { mine: 'y' } }, { id: { header: 'MINE' } })
    expect(got.id).toBe('y')
    expect(Object.keys(got.headers ?? {})).toHaveLength(20_001)
  })

  it('lone surrogates come through to where ids are checked', async () => {
    const store = memory()
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const consumer = hapax.consumer('billing').on(defineMessage('ping'), () => {})
    const given = { contentType: STRUCTURED, body: String.raw`{"id":"\ud800","source":"/s","type":"ping"}` }
    const outcome = await consumer.handle(decode(given))
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'invalid-id' } })
    await hapax.close()
  })

  it('nothing at all makes it throw, and what it refuses keeps its bytes', () => {
    const text = fc.string({ unit: anyCharacter })
    const record = fc.dictionary(fc.oneof(text, fc.constantFrom('__proto__', 'id', 'specversion', 'type')), text)
    const from = fc.oneof(
      text,
      fc.record({ path: text }),
      fc.record({ header: text }),
      fc.record({ property: text }),
      fc.func(text),
    )
    const given = fc.record({
      body: fc.oneof(
        fc.uint8Array(),
        fc.json().map((each) => Buffer.from(each)),
        fc.object().map((each) => Buffer.from(JSON.stringify({ ...PING, ...each }))),
      ),
      contentType: fc.oneof(fc.constantFrom(undefined, STRUCTURED, 'application/json'), text),
      attributes: record,
      headers: record,
      properties: record,
      redelivered: fc.boolean(),
      refused: fc.option(
        text.map((what) => new HapaxError('undecodable', what)),
        { nil: undefined },
      ),
    })
    const mapping = fc.record({ id: from, type: from, source: from, key: from }, { requiredKeys: [] })
    fc.assert(
      fc.property(given, mapping, fc.nat(200), (each, where, maxBytes) => {
        const { body } = each
        const before = Buffer.from(body)
        const got = decodeArrival(each as Arrival, where as Mapping, maxBytes)
        const code = got[REFUSED]?.code
        if (code === 'undecodable' || code === 'too-large') expect(got.data).toBe(body)
        expect(Buffer.from(body)).toEqual(before)
      }),
      { numRuns: 300 },
    )
  })
})

describe('what was refused', () => {
  const garbage = (redelivered = false): Arrival =>
    ({ ...arrival({ body: Buffer.from('{"order":7}') }), redelivered }) as Arrival

  it('C5: is kept as often as it came, also if nothing tells the messages apart', async () => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const consumer = hapax.consumer('billing').on(defineMessage('placed'), () => {})
    const [first, second] = [garbage(), garbage()]
    // The first one comes to hand once more, because the database was away.
    for (const each of [first, second, { ...first, redelivered: true }]) {
      await consumer.handle(decodeArrival(each, {}, 1_000))
    }
    expect(await hapax.failed.count()).toBe(2)
    await hapax.close()
  })

  it('is the same one when it is redelivered and looks exactly like it', () => {
    const [first, second] = [garbage(true), garbage(true)].map((each) => decodeArrival(each, {}, 1_000))
    expect(first?.[DELIVERY]).toBe(second?.[DELIVERY])
  })

  it('keeps what was found, and shows the properties', () => {
    const mapping: Mapping = { id: { property: 'messageId' }, type: { path: 'kind' }, source: '/legacy' }
    const got = decode({ body: Buffer.from('garbage'), properties: { messageId: 'm-1' } }, mapping)
    expect(got).toMatchObject({ id: 'm-1', source: '/legacy', headers: { 'property messageId': 'm-1' } })
    expect(got[REFUSED]?.code).toBe('undecodable')
  })
})

describe('where attributes are said to be found', () => {
  it.for<[string, unknown]>([
    ['a number', 7],
    ['null', null],
    ['an empty text', ''],
    ['an empty place', { path: '' }],
    ['no place', {}],
    ['two places', { path: 'a', header: 'b' }],
    ['an unknown place', { body: 'a' }],
    ['a place that is no text', { path: 7 }],
    ['a list', ['a']],
  ])('is not %s', ([, id]) => {
    expect(() => checkMapping({ id } as Mapping)).toThrow(HapaxError)
    expect(() => checkMapping({ id } as Mapping)).toThrow(/^expected id to be /)
  })

  it('is a text, a property, a header, a path or a function', () => {
    for (const id of ['a', { property: 'a' }, { header: 'a' }, { path: 'a' }, () => 'a', undefined]) {
      expect(checkMapping({ id } as Mapping)).toEqual({ id })
    }
  })
})

function assertNever(): never {
  throw new Error('a proxy that throws')
}

describe('attributes under plain names', () => {
  const headers = { 'Message-Id': 'a', type: 'ping', source: '/s', Key: 'k', 'correlation-id': 'c', tenant: 'acme' }

  it('are read where there are none of CloudEvents', () => {
    expect(decode({ headers })).toMatchObject({ id: 'a', type: 'ping', source: '/s', key: 'k', correlationId: 'c' })
    expect({ ...decode({ headers }).headers }).toEqual({ tenant: 'acme' })
    const properties = { messageId: 'a', type: 'ping', appId: '/s', correlationId: 'c', exchange: 'shop' }
    expect(decode({ properties })).toMatchObject({ id: 'a', type: 'ping', source: '/s', correlationId: 'c' })
  })

  it('are ordinary headers beside those of CloudEvents', () => {
    const { headers: kept, ...message } = decode({ headers, attributes: PING })
    expect(message).toMatchObject({ id: 'a', source: '/s' })
    expect({ ...kept }).toEqual(headers)
    expect(decode({ headers, attributes: { type: 'ping', source: '/s' } }).id).toBeUndefined()
  })

  it.for(['Message-Id', 'type', 'source'] as const)('say nothing without %s', (absent) => {
    const { [absent]: _, ...others } = headers
    expect(decode({ headers: others })).not.toHaveProperty('key')
    expect(decode({ headers: { ...others, [absent]: '' } })).not.toHaveProperty('key')
  })

  it('give way to what .from() says', () => {
    const mapping = { id: { path: 'order' }, source: '/mine' }
    expect(decode({ headers, body: '{"order":"7"}' }, mapping)).toMatchObject({
      id: '7',
      type: 'ping',
      source: '/mine',
    })
  })
})
