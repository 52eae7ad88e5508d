import { createSecretKey, generateKeyPairSync, sign as signBytes } from 'node:crypto'
import { sign as octokitSign, verify as octokitVerify } from '@octokit/webhooks-methods'
import fc from 'fast-check'
import type { WebhookRequest } from 'hapax/contracts'
import {
  github,
  hmac,
  type Scheme,
  shopify,
  slack,
  standardWebhooks,
  stripe,
  stripeSignature,
  twilio,
  webhook,
} from 'hapax/webhooks'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'
import twilioSdk from 'twilio'
import { describe, expect, it } from 'vitest'
import { signedFields, twilioSignatures } from '../../src/http/webhooks/incoming/twilio.ts'
import {
  changed,
  eventOf,
  forgeries,
  type Provider,
  providerOf,
  providers,
  type Sent,
} from '../support/webhook-providers.ts'

const NOW = 1_614_265_330_000

function asked(sent: Sent, nowMs = Date.now()): WebhookRequest {
  return { method: 'POST', url: sent.url, headers: new Headers(sent.headers), body: sent.body, nowMs }
}

const verdictOf = (scheme: Scheme, sent: Sent, nowMs?: number) => scheme.verify(asked(sent, nowMs)).kind
const text = (value: string): Uint8Array => Buffer.from(value)
const utf8 = (body: Uint8Array): string => Buffer.from(body).toString('utf8')

/** Any bytes, and now and then none, many, or none that are text. */
const bodies = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.json().map(text),
  fc.constantFrom(new Uint8Array(), Uint8Array.of(0xff, 0xfe, 0x00)),
)

