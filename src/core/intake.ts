import type { Clock } from './clock.ts'
import { asError, describe, HapaxError } from './errors.ts'
import { fingerprint, messageKey, payloadId } from './identity.ts'
import { type IncomingMessage, packAttributes, type StoredMessage } from './message.ts'
import { isText } from './options.ts'

/** What to do with a message whose id is missing or cannot be one: refuse it, hash its payload, or ask a function. */
export type MissingId = 'reject' | 'hash' | ((message: IncomingMessage) => string)

/** A delivery after its first look: either fit to be handled, or refused for a reason. */
export interface Entry {
  readonly stored: StoredMessage
  /** The JSON value, when it came as one and need not be parsed. */
  readonly value?: unknown
  readonly parsed: boolean
  readonly redelivered: boolean
  readonly refused?: HapaxError
}

/** Limits and policies of an intake. */
export interface IntakePolicy {
  readonly missingId: MissingId
  readonly maxBytes: number
  readonly maxAgeMs: number | undefined
  readonly clock: Clock
}

/** The longest id, source, type or key that is taken, in bytes of UTF-8. */
export const MAX_TEXT_BYTES = 2048

/** Checks a delivery and gives it its identity. Only something that is no message at all makes it throw. */
export function intake(incoming: IncomingMessage, policy: IntakePolicy): Entry {
  if (typeof incoming !== 'object' || incoming === null) {
    throw new HapaxError('invalid-message', `expected a message to be an object, got ${describe(incoming)}`)
  }
  const payload = payloadOf(incoming.data)
  const identity = identify(incoming, payload.content, policy)
  const stored = new Delivery(incoming, identity, payload.content)
  const refused = payload.refused ?? identity.refused ?? refusal(incoming, stored, policy)
  const redelivered = incoming.redelivered === true
  if (refused !== undefined) return { stored, redelivered, parsed: false, refused }
  return { stored, redelivered, parsed: payload.parsed, value: incoming.data }
}

/** A delivery as it would be stored. Most never are, so what only storing needs is made when it is asked for. */
class Delivery implements StoredMessage {
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly fingerprint: string
  readonly #incoming: IncomingMessage
  readonly #content: Uint8Array | string

  constructor(incoming: IncomingMessage, { source, id }: Identity, content: Uint8Array | string) {
    const { type, key } = incoming
    this.messageKey = messageKey(source, id)
    this.source = source
    this.id = id
    this.type = isText(type, MAX_TEXT_BYTES) ? type : shown(type)
    this.key = isText(key, MAX_TEXT_BYTES) ? key : null
    this.fingerprint = fingerprint(content)
    this.#incoming = incoming
    this.#content = content
  }

