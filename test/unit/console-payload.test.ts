import { expect, it } from 'vitest'
import { settingsOf } from '../../src/console/options.ts'
import { payloadView } from '../../src/console/payload.ts'
import { fingerprint, messageKey, packAttributes, type StoredMessage } from '../../src/message/index.ts'

function stored(data: Uint8Array, headers: Record<string, string> = {}): StoredMessage {
  const identity = { messageKey: messageKey('/s', 'a'), source: '/s', id: 'a', type: 't', key: null }
  const attributes = packAttributes({ datacontenttype: 'application/json', headers })
  return { ...identity, attributes, data, fingerprint: fingerprint(data) }
}

const person = { actor: 'ada', role: 'operator' } as const
const settings = settingsOf({ authorize: () => null })
const seen = { person, settings, payloads: true, signOut: null, help: () => {} }

function shown(data: Uint8Array | string, whole = false) {
  return payloadView(stored(Buffer.from(data)), seen, whole)
}

it.for([
  '{"n":12345678901234567890,"x":1.10,"e":1E400}',
  ' {"a" : 1 ,\r\n\t"a":2}\n',
  '\ufeff{"bom":true}',
  '"\\ud800 \\u0000"',
  'é𝄞\u202e<script>',
  '',
])('shows the text %j as it is', (text) => {
  expect(shown(text)).toMatchObject({ text, encoding: 'text', whole: true, bytes: Buffer.byteLength(text) })
})

it.for([[0xff, 0xfe], [0x00, 0x01], [0xc3], [0x7f], [0xed, 0xa0, 0x80], [0x1b, 0x5b, 0x32, 0x4a]])(
  'shows the bytes %j as digits',
  (bytes) => {
    expect(shown(Uint8Array.from(bytes))).toMatchObject({
      text: Buffer.from(bytes).toString('hex'),
      encoding: 'hex',
      whole: true,
    })
  },
)

it('cuts what is longer than 64 KiB between two characters, and shows all of it when asked', () => {
  const text = `x${'é'.repeat(40_000)}`
  const head = shown(text)
  expect(head).toMatchObject({ encoding: 'text', whole: false, bytes: 80_001 })
  expect(text.startsWith(head?.text ?? 'none')).toBe(true)
  expect(head?.text.length).toBe(32_768)
  expect(shown(text, true)).toMatchObject({ text, whole: true })
})

it('withholds the values of headers that prove who somebody is', () => {
  const secret = [
    'Authorization',
    'proxy-authorization',
    'cookie',
    'Set-Cookie',
    'x-api-key',
    'X-Auth-Token',
    'apikey',
    'x-amz-security-token',
    'stripe-signature',
    'webhook-signature',
    'x-hub-signature-256',
    'idempotency-key',
    'db-password',
    'client_secret',
    'x-auth',
    'X-Auth-Key',
    'x-session-id',
    'x-jwt',
    'x-goog-iap-jwt-assertion',
    'x-functions-key',
    'Ocp-Apim-Subscription-Key',
  ]
  const plain = ['tenant', 'x-request-id', 'author', 'routing-key', 'x-partition-key', 'key', 'shipping']
  const headers = Object.fromEntries([...secret, ...plain].map((name) => [name, 'value']))
  const { headers: found = [] } = payloadView(stored(Buffer.from('{}'), headers), seen, false) ?? {}
  expect(found.filter(({ value }) => value === 'value').map(({ name }) => name)).toEqual(plain)
})

it('shows the values in the query of a stored request to administrators only, and credentials to nobody', () => {
  const url = 'https://shop.test/orders?page=2&token=abc&api_key=abc&code=abc&next=%3Fpassword%3Dabc&abc'
  const urlFor = (role: 'operator' | 'admin') =>
    payloadView(stored(Buffer.from('{}'), { ':url': url }), { ...seen, person: { actor: 'ada', role } }, false)?.headers
  const none = '(withheld)'
  const withheld = `token=${none}&api_key=${none}&code=${none}&next=${none}`
  expect(urlFor('operator')).toEqual([
    { name: ':url', value: `https://shop.test/orders?page=${none}&${withheld}&${none}` },
  ])
  expect(urlFor('admin')).toEqual([{ name: ':url', value: `https://shop.test/orders?page=2&${withheld}&abc` }])
})

it.for<[name: string, redact: () => unknown]>([
  [
    'throws',
    () => {
      throw new Error('x')
    },
  ],
  ['returns nothing', () => undefined],
  ['returns a text', () => ({ headers: {}, data: 'x' })],
  ['returns a promise', () => Promise.resolve({ headers: {}, data: new Uint8Array() })],
  ['returns no headers', () => ({ data: new Uint8Array() })],
])('shows nothing where redact %s', ([, redact]) => {
  const own = settingsOf({ authorize: () => null, redact: redact as never, onError: () => {} })
  const view = payloadView(stored(Buffer.from('"secret"'), { tenant: 'blue' }), { ...seen, settings: own }, true)
  expect(view).toMatchObject({ text: '', headers: [], redacted: true })
})

it('lets redact change a copy, never the message', () => {
  const message = stored(Buffer.from('"secret"'))
  const redact = ({ data, headers }: { data: Uint8Array; headers: object }) => ({ data: data.fill(42), headers })
  const own = settingsOf({ authorize: () => null, redact: redact as never })
  expect(payloadView(message, { ...seen, settings: own }, true)).toMatchObject({ text: '********', redacted: true })
  expect(Buffer.from(message.data).toString()).toBe('"secret"')
})
