// The first look at a message from outside. Every field is checked, because a sender may have written anything into it. What cannot be
// taken gets an identity too, so that it can be kept in the failed store.

import { randomUUID } from 'node:crypto'
import type { Clock } from '../base/index.ts'
import { asError, describe, HapaxError, isText, messageOf } from '../base/index.ts'
import { computedKey } from './key.ts'
import {
  CUT,
  DELIVERY,
  encodeText,
  FINGERPRINT,
  fingerprintOf,
  type IncomingMessage,
  messageKey,
  NO_ATTRIBUTES,
  packAttributes,
  payloadId,
  REFUSED,
  type StoredMessage,
  sha256,
} from './message.ts'
import { parseJson } from './payload.ts'
import { cutAttributes, markStub, STUB_BYTES, type Stub } from './stub.ts'
import type { MessageType } from './type.ts'

/** What to do with a message whose id is missing or invalid: refuse it, hash its payload, or call a function. */
export type MissingId = 'reject' | 'hash' | ((message: IncomingMessage) => string)

/** A checked delivery: either fit to be handled, or refused for a reason. */
export interface Received {
  readonly stored: StoredMessage
  readonly redelivered: boolean
  readonly refused?: HapaxError
}

/** The limits and policies of a consumer. */
export interface IntakePolicy {
  readonly missingId: MissingId
  readonly maxBytes: number
  readonly maxAgeMs: number | undefined
  readonly clock: Clock
  /** Whether the consumer keeps order, so that a message whose key cannot be computed is refused. */
  readonly ordered: boolean
  /** The definition of a type, if this process has it: it computes the key of a message that has none. */
  typeOf(type: string): MessageType<never, unknown> | undefined
}

/** The longest id, source, type or key that is taken, in bytes of UTF-8. */
export const MAX_TEXT_BYTES = 2048

/** Whether a value can be a type or a key. These are indexed, so their encoded form must be short enough as well. */
export function isIndexed(value: unknown): value is string {
  if (!isText(value, MAX_TEXT_BYTES)) return false
  const encoded = encodeText(value)
  return encoded === value || Buffer.byteLength(encoded) <= MAX_TEXT_BYTES
}

/** What is asked of an attribute, in words. */
export function textRule(name: string): string {
  const more = name === 'id' || name === 'source' ? '' : ' in the form in which it is stored'
  return `a non-empty, well-formed string of at most ${MAX_TEXT_BYTES} bytes${more}`
}

/** Whether a value can be an id or a source. */
export function isName(value: unknown): value is string {
  return isText(value, MAX_TEXT_BYTES)
}

/** Checks a delivery and gives it its identity. Throws only for something that is not a message at all. */
export function intake(incoming: IncomingMessage, policy: IntakePolicy): Received {
  if (typeof incoming !== 'object' || incoming === null) {
    throw new HapaxError('invalid-message', `expected a message to be an object, got ${describe(incoming)}`)
  }
  try {
    return look(incoming, policy)
  } catch (cause) {
    // A proxy or a getter that throws. Nothing of it can be kept except that it came.
    const refused = new HapaxError('invalid-message', 'the message could not be read', { cause })
    const id = randomUUID()
    const identity = { source: '(unreadable)', id, key: id }
    const stored = new Delivery(
      { source: '(unreadable)', type: '(unreadable)' },
      identity,
      payload('', policy.maxBytes),
    )
    return { stored, redelivered: false, refused }
  }
}

function look(incoming: IncomingMessage, policy: IntakePolicy): Received {
  const came = payloadOf(incoming, policy.maxBytes)
  const identity = identify(incoming, came.sha256, policy)
  const whole = new Delivery(incoming, identity, came)
  const refused =
    incoming[REFUSED] ??
    came.refused ??
    identity.refused ??
    refusal(incoming, whole, policy) ??
    whole.addKey(incoming, policy)
  const redelivered = incoming.redelivered === true
  if (refused === undefined) return { stored: whole, redelivered }
  // Whatever the reason for the refusal: a message that is too large to be taken is too large to be kept.
  const { [CUT]: cut } = incoming
  const stored = cut !== undefined ? whole.rest(cut.bytes) : whole.bytes > policy.maxBytes ? whole.stub() : whole
  return { stored, redelivered, refused }
}

/** A delivery as it would be stored. Most never are, so what only storing needs is computed on demand. */
class Delivery implements StoredMessage {
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  key: string | null
  readonly fingerprint: string
  readonly content: Uint8Array | string
  readonly #payload: Payload
  readonly #others: Parameters<typeof packAttributes>[0]
  #attributes: string | undefined

  constructor(incoming: IncomingMessage, { source, id, key }: Identity, came: Payload) {
    this.messageKey = messageKey(source, key)
    this.source = source
    this.id = id
    this.type = typeOf(incoming)
    this.key = keyOf(incoming)
    this.fingerprint = incoming[FINGERPRINT] ?? fingerprintOf(came.sha256)
    this.content = came.content
    this.#payload = came
    this.#others = cleanAttributes(incoming)
  }