  get attributes(): string {
    return packAttributes(cleanAttributes(this.#incoming))
  }

  get data(): Uint8Array {
    return bytesOf(this.#content)
  }

  get bytes(): number {
    const content = this.#content
    const length = typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength
    return length + Buffer.byteLength(this.attributes)
  }
}

function bytesOf(content: Uint8Array | string): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content) : content
}

/** The payload: bytes as they came, or the JSON of a value. */
interface Payload {
  readonly content: Uint8Array | string
  readonly parsed: boolean
  readonly refused?: HapaxError
}

function payloadOf(data: unknown): Payload {
  if (data instanceof Uint8Array) return { content: data, parsed: false }
  if (data === undefined) return { content: '', parsed: true }
  try {
    const json = JSON.stringify(data)
    if (json !== undefined) return { content: json, parsed: true }
  } catch (error) {
    return unserialisable(data, error)
  }
  return unserialisable(data, undefined)
}

function unserialisable(data: unknown, cause: unknown): Payload {
  const reason = cause === undefined ? '' : `: ${asError(cause).message}`
  const refused = new HapaxError(
    'invalid-payload',
    `expected data to be a JSON value, got ${describe(data)}${reason}`,
    { cause },
  )
  return { content: describe(data), parsed: false, refused }
}

interface Identity {
  readonly source: string
  readonly id: string
  readonly refused?: HapaxError
}

function identify(incoming: IncomingMessage, content: Uint8Array | string, { missingId }: IntakePolicy): Identity {
  const { source } = incoming
  if (!isText(source, MAX_TEXT_BYTES)) {
    const refused = invalid('invalid-message', 'source', source)
    return {
      source: shown(source),
      id: isText(incoming.id, MAX_TEXT_BYTES) ? incoming.id : payloadId(bytesOf(content)),
      refused,
    }
  }
  if (isText(incoming.id, MAX_TEXT_BYTES)) return { source, id: incoming.id }
  if (missingId === 'hash') return { source, id: payloadId(bytesOf(content)) }
  const id = typeof missingId === 'function' ? missingId(incoming) : incoming.id
  if (isText(id, MAX_TEXT_BYTES)) return { source, id }
  // The hash of the payload stands in, so that a redelivery does not fill the failed store.
  const missing = id === undefined || id === null || id === ''
  return { source, id: payloadId(bytesOf(content)), refused: invalid(missing ? 'missing-id' : 'invalid-id', 'id', id) }
}

function refusal(incoming: IncomingMessage, stored: Delivery, policy: IntakePolicy): HapaxError | undefined {
  const { type, key, time } = incoming
  if (!isText(type, MAX_TEXT_BYTES)) return invalid('invalid-message', 'type', type)
  if (key !== undefined && !isText(key, MAX_TEXT_BYTES)) return invalid('invalid-message', 'key', key)
  const { bytes } = stored
  if (bytes > policy.maxBytes) {
    return new HapaxError('too-large', `expected a message of at most ${policy.maxBytes} bytes, got ${bytes}`, {
      fields: { bytes },
    })
  }
  return expired(time, policy)
}

function expired(time: unknown, { maxAgeMs, clock }: IntakePolicy): HapaxError | undefined {
  if (maxAgeMs === undefined || typeof time !== 'string') return undefined
  const ageMs = clock.now() - Date.parse(time)
  if (!(ageMs > maxAgeMs)) return undefined
  return new HapaxError('expired', `expected a message of at most ${maxAgeMs} ms of age, got one of ${ageMs} ms`, {
    fields: { ageMs },
  })
}

function invalid(code: 'missing-id' | 'invalid-id' | 'invalid-message', name: string, got: unknown): HapaxError {
  const what = `a non-empty, well-formed string of at most ${MAX_TEXT_BYTES} bytes`
  return new HapaxError(code, `expected ${name} to be ${what}, got ${describe(got)}`, { fields: { attribute: name } })
}

/** Something to show in the failed store for an attribute that could not be taken. */
function shown(value: unknown): string {
  return `(${describe(value).toWellFormed()})`
}

const TEXTS = [
  'subject',
  'time',
  'datacontenttype',
  'correlationId',
  'causationId',
  'traceparent',
  'tracestate',
] as const

/** The attributes without a column, as texts only: whatever else a sender put there is dropped. */
function cleanAttributes(incoming: IncomingMessage): Parameters<typeof packAttributes>[0] {
  const clean: Record<string, unknown> = {}
  for (const name of TEXTS) if (typeof incoming[name] === 'string') clean[name] = incoming[name]
  const { headers } = incoming
  if (typeof headers === 'object' && headers !== null) clean['headers'] = cleanHeaders(headers)
  return clean
}

function cleanHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const clean: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    if (['string', 'number', 'boolean', 'bigint'].includes(typeof value)) clean[name] = String(value)
  }
  return clean
}

/** The JSON value of a stored message, or its bytes where its content type is not JSON; throws `invalid-payload`. */
export function decode(stored: StoredMessage, contentType: string | undefined): unknown {
  if (stored.data.byteLength === 0) return undefined
  if (contentType !== undefined && !/^[^;]*\bjson\b/i.test(contentType)) return stored.data
  try {
    return JSON.parse(utf8.decode(stored.data))
  } catch (cause) {
    throw new HapaxError('invalid-payload', `expected data to be JSON in UTF-8: ${asError(cause).message}`, { cause })
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
