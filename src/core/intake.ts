import { randomUUID } from 'node:crypto'
import type { Clock } from './clock.ts'
import { asError, describe, HapaxError, messageOf } from './errors.ts'
import { fingerprint, messageKey, payloadId } from './identity.ts'
import { parseJson } from './json.ts'
import {
  DELIVERY,
  type IncomingMessage,
  NO_ATTRIBUTES,
  packAttributes,
  REFUSED,
  type StoredMessage,
} from './message.ts'
import { isText } from './options.ts'

/** What to do with a message whose id is missing or cannot be one: refuse it, hash its payload, or ask a function. */
export type MissingId = 'reject' | 'hash' | ((message: IncomingMessage) => string)

/** A delivery after its first look: either fit to be handled, or refused for a reason. */
export interface Entry {
  readonly stored: StoredMessage
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
  try {
    return look(incoming, policy)
  } catch (cause) {
    // A proxy or a getter that throws. Nothing of it can be kept but that it came.
    const refused = new HapaxError('invalid-message', 'the message could not be read', { cause })
    const id = randomUUID()
    const stored = new Delivery(
      { source: '(unreadable)', type: '(unreadable)' },
      { source: '(unreadable)', id, key: id },
      '',
    )
    return { stored, redelivered: false, refused }
  }
}

function look(incoming: IncomingMessage, policy: IntakePolicy): Entry {
  const payload = payloadOf(incoming)
  const identity = identify(incoming, payload.content, policy)
  const stored = new Delivery(incoming, identity, payload.content)
  const refused = incoming[REFUSED] ?? payload.refused ?? identity.refused ?? refusal(incoming, stored, policy)
  const redelivered = incoming.redelivered === true
  return refused === undefined ? { stored, redelivered } : { stored, redelivered, refused }
}

/** A delivery as it would be stored. Most never are, so what only storing needs is made when it is asked for. */
class Delivery implements StoredMessage {
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly fingerprint: string
  readonly content: Uint8Array | string
  readonly #others: Parameters<typeof packAttributes>[0]
  #attributes: string | undefined

  constructor(incoming: IncomingMessage, { source, id, key }: Identity, content: Uint8Array | string) {
    this.messageKey = messageKey(source, key)
    this.source = source
    this.id = id
    this.type = typeOf(incoming)
    this.key = keyOf(incoming)
    this.fingerprint = fingerprint(content)
    this.content = content
    this.#others = cleanAttributes(incoming)
  }

  get attributes(): string {
    this.#attributes ??= this.#others === NOTHING_ELSE ? NO_ATTRIBUTES : packAttributes(this.#others)
    return this.#attributes
  }

  get data(): Uint8Array {
    return typeof this.content === 'string' ? Buffer.from(this.content) : this.content
  }

  get bytes(): number {
    const { content, attributes } = this
    const length = typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength
    return length + (attributes === NO_ATTRIBUTES ? 2 : Buffer.byteLength(attributes))
  }
}

function typeOf({ type }: IncomingMessage): string {
  return isText(type, MAX_TEXT_BYTES) ? type : shown(type)
}

function keyOf({ key }: IncomingMessage): string | null {
  return isText(key, MAX_TEXT_BYTES) ? key : null
}

/** The payload: bytes, copied because the sender may use them again; a text that is no JSON; or the JSON of a value. */
interface Payload {
  readonly content: Uint8Array | string
  readonly refused?: HapaxError
}

function payloadOf({ data, datacontenttype }: IncomingMessage): Payload {
  if (data === undefined) return { content: '' }
  if (ArrayBuffer.isView(data)) {
    return { content: new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice() }
  }
  if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) return { content: new Uint8Array(data).slice() }
  if (typeof data === 'string' && !isJson(datacontenttype)) return { content: data.toWellFormed() }
  try {
    const json = JSON.stringify(data)
    if (json !== undefined) return { content: json }
  } catch (error) {
    return unserialisable(data, error)
  }
  return unserialisable(data, undefined)
}

function unserialisable(data: unknown, cause: unknown): Payload {
  const reason = cause === undefined ? '' : `: ${messageOf(asError(cause))}`
  const what = `expected data to be a JSON value, got ${describe(data)}${reason}`
  return { content: describe(data), refused: new HapaxError('invalid-payload', what, { cause }) }
}

/** Who sent which message; `key` is what its identity is computed from, usually the id. */
interface Identity {
  readonly source: string
  readonly id: string
  readonly key: string
  readonly refused?: HapaxError
}