  /**
   * Adds the key that its type computes, if it arrived without one; its identity is unchanged. Returns the reason for refusing it: its key
   * cannot be computed, and its consumer keeps order.
   */
  addKey({ key, datacontenttype }: IncomingMessage, { typeOf, ordered }: IntakePolicy): HapaxError | undefined {
    const type = key === undefined ? typeOf(this.type) : undefined
    if (type === undefined) return undefined
    try {
      this.key = computedKey(type, this, typeof datacontenttype === 'string' ? datacontenttype : undefined)
    } catch (error) {
      if (ordered && error instanceof HapaxError) return error
    }
    return undefined
  }

  get attributes(): string {
    this.#attributes ??= this.#others === NOTHING_ELSE ? NO_ATTRIBUTES : packAttributes(this.#others)
    return this.#attributes
  }

  get data(): Uint8Array {
    return typeof this.content === 'string' ? Buffer.from(this.content) : this.content
  }

  get bytes(): number {
    const { attributes } = this
    return this.#payload.bytes + (attributes === NO_ATTRIBUTES ? 2 : Buffer.byteLength(attributes))
  }

  /** What is kept of one that is too large: all of it only if that is little. */
  stub(): StoredMessage {
    const { bytes, sha256: digest } = this.#payload
    // With another limit it may be tried again.
    const little = bytes <= STUB_BYTES && cutAttributes(this.attributes) === this.attributes
    return little ? this : this.#stub({ bytes, sha256: digest })
  }

  /** What is kept of one whose end did not come. */
  rest(bytes: number | null): StoredMessage {
    return this.#stub({ bytes, sha256: null })
  }

  #stub(stub: Stub): StoredMessage {
    const { messageKey: identity, source, id, type, key, fingerprint, content } = this
    const attributes = markStub(cutAttributes(this.attributes), stub)
    return { messageKey: identity, source, id, type, key, fingerprint, attributes, data: beginning(content) }
  }
}

/** A copy, because a view would keep the whole payload in memory. */
function beginning(content: Uint8Array | string): Uint8Array {
  if (typeof content !== 'string') return content.slice(0, STUB_BYTES)
  return Buffer.from(content.slice(0, STUB_BYTES)).subarray(0, STUB_BYTES)
}

function typeOf({ type }: IncomingMessage): string {
  return isIndexed(type) ? type : shown(type)
}

function keyOf({ key }: IncomingMessage): string | null {
  return isIndexed(key) ? key : null
}

/** The payload: bytes, a text that is no JSON, or the JSON of a value. */
interface Payload {
  /** Of one that is too large only the beginning. */
  readonly content: Uint8Array | string
  /** How large it is as a whole. */
  readonly bytes: number
  readonly sha256: string
  readonly refused?: HapaxError
}

function payloadOf({ data, datacontenttype }: IncomingMessage, maxBytes: number): Payload {
  if (data === undefined) return payload('', maxBytes)
  if (ArrayBuffer.isView(data)) {
    return payload(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), maxBytes)
  }
  if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) return payload(new Uint8Array(data), maxBytes)
  if (typeof data === 'string' && !isJson(datacontenttype)) return payload(data.toWellFormed(), maxBytes)
  try {
    const json = JSON.stringify(data)
    if (json !== undefined) return payload(json, maxBytes)
  } catch (error) {
    return unserialisable(data, error)
  }
  return unserialisable(data, undefined)
}

/** Bytes are copied, because the caller may reuse the buffer. Of too large ones, only the beginning is. */
function payload(whole: Uint8Array | string, maxBytes: number): Payload {
  const bytes = typeof whole === 'string' ? Buffer.byteLength(whole) : whole.byteLength
  const content = bytes > maxBytes ? beginning(whole) : typeof whole === 'string' ? whole : whole.slice()
  return { content, bytes, sha256: sha256(whole) }
}

function unserialisable(data: unknown, cause: unknown): Payload {
  const reason = cause === undefined ? '' : `: ${messageOf(asError(cause))}`
  const what = `expected data to be a JSON value, got ${describe(data)}${reason}`
  const content = describe(data)
  const refused = new HapaxError('invalid-payload', what, { cause })
  return { content, bytes: Buffer.byteLength(content), sha256: sha256(content), refused }
}

/** Who sent which message; `key` is what its identity is computed from, usually the id. */
interface Identity {
  readonly source: string
  readonly id: string
  readonly key: string
  readonly refused?: HapaxError
}

function identify(incoming: IncomingMessage, digest: string, { missingId }: IntakePolicy): Identity {
  const { source, id } = incoming
  if (isName(source) && isName(id)) return { source, id, key: id }
  return withoutName(incoming, digest, missingId)
}

