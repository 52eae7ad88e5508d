import { hash } from 'node:crypto'
import { expected, type HapaxError, uuidv7Time } from '../base/index.ts'

/** What tells a message without a usable identity from others that look like it: the delivery that it came by. */
export const DELIVERY: unique symbol = Symbol('delivery')

/** Marks a message that its reader could not decode: it is refused, and kept as it came. Only hapax has this symbol. */
export const REFUSED: unique symbol = Symbol('refused')

/** Marks a message of which its reader has only the beginning, with the size of all of it, if that is known. */
export const CUT: unique symbol = Symbol('cut')

/** What a message is compared by, where that is more than its payload. Only hapax has this symbol. */
export const FINGERPRINT: unique symbol = Symbol('fingerprint')

/** The attributes of a message: those of CloudEvents 1.0, and what hapax adds. */
export interface MessageAttributes {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject?: string
  /** RFC 3339. */
  readonly time?: string
  readonly datacontenttype?: string
  /** Messages of one key belong together, for example those of one order. */
  readonly key?: string
  readonly correlationId?: string
  readonly causationId?: string
  readonly traceparent?: string
  readonly tracestate?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A message as a handler sees it in `ctx.message`: `data` is the JSON as it came, before the schema. */
export interface Message extends MessageAttributes {
  readonly data: unknown
}

/**
 * A message as it arrives at a consumer. `data` is a JSON value, or the bytes as they came (`Uint8Array`).
 * It is what some sender made of it: every field is checked at run time.
 */
export interface IncomingMessage extends Omit<MessageAttributes, 'id'> {
  readonly id?: string
  readonly data?: unknown
  /** The broker says that it delivered this message before. */
  readonly redelivered?: boolean
  /** Why a reader could not make sense of it. */
  readonly [REFUSED]?: HapaxError
  readonly [DELIVERY]?: string
  readonly [CUT]?: { readonly bytes: number | null }
  readonly [FINGERPRINT]?: string
}

/** The same message, marked as one that its consumer refuses and keeps in the failed store. */
export function refusedMessage(message: IncomingMessage, why: HapaxError): IncomingMessage {
  return { ...message, [REFUSED]: why }
}

/** A message as it is stored: identity and payload in columns of their own, the rest as one JSON text. */
export interface StoredMessage {
  /** Computed from source and id; see `messageKey`. */
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  /** JSON of the attributes that have no column of their own. */
  readonly attributes: string
  readonly data: Uint8Array
  /** Eight bytes of the payload's hash, in hexadecimal digits. */
  readonly fingerprint: string
}

/** What a stored message is to a broker. */
export type LeavingMessage = Omit<StoredMessage, 'messageKey' | 'fingerprint'>

/** Those that have no column of their own. */
export type OtherAttributes = Omit<MessageAttributes, 'id' | 'source' | 'type' | 'key'>

const OTHERS = [
  'subject',
  'time',
  'datacontenttype',
  'correlationId',
  'causationId',
  'traceparent',
  'tracestate',
  'headers',
] as const satisfies readonly (keyof OtherAttributes)[]

/** What `packAttributes` returns when there are none. */
export const NO_ATTRIBUTES = '{}'

/** The JSON text of the attributes that have no column. */
export function packAttributes(message: OtherAttributes): string {
  let text = ''
  for (const name of OTHERS) {
    const value = message[name]
    if (value !== undefined) text += `${text === '' ? '' : ','}"${name}":${JSON.stringify(value)}`
  }
  return `{${text}}`
}

/** The first of these attributes that is not what its type says; others than hapax may have written it. */
export function wrongAttribute(attributes: MessageAttributes): string | undefined {
  for (const name in attributes) {
    const value: unknown = attributes[name as keyof MessageAttributes]
    if (typeof value !== 'string' && !(name === 'headers' && isTexts(value))) return name
  }
  return undefined
}

function isTexts(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((each) => typeof each === 'string')
}

/** The attributes of a stored message. */
export function unpackAttributes(stored: Omit<LeavingMessage, 'data'>): MessageAttributes {
  const { id, source, type, key, attributes } = stored
  const own = key === null ? { id, source, type } : { id, source, type, key }
  return attributes === NO_ATTRIBUTES ? own : { ...own, ...unpackOthers(attributes) }
}

/**
 * The `time` of a message, in milliseconds since 1970. Undefined: it has none, or none that can be read. `Date.parse` alone finds a
 * year in any text with a number, and senders without a time write the year 1.
 */
export function publishedAt(attributes: string): number | undefined {
  const time = timeOf(attributes) ?? ''
  const at = DATE_AND_TIME.test(time) ? Date.parse(time) : Number.NaN
  return at > 0 ? at : undefined
}

const DATE_AND_TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d/

/** Usually it comes first, and the rest need not be read. Others than hapax may have written anything. */
function timeOf(attributes: string): string | undefined {
  if (attributes.startsWith(TIME_FIRST))
    return attributes.slice(TIME_FIRST.length, attributes.indexOf('"', TIME_FIRST.length))
  if (!attributes.includes('"time"')) return undefined
  try {
    const { time } = unpackOthers(attributes)
    return time
  } catch {
    return undefined
  }
}

const TIME_FIRST = '{"time":"'

/** The attributes that have no column; what marks a stub is none of them. */
export function unpackOthers(attributes: string): OtherAttributes {
  const read: OtherAttributes & { readonly stub?: unknown } = JSON.parse(attributes)
  if (read.stub === undefined) return read
  const { stub: _, ...others } = read
  return others
}

/**
 * Text as a database can hold it: PostgreSQL refuses U+0000. Texts with it, and those that look escaped, are marked with
 * U+0001 and escaped; all others, practically every text, stay as they are.
 */
export function encodeText(text: string): string {
  if (text.charCodeAt(0) !== 1 && !text.includes('\0')) return text
  return `\u0001${text.replaceAll('%', '%25').replaceAll('\0', '%00')}`
}

/** The text that `encodeText` was given. */
export function decodeText(stored: string): string {
  if (stored.charCodeAt(0) !== 1) return stored
  return stored.slice(1).replaceAll('%00', '\0').replaceAll('%25', '%')
}

/**
 * The key of a message in `receipts`: a UUIDv8 computed from the exact bytes of source and id.
 * The time of a UUIDv7 id comes first, so that inserts into the index stay local; other ids have zeros there.
 */
export function messageKey(source: string, id: string): string {
  return uuidv8(uuidv7Time(id) ?? '000000000000', sha256(pair(source, id)))
}

/** Keys of messages, both ends included. */
export interface KeyRange {
  readonly from: string
  readonly to: string
}

/** The keys that a message with this id can have, whatever its source is; undefined if only the source tells. */
export function keyRange(id: string): KeyRange | undefined {
  const time = uuidv7Time(id)
  if (time === undefined) return undefined
  const start = `${time.slice(0, 8)}-${time.slice(8)}`
  return { from: `${start}-0000-0000-000000000000`, to: `${start}-ffff-ffff-ffffffffffff` }
}

/** A UUID of version 8 that begins with these twelve digits; what version and variant take the place of is left out. */
function uuidv8(start: string, digits: string): string {
  const variant = '89ab'[Number.parseInt(digits.charAt(4), 16) & 3]
  return `${start.slice(0, 8)}-${start.slice(8)}-8${digits.slice(1, 4)}-${variant}${digits.slice(5, 8)}-${digits.slice(8, 20)}`
}

/** The SHA-256 of a payload in hexadecimal digits; a text stands for its UTF-8. */
export function sha256(payload: Uint8Array | string): string {
  return hash('sha256', payload, 'hex')
}

/** Eight bytes, in hexadecimal digits, that tell one payload from another. */
export function fingerprint(payload: Uint8Array | string): string {
  return fingerprintOf(sha256(payload))
}

/** The fingerprint of a payload whose SHA-256 is known. */
export function fingerprintOf(digest: string): string {
  return digest.slice(0, 16)
}

/** An id for a message that came without one: the SHA-256 of its type, its key and the SHA-256 of its payload. */
export function payloadId(type: string, key: string | null, digest: string): string {
  return `sha256:${sha256(pair(type, key ?? '') + digest)}`
}

/**
 * A deterministic id for a sender that may be retried: the same name and parts give the same id.
 * @example messageId('order.placed', order.id, order.version)
 */
export function messageId(name: string, ...parts: readonly (string | number | bigint | boolean)[]): string {
  if (typeof name !== 'string' || name === '' || !name.isWellFormed()) {
    expected('name', 'a non-empty, well-formed string', name)
  }
  if (parts.length === 0) expected('parts', 'at least one value', parts)
  // JSON of the typed parts is an unambiguous join: ('a', 'b,c') and ('a,b', 'c') differ, and so do 1 and '1'.
  const typed = parts.map((part, index) => [typeof part, checkedPart(part, index)])
  const digest = sha256(JSON.stringify([name, typed]))
  return uuidv8(digest.slice(0, 12), digest.slice(12))
}

function checkedPart(part: unknown, index: number): string {
  const fine =
    typeof part === 'string'
      ? part.isWellFormed()
      : ['bigint', 'boolean'].includes(typeof part) || Number.isFinite(part)
  if (!fine) expected(`parts[${index}]`, 'a well-formed string, a finite number, a bigint or a boolean', part)
  return String(part)
}

/** Both texts behind their lengths in bytes, as netstrings, so that ('ab', 'c') and ('a', 'bc') differ. */
function pair(source: string, id: string): string {
  return `${Buffer.byteLength(source)}:${source},${Buffer.byteLength(id)}:${id},`
}

/** What stands in the receipt of a message that another inbox has processed: its payload is not known. */
export const IMPORTED: { readonly type: string; readonly fingerprint: string } = Object.freeze({
  type: '(imported)',
  fingerprint: '0000000000000000',
})

/** A message that another inbox has processed, as far as a receipt needs it. */
export function importedMessage(source: string, id: string, type: string): StoredMessage {
  const { fingerprint: none } = IMPORTED
  const identity = { messageKey: messageKey(source, id), source, id, type }
  return { ...identity, key: null, attributes: NO_ATTRIBUTES, data: new Uint8Array(), fingerprint: none }
}