function identify(incoming: IncomingMessage, content: Uint8Array | string, { missingId }: IntakePolicy): Identity {
  const { source, id } = incoming
  const standIn = (): string => payloadId(typeOf(incoming), keyOf(incoming), content)
  // What is refused has an identity as well: of two that look alike both are kept. Without a broker that tells deliveries apart
  // it is that of a redelivery, so that a sender who tries again does not fill the failed store.
  const { [DELIVERY]: delivery } = incoming
  const ownId = (): string => (delivery === undefined ? standIn() : payloadId(delivery, standIn(), ''))
  if (!isText(source, MAX_TEXT_BYTES)) {
    const given = isText(id, MAX_TEXT_BYTES) ? id : ''
    const refused = invalid('invalid-message', 'source', source)
    return { source: shown(source), id: given || ownId(), key: given + ownId(), refused }
  }
  if (isText(id, MAX_TEXT_BYTES)) return { source, id, key: id }
  const derived = missingId === 'hash' ? standIn() : typeof missingId === 'function' ? asked(missingId, incoming) : id
  if (isText(derived, MAX_TEXT_BYTES)) return { source, id: derived, key: derived }
  const missing = derived === undefined || derived === null || derived === ''
  const refused = missing ? withoutId() : invalid('invalid-id', 'id', derived)
  const own = ownId()
  return { source, id: own, key: own, refused }
}

/** The id that the application's function gives, if it gives one at once and does not fail. */
function asked(missingId: (message: IncomingMessage) => unknown, incoming: IncomingMessage): unknown {
  try {
    const id = missingId(incoming)
    if (id instanceof Promise) id.catch(() => {})
    return id
  } catch {
    return undefined
  }
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

function withoutId(): HapaxError {
  const what = `say where it is found, with 'id' in .from(), or what stands in for it, with missingId`
  return new HapaxError('missing-id', `the message came without an id: ${what}`, { fields: { attribute: 'id' } })
}

function invalid(code: 'invalid-id' | 'invalid-message', name: string, got: unknown): HapaxError {
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
  if (isBare(incoming)) return NOTHING_ELSE
  let clean = NOTHING_ELSE
  for (const name of TEXTS) {
    const value = incoming[name]
    if (typeof value === 'string') clean = { ...clean, [name]: value }
  }
  const { headers } = incoming
  return typeof headers === 'object' && headers !== null ? { ...clean, headers: cleanHeaders(headers) } : clean
}

/** Whether it has none of them. One by one: names that are looked up in a list cost as much as a hash. */
function isBare(incoming: IncomingMessage): boolean {
  return (
    incoming.subject === undefined &&
    incoming.time === undefined &&
    incoming.datacontenttype === undefined &&
    incoming.correlationId === undefined &&
    incoming.causationId === undefined &&
    incoming.traceparent === undefined &&
    incoming.tracestate === undefined &&
    incoming.headers === undefined
  )
}

const NOTHING_ELSE: Parameters<typeof packAttributes>[0] = Object.freeze({})

function cleanHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const clean: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    if (['string', 'number', 'boolean', 'bigint'].includes(typeof value)) clean[name] = String(value)
  }
  return clean
}

/**
 * What a handler gets of a stored message: the JSON value; where its content type is not JSON, a text for `text/…` and
 * bytes else. Made anew at every call, so that no handler sees what another run did to it. Throws `invalid-payload`.
 */
export function decode(stored: StoredMessage, contentType: string | undefined): unknown {
  const content = stored instanceof Delivery ? stored.content : stored.data
  if (content.length === 0) return undefined
  try {
    if (!isJson(contentType)) return isTextual(contentType) ? textOf(content) : new Uint8Array(stored.data)
    return parseJson(textOf(content))
  } catch (cause) {
    const what = isJson(contentType) ? 'JSON in UTF-8' : 'text in UTF-8'
    throw new HapaxError('invalid-payload', `expected data to be ${what}: ${messageOf(asError(cause))}`, { cause })
  }
}

/** Whether data of this content type is JSON; without one it is. */
export function isJson(contentType: unknown): boolean {
  return typeof contentType !== 'string' || /^[^;]*\bjson\b/i.test(contentType)
}

function isTextual(contentType: string | undefined): boolean {
  return contentType?.trimStart().toLowerCase().startsWith('text/') === true
}

function textOf(content: Uint8Array | string): string {
  return typeof content === 'string' ? content : utf8.decode(content)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