describe('the signatures of the documentation', () => {
  it('Standard Webhooks', () => {
    const scheme = standardWebhooks('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
    const sent = {
      url: 'https://x.example',
      headers: {
        'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'webhook-timestamp': '1614265330',
        'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
      },
      body: text('{"test": 2432232314}'),
    }
    expect(scheme.verify(asked(sent, NOW))).toMatchObject({ kind: 'verified', id: 'msg_p5jXN8AQM9LWM0D4loKWxJek' })
  })

  it('GitHub', () => {
    const headers = {
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      'x-github-event': 'issues',
      'content-type': 'text/plain',
    }
    const sent = { url: 'https://x.example', headers, body: text('Hello, World!') }
    expect(github(`It's a Secret to Everybody`).verify(asked(sent))).toMatchObject({
      ...{ kind: 'verified', id: '72d3162e-cc78-11e3-81ab-4c9367dc0958', type: 'issues' },
    })
  })

  it('Slack', () => {
    const body =
      'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
    const headers = {
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      'x-slack-request-timestamp': '1531420618',
      'content-type': 'application/x-www-form-urlencoded',
    }
    const sent = { url: 'https://x.example', headers, body: text(body) }
    expect(slack('8f742231b10e8888abcd99yyyzzz85a5').verify(asked(sent, 1_531_420_618_000))).toMatchObject({
      ...{ kind: 'verified', type: '/webhook-collect', id: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
    })
  })

  it('Twilio', () => {
    const fields = 'CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212'
    const signed = `https://mycompany.com/myapp.php?foo=1&bar=2${signedFields(text(fields))}`
    const keys = [createSecretKey(Buffer.from('12345'))]
    expect(twilioSignatures(keys, signed)).toEqual(['RSOYDt4T1cUTdK1PDd93/VVr8B8='])
  })
})

describe('a library of the provider signs, and hapax verifies', () => {
  it('standardwebhooks and svix', () => {
    const { secrets } = providerOf('standard-webhooks')
    for (const [Library, prefix] of [[StandardWebhook, 'webhook'] as const, [SvixWebhook, 'svix'] as const]) {
      const signature = new Library(secrets[0]).sign('msg_1', new Date(NOW), '{"type":"paid"}')
      const headers = {
        [`${prefix}-id`]: 'msg_1',
        [`${prefix}-timestamp`]: '1614265330',
        [`${prefix}-signature`]: signature,
      }
      const sent = { url: 'https://x.example', headers, body: text('{"type":"paid"}') }
      expect(standardWebhooks({ secrets: secrets[0] }).verify(asked(sent, NOW))).toMatchObject({
        ...{ kind: 'verified', id: 'msg_1', type: 'paid' },
      })
    }
  })

  it('stripe', () => {
    const payload = '{"id":"evt_1","type":"invoice.paid","created":1614265330}'
    const secret = 'whsec_0123456789abcdef'
    const header = Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: NOW / 1_000 })
    const sent = { url: 'https://x.example', headers: { 'stripe-signature': header }, body: text(payload) }
    for (const preset of [stripe, stripeSignature]) {
      expect(preset({ secrets: [secret] }).verify(asked(sent, NOW))).toMatchObject({
        ...{ kind: 'verified', id: 'evt_1', type: 'invoice.paid', time: new Date(NOW).toISOString() },
      })
    }
  })

  it('@octokit/webhooks-methods', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ minLength: 1, unit: 'grapheme' }), async (payload) => {
        const headers = {
          'x-hub-signature-256': await octokitSign('0123456789abcdef', payload),
          'x-github-delivery': 'd1',
          'x-github-event': 'push',
        }
        const sent = { url: 'https://x.example', headers, body: text(payload) }
        expect(verdictOf(github('0123456789abcdef'), sent)).toBe('verified')
      }),
    )
  })

  it('twilio: ports, queries, quotes, fields that come twice', () => {
    const token = '0123456789abcdef0123456789abcdef'
    const urls = [
      'https://example.com/a',
      'https://example.com:443/a?x=1&y=2',
      'https://example.com:8443/a',
      'http://example.com/a?empty=',
      'http://example.com:80/a',
      `https://example.com/a?name=O'Brien&x=%20`,
      'https://user:pass@example.com/a',
      'https://[2001:db8::1]:8443/a',
    ]
    const cases: readonly (readonly [string, Record<string, string | string[]>])[] = [
      ['A=1&B=2', { A: '1', B: '2' }],
      ['b=2&a=1&B=3', { b: '2', a: '1', B: '3' }],
      ['A=2&A=1&A=2', { A: ['2', '1', '2'] }],
      ['Body=%C3%A4%20%F0%9F%98%80+x', { Body: 'ä 😀 x' }],
      ['', {}],
    ]
    for (const url of urls) {
      for (const [body, params] of cases) {
        const signature = twilioSdk.getExpectedTwilioSignature(token, url, params)
        const sent = { url, headers: { 'x-twilio-signature': signature }, body: text(body) }
        expect([url, body, verdictOf(twilio(token), sent)]).toEqual([url, body, 'verified'])
        // What `Request` makes of the URL: userinfo is refused there.
        if (!url.includes('@')) {
          const seen = { ...sent, url: new Request(url).url }
          expect([url, verdictOf(twilio(token), seen)]).toEqual([url, 'verified'])
        }
      }
    }
  })

  it('twilio: behind a proxy', () => {
    const token = '0123456789abcdef0123456789abcdef'
    const signature = twilioSdk.getExpectedTwilioSignature(token, 'https://shop.example/hooks/sms?a=1', { A: '1' })
    const sent = {
      url: 'http://10.0.0.7:3000/sms?a=1',
      headers: { 'x-twilio-signature': signature },
      body: text('A=1'),
    }
    expect(verdictOf(twilio(token), sent)).toBe('bad-signature')
    expect(verdictOf(twilio({ secrets: token, url: 'https://shop.example/hooks/sms' }), sent)).toBe('verified')
    expect(verdictOf(twilio({ secrets: token, url: 'https://shop.example/hooks/sms#rc=2' }), sent)).toBe('verified')
    expect(verdictOf(twilio({ secrets: token, url: 'https://shop.example/hooks/other' }), sent)).toBe('bad-signature')
  })
})

