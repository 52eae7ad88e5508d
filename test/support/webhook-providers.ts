import { createHash, createHmac } from 'node:crypto'
import {
  github,
  hmac,
  type Scheme,
  type Secrets,
  shopify,
  slack,
  standardWebhooks,
  stripe,
  twilio,
} from 'hapax/webhooks'

/** A request as a provider would send it. */
export interface Sent {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** What a provider signs. */
interface ToSign {
  readonly id: string
  readonly type: string
  readonly body: Uint8Array
  readonly nowMs: number
  readonly secret: string
  /** The time as it is written, in place of seconds. */
  readonly written?: string
}

/** How a provider signs, written once more, as its documentation says it: the sources have only the other side. */
export interface Provider {
  readonly name: string
  scheme(secrets: Secrets): Scheme
  /** Two secrets of the right form. */
  readonly secrets: readonly [string, string]
  /** The header with the signature. */
  readonly signature: string
  /** All headers without which a request is refused. */
  readonly needed: readonly string[]
  /** The header with the time, where it has one of its own. */
  readonly timestamp?: string
  /** Whether it signs the time. */
  readonly timed: boolean
  /** A body with this id and type in it, where the provider puts them there. */
  bodyOf(id: string, type: string, n: number): Uint8Array
  sign(what: ToSign): Sent
}

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value))
const macOf = (algorithm: string, key: string | Uint8Array, parts: readonly (string | Uint8Array)[]) => {
  const mac = createHmac(algorithm, key)
  for (const part of parts) mac.update(part)
  return mac
}
const seconds = (ms: number): string => String(Math.floor(ms / 1_000))
const URL_OF = 'https://shop.example/webhooks'
const JSON_TYPE = { 'content-type': 'application/json' }

const standard = (prefix: 'webhook' | 'svix'): Provider => ({
  name: prefix === 'webhook' ? 'standard-webhooks' : 'standard-webhooks (svix)',
  scheme: (secrets) => standardWebhooks({ secrets }),
  secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'],
  signature: `${prefix}-signature`,
  needed: [`${prefix}-timestamp`, `${prefix}-signature`],
  timestamp: `${prefix}-timestamp`,
  timed: true,
  bodyOf: (_, type, n) => json({ type, n }),
  sign: ({ id, body, nowMs, secret, written = seconds(nowMs) }) => {
    const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
    const signature = macOf('sha256', key, [`${id}.${written}.`, body]).digest('base64')
    const own = { id, timestamp: written, signature: `v1,${signature}` }
    const headers = Object.fromEntries(Object.entries(own).map(([name, value]) => [`${prefix}-${name}`, value]))
    return { url: URL_OF, headers: { ...JSON_TYPE, ...headers }, body }
  },
})

const ofStripe: Provider = {
  name: 'stripe',
  scheme: (secrets) => stripe({ secrets }),
  secrets: ['whsec_current_0123456789abcdef', 'whsec_previous_0123456789abcdef'],
  signature: 'stripe-signature',
  needed: ['stripe-signature'],
  timed: true,
  bodyOf: (id, type, n) => json({ id, type, object: 'event', n }),
  sign: ({ body, nowMs, secret, written = seconds(nowMs) }) => {
    const signature = macOf('sha256', secret, [`${written}.`, body]).digest('hex')
    return { url: URL_OF, headers: { ...JSON_TYPE, 'stripe-signature': `t=${written},v1=${signature}` }, body }
  },
}

const ofGithub: Provider = {
  name: 'github',
  scheme: (secrets) => github({ secrets }),
  secrets: [`It's a Secret to Everybody`, 'it was another secret before'],
  signature: 'x-hub-signature-256',
  needed: ['x-hub-signature-256', 'x-github-delivery', 'x-github-event'],
  timed: false,
  bodyOf: (_id, _type, n) => json({ n }),
  sign: ({ id, type, body, secret }) => {
    const signature = `sha256=${macOf('sha256', secret, [body]).digest('hex')}`
    const headers = { 'x-hub-signature-256': signature, 'x-github-delivery': id, 'x-github-event': type }
    return { url: URL_OF, headers: { ...JSON_TYPE, ...headers }, body }
  },
}

