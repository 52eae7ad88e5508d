import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { Webhook as Standard } from 'standardwebhooks'
import { Webhook as Svix } from 'svix'
import { describe, expect, it, test } from 'vitest'
import { deliveryOf, webhookId } from '../../src/http/webhooks/outgoing/request.ts'
import { signatures } from '../../src/http/webhooks/outgoing/signing.ts'
import type { OutgoingMessage } from '../../src/message/index.ts'
import { webhookSecret } from '../../src/web/index.ts'

const current = (secret: string): { secret: string; until: null } => ({ secret, until: null })
const now = Date.now()

function message(over: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    id: '01939f2e-7a6b-7000-8000-000000000001',
    source: '/shop',
    type: 'order.placed',
    time: '2026-01-02T03:04:05.000Z',
    data: Buffer.from('{"total": 1.0, "name":"Zoë"}'),
    ...over,
  }
}

describe('signatures', () => {
  it('are those of the example of the specification', () => {
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    const body = Buffer.from('{"test": 2432232314}')
    const signed = signatures([current(secret)], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, body, now)
    expect(signed).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
  })

  it('satisfy standardwebhooks and svix, for the current secret and for the one before it', () => {
    const [fresh, old, gone, other] = [webhookSecret(), webhookSecret(), webhookSecret(), webhookSecret()]
    const secrets = [
      current(fresh),
      { secret: old, until: new Date(now + 60_000) },
      { secret: gone, until: new Date(now - 1) },
    ]
    const { headers, body } = deliveryOf(message(), secrets, 'envelope', 'test', now)
    const text = Buffer.from(body).toString()
    for (const secret of [fresh, old]) {
      const expected = { type: 'order.placed', timestamp: '2026-01-02T03:04:05.000Z', data: { total: 1, name: 'Zoë' } }
      expect(new Standard(secret).verify(text, headers)).toEqual(expected)
      new Svix(secret).verify(text, headers)
    }
    for (const secret of [gone, other]) {
      expect(() => new Standard(secret).verify(text, headers)).toThrow('No matching signature')
      expect(() => new Svix(secret).verify(text, headers)).toThrow('No matching signature')
    }
    expect(() => new Standard(fresh).verify(`${text} `, headers)).toThrow('No matching signature')
  })

  it('cover bytes that are no text', () => {
    const body = Buffer.from([0xff, 0xfe, 0x00, 0x80])
    const { headers, body: sent } = deliveryOf(
      message({ data: body, datacontenttype: 'application/octet-stream' }),
      [current(webhookSecret())],
      'data',
      'test',
      now,
    )
    expect(sent).toEqual(body)
    expect(headers['webhook-signature']).toMatch(/^v1,/)
  })

  test.for([32, 64])('are made by a private key of %d bytes, and verified by the public one', (length) => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const { d = '', x = '' } = privateKey.export({ format: 'jwk' })
    const bytes = Buffer.concat([Buffer.from(d, 'base64url'), Buffer.from(x, 'base64url')]).subarray(0, length)
    const shared = webhookSecret()
    const secrets = [current(`whsk_${bytes.toString('base64')}`), current(shared)]
    const { headers, body } = deliveryOf(message(), secrets, 'envelope', 'test', now)
    const [first = '', second = ''] = (headers['webhook-signature'] ?? '').split(' ')
    const content = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${Buffer.from(body)}`)
    expect(
      verify(
        null,
        content,
        createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
        Buffer.from(first.slice(4), 'base64'),
      ),
    ).toBe(true)
    expect(first).toMatch(/^v1a,/)
    expect(second).toMatch(/^v1,/)
    // Those who only know the older scheme find their signature among the others.
    expect(new Standard(shared).verify(Buffer.from(body).toString(), headers)).toBeTruthy()
  })

  test.for([
    ['none', []],
    ['only an old one', [{ secret: webhookSecret(), until: new Date(now - 1) }]],
    ['no prefix', [current('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')]],
    ['a public key', [current(`whpk_${Buffer.alloc(32).toString('base64')}`)]],
    ['too short', [current(`whsec_${Buffer.alloc(23).toString('base64')}`)]],
    ['too long', [current(`whsec_${Buffer.alloc(65).toString('base64')}`)]],
    ['no base64', [current('whsec_MfKQ9r8GKYqrTwjUPD8IL!ZIo2LaLaSw')]],
    ['a private key of a wrong length', [current(`whsk_${Buffer.alloc(31).toString('base64')}`)]],
    ['halves of two keys', [current(`whsk_${Buffer.alloc(64, 1).toString('base64')}`)]],
  ] as const)('need a usable secret: %s', ([, secrets]) => {
    const sign = (): unknown => deliveryOf(message(), secrets, 'envelope', 'test', now)
    expect(sign).toThrow(expect.objectContaining({ code: 'unusable-secret' }))
    // The message of the error goes into logs.
    for (const { secret } of secrets) expect(sign).not.toThrow(secret.slice(6))
  })

  it('use new secrets of 32 random bytes', () => {
    const made = new Set(Array.from({ length: 100 }, webhookSecret))
    expect(made.size).toBe(100)
    for (const secret of made) expect(Buffer.from(secret.slice(6), 'base64').length).toBe(32)
  })
})

describe('a delivery', () => {
  const secrets = [current(webhookSecret())]

  it('has the JSON in the envelope as it was published', () => {
    const { headers, body } = deliveryOf(message(), secrets, 'envelope', 'agent/1', now)
    expect(Buffer.from(body).toString()).toBe(
      '{"type":"order.placed","timestamp":"2026-01-02T03:04:05.000Z","data":{"total": 1.0, "name":"Zoë"}}',
    )
    expect(headers).toEqual({
      accept: '*/*',
      'content-type': 'application/json',
      'user-agent': 'agent/1',
      'webhook-id': message().id,
      'webhook-timestamp': String(Math.floor(now / 1_000)),
      'webhook-signature': expect.any(String),
    })
  })

  it('of a message without data or time says so', () => {
    const { time: _, ...timeless } = message({ data: new Uint8Array() })
    expect(Buffer.from(deliveryOf(timeless, secrets, 'envelope', 'a', now).body).toString()).toBe(
      '{"type":"order.placed","data":null}',
    )
  })

  it('of the data alone is a CloudEvent, without what is internal', () => {
    const { headers, body } = deliveryOf(
      message({
        type: 'bestellung.geändert',
        subject: 'a b',
        key: 'k',
        correlationId: 'c',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        headers: { authorization: 'internal', 'x-tenant': 'internal' },
      }),
      secrets,
      'data',
      'a',
      now,
    )
    expect(Buffer.from(body)).toEqual(Buffer.from(message().data))
    expect(Object.keys(headers).toSorted()).toEqual([
      ...['accept', 'ce-id', 'ce-source', 'ce-specversion', 'ce-subject', 'ce-time', 'ce-type', 'content-type'],
      ...['user-agent', 'webhook-id', 'webhook-signature', 'webhook-timestamp'],
    ])
    expect(headers).toMatchObject({
      'ce-type': 'bestellung.ge%C3%A4ndert',
      'ce-subject': 'a%20b',
      'ce-specversion': '1.0',
    })
  })

  test.for([
    ['text/plain', 'hello'],
    ['application/json', '{"a":'],
    ['application/json', Buffer.from([0x22, 0xff, 0x22])],
  ] as const)('is refused where an envelope cannot hold it: %s %s', ([datacontenttype, data]) => {
    const bad = message({ datacontenttype, data: Buffer.from(data) })
    expect(() => deliveryOf(bad, secrets, 'envelope', 'a', now)).toThrow(
      expect.objectContaining({ code: 'invalid-payload' }),
    )
    expect(deliveryOf(bad, secrets, 'data', 'a', now).headers['content-type']).toBe(datacontenttype)
  })

  it('is refused with a content type that would begin another header', () => {
    const bad = message({ datacontenttype: 'text/plain\r\nx-evil: 1' })
    expect(() => deliveryOf(bad, secrets, 'data', 'a', now)).toThrow('printable ASCII')
  })
})

describe('the header webhook-id', () => {
  it('is the id of the message', () => {
    expect(webhookId({ source: '/a', id: 'order-17:paid' })).toBe('order-17:paid')
  })

  test.for(['a.b', 'a b', 'Zoë', 'a\r\nb', 'x'.repeat(256), '\0'])('is another one that never changes for %j', (id) => {
    const one = webhookId({ source: '/a', id })
    expect(one).toMatch(/^[0-9a-f-]{36}$/)
    expect(webhookId({ source: '/a', id })).toBe(one)
    expect(webhookId({ source: '/b', id })).not.toBe(one)
  })
})
