import { HapaxError } from '../../base/index.ts'
import type { Arrival, OutgoingMessage } from '../../message/index.ts'
import { sortHeaders } from '../../message/index.ts'
import { type Encoder, unencodable } from '../kit/index.ts'
import type { Word } from './client.ts'
import { listOf, type Reply } from './link.ts'

// CloudEvents has no binding for Redis. This one follows the binding for Kafka: attributes as ce_…, the content type as content-type,
// the body as data. Custom headers have a prefix of their own, so that none can be mistaken for one of these.

const ATTRIBUTE = 'ce_'
const HEADER = 'header_'
const CONTENT_TYPE = 'content-type'
/** The default name of the body field. */
export const BODY = 'data'

/** The fields of the entry that carries a message. */
export function encodeMessage(message: OutgoingMessage, encoder: Encoder): Word[] {
  const { attributes, plain, headers, contentType, body } = encoder.encode(message)
  const fields: Word[] = []
  for (const [name, value] of attributes) fields.push(ATTRIBUTE + name, value)
  fields.push(CONTENT_TYPE, contentType)
  for (const [name, value] of plain) {
    if (name === BODY) throw unencodable(`expected no header called ${BODY}, which is the field with the body`)
    fields.push(name, value)
  }
  for (const [name, value] of headers) fields.push(HEADER + name, value)
  fields.push(BODY, Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  return fields
}

/** How much of each field, and how many fields, are kept of an entry that is too large. */
export const CUT_BYTES: number = 64 * 1024
export const CUT_FIELDS = 64

/** An entry of a stream as it was delivered. */
export interface Entry {
  readonly id: string
  /** Alternating names and values. */
  readonly fields: readonly Buffer[]
  readonly bytes: number
  /** Its full size, if only its beginning was read. */
  readonly cutFrom: number | undefined
}

/** Reads a list of entries: pairs of an id and its fields. `sizes` has the full sizes of entries that were cut, else zero. */
export function entriesOf(reply: Reply | undefined, sizes?: Reply): readonly Entry[] {
  const cutFrom = listOf(sizes)
  return listOf(reply).map((entry, at) => {
    const [id, words] = listOf(entry)
    // Not checked one by one, because this runs for every field of every message: strings are always buffers.
    const fields = listOf(words) as readonly Buffer[]
    return { id: String(id), fields, bytes: bytesOf(fields), cutFrom: Number(cutFrom[at] ?? 0) || undefined }
  })
}

function bytesOf(fields: readonly Buffer[]): number {
  return fields.reduce((sum, each) => sum + each.byteLength, 0)
}

/** The beginning of an entry that is larger than `most`. Copied, so that the rest can be garbage-collected. */
export function cut(entry: Entry, most: number): Entry {
  if (entry.bytes <= most || entry.cutFrom !== undefined) return entry
  const fields = entry.fields.slice(0, 2 * CUT_FIELDS).map((each) => Buffer.from(each.subarray(0, CUT_BYTES)))
  return { id: entry.id, fields, bytes: bytesOf(fields), cutFrom: entry.bytes }
}

/** How entries are read. */
export interface ReadingOptions {
  readonly stream: string
  /** The name of the body field. */
  readonly body: string
  /** Larger entries are not read whole. */
  readonly maxBytes: number
}

/** Turns an entry into an arrival. */
export function arrivalOf(
  entry: Entry,
  { stream, body, maxBytes }: ReadingOptions,
  { deliveryCount, redelivered }: { readonly deliveryCount: number; readonly redelivered: boolean },
): Arrival {
  const { others, contentType, data } = sorted(entry, body)
  const { attributes, headers } = sortHeaders(others, { prefixes: [ATTRIBUTE], drop: () => false })
  return {
    body: data ?? jsonOf(others),
    contentType: contentType ?? (data === undefined ? 'application/json' : undefined),
    attributes,
    headers: withoutPrefix(headers),
    properties: { entryId: entry.id, stream, deliveryCount: String(deliveryCount) },
    redelivered,
    refused: entry.cutFrom === undefined ? undefined : tooLarge(entry.cutFrom, maxBytes),
  }
}

function tooLarge(bytes: number, maxBytes: number): HapaxError {
  const what = `expected an entry of at most ${maxBytes} bytes, got ${bytes}, of which only the beginning was read`
  return new HapaxError('too-large', what, { fields: { bytes } })
}

interface Sorted {
  data: Buffer | undefined
  contentType: string | undefined
  readonly others: [name: string, value: Buffer][]
}

function sorted({ fields }: Entry, body: string): Sorted {
  const found: Sorted = { data: undefined, contentType: undefined, others: [] }
  for (let at = 0; ; at += 2) {
    const name = fields[at]?.toString()
    const value = fields[at + 1]
    if (name === undefined || value === undefined) return found
    if (name === body) found.data = value
    else if (name === CONTENT_TYPE) found.contentType = value.toString()
    else found.others.push([name, value])
  }
}

function withoutPrefix(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  // Without a prototype: the names are the sender's.
  const plain: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    plain[name.startsWith(HEADER) ? name.slice(HEADER.length) : name] = value
  }
  return plain
}

/** The body of an entry without a body field: its fields as a JSON object; empty if it has only attributes. */
function jsonOf(fields: readonly (readonly [name: string, value: Buffer])[]): Uint8Array {
  const own = fields.filter(([name]) => !name.toLowerCase().startsWith(ATTRIBUTE) && !name.startsWith(HEADER))
  if (own.length === 0) return new Uint8Array()
  const members = own.map(([name, value]) => member(name, value))
  return Buffer.from(`{${members.join(',')}}`)
}

/** Bytes that are not UTF-8 are written as base64, as CloudEvents does. */
function member(name: string, value: Buffer): string {
  try {
    return `${JSON.stringify(name)}:${JSON.stringify(utf8.decode(value))}`
  } catch {
    return `${JSON.stringify(`${name}_base64`)}:${JSON.stringify(value.toString('base64'))}`
  }
}

// A byte order mark belongs to the value.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