const ofShopify = (prefix: 'x-shopify-' | 'shopify-'): Provider => ({
  name: prefix === 'x-shopify-' ? 'shopify' : 'shopify (events)',
  scheme: (secrets) => shopify({ secrets }),
  secrets: ['shpss_0123456789abcdef', 'shpss_fedcba9876543210'],
  signature: `${prefix}hmac-sha256`,
  needed: [`${prefix}hmac-sha256`, `${prefix}webhook-id`],
  timed: false,
  bodyOf: (_id, _type, n) => json({ n }),
  sign: ({ id, type, body, secret }) => {
    const own = {
      'hmac-sha256': macOf('sha256', secret, [body]).digest('base64'),
      'webhook-id': id,
      topic: type,
      'shop-domain': 'shop.example',
      'api-version': '2026-10',
    }
    const headers = Object.fromEntries(Object.entries(own).map(([name, value]) => [prefix + name, value]))
    return { url: URL_OF, headers: { ...JSON_TYPE, ...headers }, body }
  },
})

const ofSlack: Provider = {
  name: 'slack',
  scheme: (secrets) => slack({ secrets }),
  secrets: ['8f742231b10e8888abcd99yyyzzz85a5', '00000031b10e8888abcd99yyyzzz85a5'],
  signature: 'x-slack-signature',
  needed: ['x-slack-signature', 'x-slack-request-timestamp'],
  timestamp: 'x-slack-request-timestamp',
  timed: true,
  bodyOf: (id, type, n) => json({ type: 'event_callback', event_id: id, event: { type, n }, n }),
  sign: ({ body, nowMs, secret, written = seconds(nowMs) }) => {
    const signature = `v0=${macOf('sha256', secret, [`v0:${written}:`, body]).digest('hex')}`
    const headers = { 'x-slack-signature': signature, 'x-slack-request-timestamp': written }
    return { url: URL_OF, headers: { ...JSON_TYPE, ...headers }, body }
  },
}

/** With JSON, whose hash is in the URL. */
const ofTwilio: Provider = {
  name: 'twilio',
  scheme: (secrets) => twilio({ secrets }),
  secrets: ['0123456789abcdef0123456789abcdef', 'fedcba9876543210fedcba9876543210'],
  signature: 'x-twilio-signature',
  needed: ['x-twilio-signature'],
  timed: false,
  bodyOf: (_, type, n) => json({ EventType: type, n }),
  sign: ({ id, body, secret }) => {
    const url = `${URL_OF}?bodySHA256=${createHash('sha256').update(body).digest('hex')}`
    const signature = macOf('sha1', secret, [url]).digest('base64')
    const headers = { 'x-twilio-signature': signature, 'i-twilio-idempotency-token': id }
    return { url, headers: { ...JSON_TYPE, ...headers }, body }
  },
}

/** With the fields of a form. */
const ofTwilioForms: Provider = {
  ...ofTwilio,
  name: 'twilio (forms)',
  bodyOf: (_, type, n) => Buffer.from(new URLSearchParams({ EventType: type, n: String(n) }).toString()),
  sign: ({ id, body, secret }) => {
    const fields = [...new URLSearchParams(Buffer.from(body).toString())].sort(([a], [b]) => (a < b ? -1 : 1))
    const signature = macOf('sha1', secret, [URL_OF, ...fields.flat()]).digest('base64')
    const headers = { 'x-twilio-signature': signature, 'i-twilio-idempotency-token': id }
    return { url: URL_OF, headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers }, body }
  },
}

const ofHmac: Provider = {
  name: 'hmac',
  scheme: (secrets) =>
    hmac({
      secrets,
      header: 'X-Signature',
      algorithm: 'sha512',
      encoding: 'base64',
      prefix: 'sha512=',
      timestamp: { header: 'X-Time' },
      id: { header: 'X-Id' },
      type: { path: 'event.type' },
      resendsForMs: 3_600_000,
    }),
  secrets: ['0123456789abcdef', 'fedcba9876543210'],
  signature: 'x-signature',
  needed: ['x-signature', 'x-time', 'x-id'],
  timestamp: 'x-time',
  timed: true,
  bodyOf: (_, type, n) => json({ event: { type }, n }),
  sign: ({ id, body, nowMs, secret, written = seconds(nowMs) }) => {
    const signature = `sha512=${macOf('sha512', secret, [`${written}.`, body]).digest('base64')}`
    const headers = { 'x-signature': signature, 'x-time': written, 'x-id': id }
    return { url: URL_OF, headers: { ...JSON_TYPE, ...headers }, body }
  },
}

/** Every preset, as its provider uses it. */
export const providers: readonly Provider[] = [
  standard('webhook'),
  standard('svix'),
  ofStripe,
  ofGithub,
  ofShopify('x-shopify-'),
  ofShopify('shopify-'),
  ofSlack,
  ofTwilio,
  ofTwilioForms,
  ofHmac,
]

