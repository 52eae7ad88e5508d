import type { Arrival } from './arrival.ts'
import { isJson, isTextual } from './incoming.ts'
import type { IncomingMessage, Message } from './message.ts'

/** A message on its way to a broker: its attributes, and the payload as bytes. */
export interface OutgoingMessage extends Omit<Message, 'data'> {
  readonly data: Uint8Array
}

/** How a message travels: its attributes beside the body (`binary`), or all of it as one JSON text (`structured`). */
export type EventFormat = 'binary' | 'structured'

/** A message in its form on the wire, for a driver to put into its protocol. */
export interface EncodedEvent {
  /** Attributes of CloudEvents to send beside the body, under the protocol's prefix; none in structured mode. */
  readonly attributes: readonly (readonly [name: string, value: string])[]
  /** Headers to send under exactly these names, for readers that know nothing of CloudEvents. */
  readonly plain: readonly (readonly [name: string, value: string])[]
  /** Headers of the message that are no attributes, and do not look like one in any protocol. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly contentType: string
  readonly body: Uint8Array
  /** Properties of the protocol, where it has them, that differ from those that the message gets anyway. */
  readonly properties?: Readonly<Record<string, string>>
}

/** Attributes with the same name on the wire as here. */
const PLAIN = ['subject', 'time', 'traceparent', 'tracestate'] as const
/** Attributes with another name on the wire: CloudEvents allows lower-case letters and digits only. */
const RENAMED = [
  ['key', 'partitionkey'],
  ['correlationId', 'correlationid'],
  ['causationId', 'causationid'],
] as const

const STRUCTURED = 'application/cloudevents+json'

/** Writes a message as a CloudEvent. */
export function encodeEvent(message: OutgoingMessage, format: EventFormat): EncodedEvent {
  const attributes = attributesOf(message)
  const headers = honestHeaders(message)
  const contentType = contentTypeOf(message)
  if (format === 'binary') return { attributes, plain: NONE, headers, contentType, body: message.data }
  const body = structuredBody(attributes, contentType, message.data)
  return { attributes: NONE, plain: NONE, headers, contentType: `${STRUCTURED}; charset=utf-8`, body }
}

/** The headers of a message that no reader would take for attributes. */
export function honestHeaders({ headers }: Pick<OutgoingMessage, 'headers'>): EncodedEvent['headers'] {
  return headers === undefined ? NONE : Object.entries(headers).filter(isHonest)
}

/** A message as an arrival, for a driver without a wire format. */
export function arrivalOf(message: IncomingMessage, redelivered: boolean): Arrival {
  return {
    body: bodyOf(message.data),
    contentType: contentTypeOf(message),
    attributes: Object.fromEntries(attributesOf(message)),
    headers: message.headers ?? {},
    properties: {},
    redelivered,
    refused: undefined,
  }
}

/** JSON, unless the message says otherwise. */
export function contentTypeOf({ datacontenttype = 'application/json' }: Pick<Message, 'datacontenttype'>): string {
  return datacontenttype
}

function bodyOf(data: unknown): Uint8Array {
  return data instanceof Uint8Array ? data : Buffer.from(data === undefined ? '' : JSON.stringify(data))
}

const NONE: EncodedEvent['headers'] = Object.freeze([])

/** A header, copied from a request for example, that a reader would take for an attribute is not sent. */
function isHonest([name]: readonly [name: string, value: string]): boolean {
  return !/^(?:ce[-_]|cloudevents[:_]|content-type$)/i.test(name)
}

function attributesOf(message: OutgoingMessage | IncomingMessage): [string, string][] {
  const attributes = sharedAttributes(message)
  eachOwnAttribute(message, (name, value) => attributes.push([name, value]))
  return attributes
}

/** The attributes that all messages of a type from one source share, by their names on the wire. */
export function sharedAttributes({ source, type }: Pick<Message, 'source' | 'type'>): [name: string, value: string][] {
  return [
    ['specversion', '1.0'],
    ['source', source],
    ['type', type],
  ]
}

/** All other attributes, by their names on the wire. For drivers that write a message without a list in between. */
export function eachOwnAttribute(
  message: OutgoingMessage | IncomingMessage,
  write: (name: string, value: string) => void,
): void {
  if (message.id !== undefined) write('id', message.id)
  for (const name of PLAIN) {
    const value = message[name]
    if (value !== undefined) write(name, value)
  }
  for (const [name, wireName] of RENAMED) {
    const value = message[name]
    if (value !== undefined) write(wireName, value)
  }
}