describe('hapax signs, and a library of the provider verifies', () => {
  const own = (name: string): readonly [Provider, Sent] => [providerOf(name), eventOf(providerOf(name), 'evt_1')]

  it.each(['standard-webhooks', 'standard-webhooks (svix)'])('%s', (name) => {
    const [provider, { body, headers }] = own(name)
    const Library = name.includes('svix') ? SvixWebhook : StandardWebhook
    expect(() => new Library(provider.secrets[0]).verify(utf8(body), headers)).not.toThrow()
  })

  it('stripe', () => {
    const [{ secrets }, { body, headers }] = own('stripe')
    const header = headers['stripe-signature'] ?? ''
    expect(Stripe.webhooks.constructEvent(utf8(body), header, secrets[0]).id).toBe('evt_1')
  })

  it('github', async () => {
    const [{ secrets }, { body, headers }] = own('github')
    expect(await octokitVerify(secrets[0], utf8(body), headers['x-hub-signature-256'] ?? '')).toBe(true)
  })

  it('twilio', () => {
    const [{ secrets }, json] = own('twilio')
    const signature = json.headers['x-twilio-signature'] ?? ''
    expect(twilioSdk.validateRequestWithBody(secrets[0], signature, json.url, utf8(json.body))).toBe(true)
    const [, form] = own('twilio (forms)')
    const params = Object.fromEntries(new URLSearchParams(utf8(form.body)))
    expect(twilioSdk.validateRequest(secrets[0], form.headers['x-twilio-signature'] ?? '', form.url, params)).toBe(true)
  })

  it.each(['shopify', 'shopify (events)'])('%s', async (name) => {
    await import('@shopify/shopify-api/adapters/node')
    await import('@shopify/shopify-api/adapters/web-api')
    const { shopifyApi, ApiVersion, LogSeverity } = await import('@shopify/shopify-api')
    const [provider, { body, headers, url }] = own(name)
    const api = shopifyApi({
      ...{ apiKey: 'key', apiSecretKey: provider.secrets[0], hostName: 'shop.example', isEmbeddedApp: false },
      ...{ apiVersion: ApiVersion.October25, logger: { level: LogSeverity.Error, log: () => {} } },
    })
    const request = new Request(url, { method: 'POST', headers, body: new Uint8Array(body) })
    const checked = await api.webhooks.validate({ rawBody: utf8(body), rawRequest: request })
    expect(checked).toMatchObject({ valid: true, webhookId: 'evt_1' })
  })
})