/** The provider of this name. */
export function providerOf(name: string): Provider {
  const found = providers.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no provider ${name}`)
  return found
}

/** An event of a provider, signed now with its first secret. */
export function eventOf(
  provider: Provider,
  id: string,
  { type = 'paid', n = 1, nowMs = Date.now(), secret = 0 } = {},
): Sent {
  const body = provider.bodyOf(id, type, n)
  return provider.sign({ id, type, body, nowMs, secret: provider.secrets[secret] ?? '' })
}

/** What arrives at a handler. */
export function requestOf({ url, headers, body }: Sent): Request {
  return new Request(url, { method: 'POST', headers, body: new Uint8Array(body) })
}

/** The same request with another signature, header or body. */
export function changed(sent: Sent, change: (sent: Sent) => Partial<Sent>): Sent {
  return { ...sent, ...change(sent) }
}

/** What forgers and broken networks make of a request, by name; undefined where a provider has no such thing. */
export function forgeries(provider: Provider, id: string): ReadonlyMap<string, Sent> {
  const { signature, timestamp, needed } = provider
  const good = eventOf(provider, id)
  const withHeader = (name: string, value: string | undefined): Sent => {
    const { [name]: _, ...others } = good.headers
    return { ...good, headers: value === undefined ? others : { ...others, [name]: value } }
  }
  const signed = good.headers[signature] ?? ''
  const all = new Map<string, Sent>([
    ['changed byte', { ...good, body: flipped(good.body) }],
    ['shorter body', { ...good, body: good.body.subarray(0, -1) }],
    ['longer body', { ...good, body: Buffer.concat([good.body, Buffer.from(' ')]) }],
    ['empty body', { ...good, body: new Uint8Array() }],
    ['truncated signature', withHeader(signature, signed.slice(0, -1))],
    ['half a signature', withHeader(signature, signed.slice(0, Math.floor(signed.length / 2)))],
    ['longer signature', withHeader(signature, `${signed}0`)],
    ['upper case', withHeader(signature, signed.toUpperCase())],
    ['no signature', withHeader(signature, '')],
    ['garbage', withHeader(signature, 'v1=,t=,v1,=')],
    ['same signature twice', withHeader(signature, `${signed}, ${signed}x`.replace(signed, 'x'))],
    ['unknown secret', provider.sign({ ...toSign(provider, id), secret: unknownSecret(provider) })],
  ])
  for (const name of needed) all.set(`without ${name}`, withHeader(name, undefined))
  for (const other of providers) {
    if (familyOf(other) !== familyOf(provider)) all.set(`as ${other.name}`, eventOf(other, id))
  }
  if (timestamp !== undefined) {
    for (const bad of ['NaN', '1e9', '0x65', '-1', '', ' ', '99999999999999999999', `${good.headers[timestamp]}.0`]) {
      all.set(`timestamp '${bad}'`, withHeader(timestamp, bad))
    }
  }
  if (provider.timed) {
    all.set('old', eventOf(provider, id, { nowMs: Date.now() - 301_000 }))
    all.set('future', eventOf(provider, id, { nowMs: Date.now() + 302_000 }))
    for (const written of writtenOtherwise())
      all.set(`signed at '${written}'`, provider.sign({ ...toSign(provider, id), written }))
  }
  return all
}

const toSign = (provider: Provider, id: string): ToSign => ({
  ...{ id, type: 'paid', body: provider.bodyOf(id, 'paid', 1) },
  ...{ nowMs: Date.now(), secret: provider.secrets[0] },
})

/** Some schemes know two sets of names. */
const familyOf = ({ name }: Provider): string => name.split(' ')[0] ?? name

/** Now, as no provider writes it, but as `Number` or `parseInt` would read it. */
function writtenOtherwise(): readonly string[] {
  const now = Math.floor(Date.now() / 1_000)
  return [`0x${now.toString(16)}`, `${now / 1e9}e9`, `+${now}`, `${now}.5`, `${now}x`, 'NaN', '-1']
}

/** Of the same form as the others, because it goes through the same decoding. */
function unknownSecret({ secrets: [secret] }: Provider): string {
  return secret.slice(0, -2) + (secret.endsWith('AA') ? 'BB' : 'AA')
}

function flipped(body: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(body)
  const at = Math.floor(copy.length / 2)
  copy[at] = (copy[at] ?? 0) ^ 1
  return copy
}