/** The identity of a message without a usable source or id. */
function withoutName(incoming: IncomingMessage, digest: string, missingId: MissingId): Identity {
  const { source, id } = incoming
  const standIn = (): string => standInOf(incoming, digest)
  // A refused message has an identity as well, so that two that look alike are both kept. If the broker does not tell deliveries
  // apart, equal ones count as redeliveries, so that a sender that tries again does not fill the failed store.
  const { [DELIVERY]: delivery } = incoming
  const ownId = (): string => (delivery === undefined ? standIn() : payloadId(delivery, standIn(), ''))
  if (!isName(source)) {
    const given = isName(id) ? id : ''
    const refused = invalid('invalid-message', 'source', source)
    return { source: shown(source), id: given || ownId(), key: given + ownId(), refused }
  }
  const derived = missingId === 'hash' ? standIn() : typeof missingId === 'function' ? asked(missingId, incoming) : id
  if (isName(derived)) return { source, id: derived, key: derived }
  const missing = derived === undefined || derived === null || derived === ''
  const refused = missing ? withoutId() : invalid('invalid-id', 'id', derived)
  const own = ownId()
  return { source, id: own, key: own, refused }
}

/** A stand-in for an id that is missing or invalid. Different messages get different stand-ins. */
function standInOf(incoming: IncomingMessage, digest: string): string {
  const { source, id } = incoming
  const plain = payloadId(typeOf(incoming), keyOf(incoming), digest)
  const unusable = [source, id].map((each) => (isName(each) ? '' : unusableText(each))).join()
  return unusable === ',' ? plain : payloadId(plain, unusable, '')
}

/** Tells invalid values apart. A text is hashed by its UTF-16 units: in UTF-8, all lone surrogates are the same. */
function unusableText(value: unknown): string {
  if (value === undefined || value === null || value === '') return ''
  return typeof value === 'string' ? sha256(Buffer.from(value, 'utf16le')) : `${typeof value} ${describe(value)}`
}

/** The id that the application's function returns, unless it throws. A promise is not an id. */
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
  if (!isIndexed(type)) return invalid('invalid-message', 'type', type)
  if (key !== undefined && !isIndexed(key)) return invalid('invalid-message', 'key', key)
  const { bytes } = stored
  if (bytes > policy.maxBytes) {
    return new HapaxError('too-large', `expected a message of at most ${policy.maxBytes} bytes, got ${bytes}`, {
      fields: { bytes },
    })
  }
  return expired(time, policy)
}

/** A message without a usable time, or with one in the future, may be of any age: it counts as expired. */
function expired(time: unknown, { maxAgeMs, clock }: IntakePolicy): HapaxError | undefined {
  if (maxAgeMs === undefined) return undefined
  const ageMs = typeof time === 'string' ? clock.now() - Date.parse(time) : Number.NaN
  if (ageMs <= maxAgeMs && ageMs >= -AHEAD_MS) return undefined
  const got = Number.isNaN(ageMs)
    ? `one whose time is ${describe(time)}`
    : ageMs < 0
      ? `one that is ${-ageMs} ms ahead of the clock here`
      : `one of ${ageMs} ms`
  return new HapaxError('expired', `expected a message of at most ${maxAgeMs} ms of age, got ${got}`, {
    fields: Number.isNaN(ageMs) ? {} : { ageMs },
  })
}

/** How far the clock of a sender may be ahead. */
const AHEAD_MS = 5 * 60_000

function withoutId(): HapaxError {
  const what = `say where it is found, with 'id' in .from(), or what stands in for it, with missingId`
  return new HapaxError('missing-id', `the message came without an id: ${what}`, { fields: { attribute: 'id' } })
}

function invalid(code: 'invalid-id' | 'invalid-message', name: string, got: unknown): HapaxError {
  const what = `expected ${name} to be ${textRule(name)}, got ${describe(got)}`
  return new HapaxError(code, what, { fields: { attribute: name } })
}

/** What the failed store shows for an invalid attribute. */
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

/** The attributes without a column. Values that are not texts are dropped. */
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

/** Whether it has none of them. Written out, because a loop over names costs as much as a hash here. */
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
export function decode(stored: Pick<StoredMessage, 'data'>, contentType: string | undefined): unknown {
  const content = stored instanceof Delivery ? stored.content : stored.data
  try {
    if (isTextual(contentType)) return textOf(content, wholeText)
    if (!isJson(contentType)) return new Uint8Array(stored.data)
    return content.length === 0 ? undefined : parseJson(textOf(content, utf8))
  } catch (cause) {
    const what = isJson(contentType) ? 'JSON in UTF-8' : 'text in UTF-8'
    throw new HapaxError('invalid-payload', `expected data to be ${what}: ${messageOf(asError(cause))}`, { cause })
  }
}

/** Whether data of this content type is JSON; without one it is. */
export function isJson(contentType: unknown): boolean {
  return typeof contentType !== 'string' || /^[^;]*\bjson\b/i.test(contentType)
}

/** Whether data of this content type is a text, and no JSON. */
export function isTextual(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*text\//i.test(contentType) && !isJson(contentType)
}

function textOf(content: Uint8Array | string, decoder: { decode(bytes: Uint8Array): string }): string {
  return typeof content === 'string' ? content : decoder.decode(content)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
// A byte order mark belongs to a text.
const wholeText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