describe.each(providers)('$name', (provider) => {
  const scheme = provider.scheme(provider.secrets[0])

  it('finds the id and the type of any event that was signed', () => {
    expect(scheme.verify(asked(eventOf(provider, 'evt_1', { type: 'invoice.paid' })))).toMatchObject({
      ...{ kind: 'verified', id: 'evt_1', type: 'invoice.paid' },
    })
  })

  it('verifies bytes that are not text, none, and many', () => {
    fc.assert(
      fc.property(bodies, (body) => {
        // A form is signed by its fields, so only what they say is covered.
        const bytes =
          provider.name === 'twilio (forms)'
            ? text(new URLSearchParams({ a: utf8(body.subarray(0, 50_000)) }).toString())
            : body
        const sent = provider.sign({ id: 'i', type: 't', body: bytes, nowMs: Date.now(), secret: provider.secrets[0] })
        expect(verdictOf(scheme, sent)).toBe('verified')
        expect(verdictOf(scheme, { ...sent, body: Buffer.concat([bytes, Uint8Array.of(0x80)]) })).toBe('bad-signature')
      }),
      { numRuns: 50, examples: [[new Uint8Array(1_048_576).fill(0x80)]] },
    )
  })

  it('takes no other request for one of its own', () => {
    for (const [forgery, sent] of forgeries(provider, 'evt_1')) {
      const { kind } = scheme.verify(asked(sent))
      expect({ forgery, kind }).toEqual({
        forgery,
        kind: expect.stringMatching(/^(missing|bad-signature|bad-timestamp)$/),
      })
    }
  })

  it('says which header is missing, and nothing of what is wrong with a signature', () => {
    for (const header of provider.needed) {
      const { [header]: _, ...headers } = eventOf(provider, 'evt_1').headers
      const verdict = scheme.verify(asked({ ...eventOf(provider, 'evt_1'), headers }))
      expect(verdict).toEqual({ kind: 'missing', header })
    }
  })

  it('takes both secrets of a rotation, in any order, and none that was rotated out', () => {
    const [current, previous] = provider.secrets
    const old = eventOf(provider, 'evt_1', { secret: 1 })
    expect(verdictOf(provider.scheme([current, previous]), old)).toBe('verified')
    expect(verdictOf(provider.scheme([previous, current]), old)).toBe('verified')
    expect(verdictOf(provider.scheme([current]), old)).toBe('bad-signature')
  })

  it('never throws, whatever the headers and the bytes are', () => {
    const header = fc.constantFrom(
      ...provider.needed,
      'content-type',
      'i-twilio-idempotency-token',
      'x-slack-retry-num',
    )
    const value = fc.string({ unit: fc.integer({ min: 32, max: 255 }).map((code) => String.fromCharCode(code)) })
    const headers = fc.array(
      fc.tuple(
        header,
        value.map((each) => each.trim()),
      ),
      { maxLength: 6 },
    )
    const all = webhook(scheme, { id: 'body-hash', type: () => 't', key: () => 'k' })
    fc.assert(
      fc.property(headers, bodies, fc.string(), (pairs, body, url) => {
        const { kind } = all.accept({ method: 'POST', url, headers: new Headers(pairs), body, nowMs: Date.now() })
        expect(kind).toMatch(/^(missing|bad-signature|bad-timestamp)$/)
      }),
      { numRuns: 100 },
    )
  })
})

describe.each(providers.filter(({ timed }) => timed))('the time of a signature of $name', (provider) => {
  it('may be five minutes away, both ways', () => {
    const scheme = provider.scheme(provider.secrets[0])
    const now = 1_700_000_000_000
    const at = (ms: number) => verdictOf(scheme, eventOf(provider, 'evt_1', { nowMs: now + ms }), now)
    expect([-300_000, 0, 300_000].map(at)).toEqual(['verified', 'verified', 'verified'])
    expect([-301_000, 301_000, -86_400_000, 86_400_000].map(at)).toEqual(new Array(4).fill('bad-timestamp'))
  })
})

describe('Standard Webhooks with keys of ed25519', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const other = generateKeyPairSync('ed25519')
  const publicText = (key: typeof publicKey): string =>
    `whpk_${Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url').toString('base64')}`
  const signed = (key = privateKey, body: Uint8Array = Uint8Array.of(0xff, 0x00)): Sent => {
    const whole = Buffer.concat([text('msg_1.1614265330.'), body])
    const signature = `v1,AAAA v1a,${signBytes(null, whole, key).toString('base64')}`
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': '1614265330', 'webhook-signature': signature }
    return { url: 'https://x.example', headers, body }
  }

  it('are verified, beside a secret or without one', () => {
    const publicKeys = publicText(publicKey)
    expect(verdictOf(standardWebhooks({ publicKeys }), signed(), NOW)).toBe('verified')
    const both = standardWebhooks({
      publicKeys: [publicText(other.publicKey), publicKeys],
      secrets: btoa('0123456789abcdef'),
    })
    expect(verdictOf(both, signed(), NOW)).toBe('verified')
    expect(verdictOf(both, signed(other.privateKey), NOW)).toBe('verified')
  })

  it('do not verify what another key has signed, nor other bytes', () => {
    const scheme = standardWebhooks({ publicKeys: publicText(publicKey) })
    expect(verdictOf(scheme, signed(other.privateKey), NOW)).toBe('bad-signature')
    expect(verdictOf(scheme, { ...signed(), body: Uint8Array.of(0xff, 0x01) }, NOW)).toBe('bad-signature')
    const spoilt = changed(signed(), ({ headers }) => ({
      headers: { ...headers, 'webhook-signature': headers['webhook-signature']?.replaceAll('=', '') ?? '' },
    }))
    expect(verdictOf(standardWebhooks({ publicKeys: publicText(other.publicKey) }), spoilt, NOW)).toBe('bad-signature')
  })

  it('are not taken for secrets, nor a secret for a public key', () => {
    expect(() => standardWebhooks(publicText(publicKey))).toThrow('keys of ed25519 go into publicKeys')
    expect(() => standardWebhooks({ publicKeys: 'whsk_AAAA' })).toThrow('belongs to the sender alone')
    expect(() => standardWebhooks({ publicKeys: 'whpk_AAAA' })).toThrow('32 bytes in base64')
    expect(() => standardWebhooks({})).toThrow('expected secrets to be given, unless publicKeys is')
  })
})

