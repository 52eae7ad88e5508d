import type { RawMessage } from 'hapax/testing'

type Random = () => number

/** A message for the fuzzing run, and whether a consumer of pings can handle it. */
export interface Hostile {
  readonly what: string
  readonly isGood: boolean
  readonly message: RawMessage
}

/** One message, good or bad, with odd things about it. `id` is its own. */
export function hostile(id: string, random: Random): Hostile {
  const message = oddly(plain(id), random)
  if (random() < 0.5) return { what: 'good', isGood: true, message }
  const [what, spoil] = pick(SPOILS, random)
  return { what, isGood: false, message: spoil(message, random) }
}

function plain(id: string): Spoilable {
  const attributes = { specversion: '1.0', id, source: '/fuzz', type: 'ping' }
  return { body: json({ id }), contentType: 'application/json', attributes, headers: {} }
}

/** Things that do not keep a message from being handled. */
function oddly(message: Spoilable, random: Random): Spoilable {
  const headers: Record<string, string> = Object.create(null)
  for (let count = Math.floor(random() * 6); count > 0; count--) headers[pick(NAMES, random)] = text(random)
  const attributes = { ...message.attributes }
  if (random() < 0.3) attributes['subject'] = text(random)
  if (random() < 0.3) attributes['time'] = pick(['now', '2026-11-17T00:00:00Z', '-1', ''], random)
  if (random() < 0.3) attributes['partitionkey'] = `k${Math.floor(random() * 5)}`
  if (random() < 0.2) attributes['traceparent'] = text(random)
  return { ...message, headers, attributes }
}

/** Names of headers that mean something to JavaScript, to a protocol or to nobody. */
const NAMES = ['constructor', 'toString', 'hasOwnProperty', 'x-death-wish', 'a', 'X-Long-Name', 'data', 'nats-odd']

/** Texts that all of the protocols carry. */
function text(random: Random): string {
  return pick(['', ' ', "'; drop table x; --", '%00%ff', '\\', '"', '{}', 'a'.repeat(5_000), '%E0%A4%A'], random)
}

type Spoilable = Required<Pick<RawMessage, 'body' | 'contentType' | 'attributes' | 'headers'>>
type Spoil = (message: Spoilable, random: Random) => RawMessage

const withAttribute =
  (name: string, value: (random: Random) => string): Spoil =>
  (message, random) => ({ ...message, attributes: { ...message.attributes, [name]: value(random) } })

const without =
  (name: string): Spoil =>
  (message) => {
    const { [name]: _, ...attributes } = message.attributes
    return { ...message, attributes }
  }

const withBody =
  (body: (random: Random) => Uint8Array, contentType = 'application/json'): Spoil =>
  (message, random) => ({ ...message, body: body(random), contentType })

const tooLong = (random: Random): string => 'x'.repeat(2_049 + Math.floor(random() * 4_000))

const SPOILS: readonly (readonly [what: string, spoil: Spoil])[] = [
  ['no id', without('id')],
  ['no source', without('source')],
  ['no type', without('type')],
  ['a long id', withAttribute('id', tooLong)],
  ['a long source', withAttribute('source', tooLong)],
  ['a long type', withAttribute('type', tooLong)],
  ['a long key', withAttribute('partitionkey', tooLong)],
  ['another type', withAttribute('type', (random) => pick(['pong', '__proto__', 'constructor', 'PING'], random))],
  ['another version', withAttribute('specversion', (random) => pick(['0.3', '2.0', 'x'], random))],
  ['broken JSON', withBody((random) => json({ id: 'x' }).subarray(0, 1 + Math.floor(random() * 9)))],
  ['deep JSON', withBody((random) => deep(65 + Math.floor(random() * 50_000)))],
  ['a prototype', withBody(() => Buffer.from('{"id":"x","__proto__":{"isAdmin":true}}'))],
  ['bytes', withBody((random) => Buffer.concat([Buffer.from([0xff]), noise(random)]))],
  ['a large body', withBody((random) => Buffer.alloc(1_048_577 + Math.floor(random() * 2_000_000), '1'))],
  ['an event of noise', withBody(noise, 'application/cloudevents+json')],
  ['an event that is a list', withBody(() => Buffer.from('[[]]'), 'application/cloudevents+json')],
  ['an event without all', withBody(() => Buffer.from('{}'), 'application/cloudevents+json')],
  ['an odd format', withBody(noise, 'application/cloudevents+xml')],
]

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function deep(levels: number): Buffer {
  return Buffer.from(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
}

/** Begins with what is no JSON. */
function noise(random: Random): Buffer {
  const length = 1 + Math.floor(random() * 500)
  return Buffer.from(['~'.charCodeAt(0), ...Array.from({ length }, () => Math.floor(random() * 256))])
}

function pick<T>(from: readonly T[], random: Random): T {
  return from[Math.floor(random() * from.length)] as T
}