/** JSON is embedded as is and text as a string; anything else, including data that only claims to be either, as base64. */
function structuredBody(attributes: readonly [string, string][], contentType: string, data: Uint8Array): Uint8Array {
  const envelope = JSON.stringify({ ...Object.fromEntries(attributes), datacontenttype: contentType }).slice(0, -1)
  if (data.byteLength === 0) return Buffer.from(`${envelope}}`)
  const json = isJson(contentType) ? jsonText(data) : isUtf8Text(contentType) ? stringOf(data) : undefined
  const content = json === undefined ? `"data_base64":"${Buffer.from(data).toString('base64')}"` : `"data":${json}`
  return Buffer.from(`${envelope},${content}}`)
}

function jsonText(data: Uint8Array): string | undefined {
  try {
    const text = utf8.decode(data)
    JSON.parse(text)
    return text
  } catch {
    return undefined
  }
}

/** Whether a content type declares text in UTF-8 or a subset of it. */
function isUtf8Text(contentType: string): boolean {
  const [, charset = 'utf-8'] = /;\s*charset="?([^\s";]+)/i.exec(contentType) ?? []
  return isTextual(contentType) && /^(?:utf-?8|us-ascii)$/i.test(charset)
}

/** Text as a JSON string, unless escapes make it longer than base64: readers limit the size of an event. */
function stringOf(data: Uint8Array): string | undefined {
  try {
    const json = JSON.stringify(everyByte.decode(data))
    return Buffer.byteLength(json) <= (4 / 3) * data.byteLength + ESCAPES_BYTES ? json : undefined
  } catch {
    return undefined
  }
}

/** Slack for the quotes and line breaks of short texts. */
const ESCAPES_BYTES = 1_024

const utf8 = new TextDecoder('utf-8', { fatal: true })
/** Keeps a byte order mark, so that readers get identical bytes. */
const everyByte = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Whether a content type says that the body is a whole CloudEvent. */
export function isStructured(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*application\/cloudevents\b/i.test(contentType)
}

/** Whether a whole CloudEvent is written as JSON, the one format that is read. */
export function isStructuredJson(contentType: string): boolean {
  return /^\s*application\/cloudevents\+json\s*(;|$)/i.test(contentType)
}

/**
 * Headers, sorted into attributes of CloudEvents and others, by the prefixes that the protocol's binding names; upper and lower
 * case are the same. Values that are no texts are left out, and so is what `drop` names: headers that the broker adds. An id or a source
 * that is not a text is kept as an invalid one: two different ones must not look alike, or like a missing one.
 */
export function sortHeaders(
  headers: Iterable<readonly [name: string, value: unknown]>,
  { prefixes, drop }: { readonly prefixes: readonly string[]; readonly drop: (name: string) => boolean },
): Pick<Arrival, 'attributes' | 'headers'> {
  // Without a prototype: the names are the sender's.
  const attributes: Record<string, string> = Object.create(null)
  const others: Record<string, string> = Object.create(null)
  for (const [name, value] of headers) {
    const lower = name.toLowerCase()
    const prefix = prefixes.find((each) => lower.startsWith(each))
    const attribute = prefix && lower.slice(prefix.length)
    const text = textOf(value) ?? (attribute === 'id' || attribute === 'source' ? garbled(value) : undefined)
    if (text === undefined) continue
    if (attribute !== undefined) attributes[attribute] = text
    else if (!drop(lower)) others[name] = text
  }
  return { attributes, headers: others }
}

/** A header's value as a text: bytes have to be UTF-8, a date is written as RFC 3339; lists and tables are no texts. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value)
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? undefined : value.toISOString()
  if (!(value instanceof Uint8Array)) return undefined
  try {
    return utf8.decode(value)
  } catch {
    return undefined
  }
}

/** Bytes that are no UTF-8, as a string that is no text: each byte above 127 is a lone surrogate of its own. */
function garbled(value: unknown): string | undefined {
  if (!(value instanceof Uint8Array)) return undefined
  let units = ''
  for (const byte of value) units += String.fromCharCode(byte < 0x80 ? byte : 0xdc00 + byte)
  return units
}

/** Writes a value for protocols whose headers are ASCII: what is not printable, and space, quote and percent, as %XX. */
export function percentEncode(value: string): string {
  if (!/[^\u0021\u0023\u0024\u0026-\u007e]/.test(value)) return value
  let encoded = ''
  for (const byte of Buffer.from(value)) {
    const plain = byte > 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x25
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}

/** Reads such a value; what is not well encoded is taken as it stands. */
export function percentDecode(value: string): string {
  if (!value.includes('%')) return value
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