describe('identity', () => {
  it('an id of Standard Webhooks cannot hold what belongs to the timestamp', () => {
    const provider = providerOf('standard-webhooks')
    const body = text('1700000000.rest')
    const sent = provider.sign({ id: 'msg', type: 't', body, nowMs: 1_700_000_000_000, secret: provider.secrets[0] })
    const headers = { ...sent.headers, 'webhook-id': 'msg.1700000000', 'webhook-timestamp': '1700000000' }
    const shifted = { ...sent, headers, body: text('rest') }
    expect(verdictOf(provider.scheme(provider.secrets[0]), sent, 1_700_000_000_000)).toBe('verified')
    expect(verdictOf(provider.scheme(provider.secrets[0]), shifted, 1_700_000_000_000)).toBe('bad-signature')
  })

  it('an id of Standard Webhooks cannot hold the timestamp and the beginning of the body', () => {
    const provider = providerOf('standard-webhooks')
    const [old, now] = [1_600_000_000_000, 1_700_000_000_000]
    const body = text('{"note":"x".1700000000.{"type":"paid"}')
    const sent = provider.sign({ id: 'msg', type: 't', body, nowMs: old, secret: provider.secrets[0] })
    const headers = {
      ...sent.headers,
      'webhook-id': 'msg.1600000000.{"note":"x"',
      'webhook-timestamp': '1700000000',
    }
    const shifted = { ...sent, headers, body: text('{"type":"paid"}') }
    expect(verdictOf(provider.scheme(provider.secrets[0]), sent, old)).toBe('verified')
    expect(verdictOf(provider.scheme(provider.secrets[0]), shifted, now)).toBe('bad-signature')
  })

  it('a timestamp that is not signed is refused by hmac when it is made', () => {
    const options = {
      secrets: '0123456789abcdef',
      header: 'x-sig',
      id: 'body-hash',
      type: 't',
      resendsForMs: 1,
    } as const
    expect(() => hmac({ ...options, signed: 'body', timestamp: { header: 'x-time' } })).toThrow(
      "expected signed to be 'timestamp.body' or a function",
    )
  })

  it('a second t in the header of Stripe is refused', () => {
    const sent = eventOf(providerOf('stripe'), 'evt_1')
    const header = sent.headers['stripe-signature'] ?? ''
    const twice = { ...sent, headers: { 'stripe-signature': `t=1,${header}` } }
    expect(verdictOf(stripe(providerOf('stripe').secrets[0]), twice)).toBe('bad-signature')
  })

  it('a JSON body without a hash in its URL is no webhook of Twilio', () => {
    const provider = providerOf('twilio (forms)')
    const empty = provider.sign({ id: 'i', type: 't', body: text(''), nowMs: 0, secret: provider.secrets[0] })
    expect(verdictOf(provider.scheme(provider.secrets[0]), empty)).toBe('verified')
    const headers = { ...empty.headers, 'content-type': 'application/json' }
    expect(verdictOf(provider.scheme(provider.secrets[0]), { ...empty, headers, body: text('{"a":1}') })).toBe(
      'bad-signature',
    )
  })

  it('of Shopify is the delivery or the event, as asked for', () => {
    const provider = providerOf('shopify')
    const sent = changed(eventOf(provider, 'delivery'), ({ headers }) => ({
      headers: { ...headers, 'x-shopify-event-id': 'event' },
    }))
    expect(shopify(provider.secrets[0]).verify(asked(sent))).toMatchObject({ id: 'delivery', type: 'paid' })
    const byEvent = shopify({ secrets: provider.secrets[0], id: 'event' })
    expect(byEvent.verify(asked(sent))).toMatchObject({
      id: 'event',
      headers: { 'x-shopify-shop-domain': 'shop.example' },
    })
  })

  it('of Slack does not change with a retry, which is marked', () => {
    const provider = providerOf('slack')
    const scheme = provider.scheme(provider.secrets[0])
    const again = changed(eventOf(provider, 'Ev1'), ({ headers }) => ({
      headers: { ...headers, 'x-slack-retry-num': '1' },
    }))
    expect(scheme.verify(asked(again))).toMatchObject({ id: 'Ev1', redelivered: true })
    expect(scheme.verify(asked(eventOf(provider, 'Ev1')))).toMatchObject({ id: 'Ev1', redelivered: false })
  })

  it('of hmac is a header, a field or the bytes', () => {
    const options = { secrets: '0123456789abcdef', header: 'x-sig', type: 'paid', resendsForMs: 1_000 } as const
    const body = text('{"a":{"id":7}}')
    const signature = 'c0ffee'
    const signed = () => Buffer.from('constant')
    const sent = { url: 'https://x.example', headers: { 'x-sig': signature, 'x-id': 'h' }, body }
    const real = hmacHex('0123456789abcdef', 'constant')
    const good = { ...sent, headers: { ...sent.headers, 'x-sig': real } }
    const idOf = (id: Parameters<typeof hmac>[0]['id']) => hmac({ ...options, signed, id }).verify(asked(good))
    expect(idOf({ header: 'X-Id' })).toMatchObject({ kind: 'verified', id: 'h', type: 'paid' })
    expect(idOf({ path: 'a.id' })).toMatchObject({ id: '7' })
    expect(idOf({ path: '__proto__.id' })).toMatchObject({ kind: 'verified', id: undefined })
    expect(idOf('body-hash')).toMatchObject({ id: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) })
    expect(hmac({ ...options, signed, id: 'body-hash' }).verify(asked(sent)).kind).toBe('bad-signature')
    const throwing = () => {
      throw new Error('no')
    }
    expect(hmac({ ...options, signed: throwing, id: 'body-hash' }).verify(asked(good)).kind).toBe('bad-signature')
  })
})

describe('secrets', () => {
  it.each([stripe, github, shopify, slack, twilio, standardWebhooks])(
    '%o refuses those that are none, and shows none',
    (preset) => {
      const bad = [
        '',
        'short',
        ' 0123456789abcdef0123',
        '0123456789abcdef0123\n',
        [],
        [''],
        ['0123456789abcdef0123', 'x'],
      ]
      for (const secrets of [...bad, undefined, null, 5, {}, [null]] as never[]) {
        expect(() => preset(secrets)).toThrow(/^expected (secrets|options)/)
        expect(() => preset({ secrets } as never)).toThrow(/^expected secrets/)
      }
      const thrown = (): unknown => {
        try {
          return preset(['0123456789abcdef0123', 'hush hush'])
        } catch (error) {
          return error
        }
      }
      expect(String(thrown())).not.toContain('hush')
      expect(() => preset({ secrets: '0123456789abcdef01234567', sekrets: 1 } as never)).toThrow('sekrets')
    },
  )
})

function hmacHex(secret: string, signed: string): string {
  const provider = providerOf('github')
  const { headers } = provider.sign({ id: 'i', type: 't', body: text(signed), nowMs: 0, secret })
  return headers['x-hub-signature-256']?.replace('sha256=', '') ?? ''
}
