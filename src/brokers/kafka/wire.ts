import type { HapaxError } from '../../base/index.ts'
import type { Arrival, OutgoingMessage } from '../../message/index.ts'
import { sortHeaders } from '../../message/index.ts'
import type { Encoder } from '../kit/index.ts'
import type { KafkaBatch } from './client.ts'

/** A message as bytes, before it is known which partition takes it. */
export interface Written {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: Map<Buffer, Buffer>
  /** Its approximate size in a batch. */
  readonly bytes: number
}

const PREFIX = 'ce_'
const CONTENT_TYPE = 'content-type'
/** What lengths, offset and timestamp add to a record. */
const OVERHEAD = 32

/** Encodes a message, usually by the CloudEvents binding for Kafka. The key of the record is the key of the message. */
export function encodeMessage(message: OutgoingMessage, encoder: Encoder): Written {
  const { attributes, plain, headers, contentType, body } = encoder.encode(message)
  const written = new Map<Buffer, Buffer>()
  let bytes = OVERHEAD + body.byteLength
  const add = (name: Buffer, value: Buffer): void => {
    written.set(name, value)
    bytes += name.byteLength + value.byteLength + 4
  }
  add(bytesOf(CONTENT_TYPE), bytesOf(contentType))
  for (const [name, value] of attributes) {
    add(bytesOf(PREFIX + name), REPEATED.has(name) ? bytesOf(value) : Buffer.from(value))
  }
  for (const [name, value] of plain) add(bytesOf(name), Buffer.from(value))
  for (const [name, value] of headers) if (!isOurs(name.toLowerCase())) add(Buffer.from(name), Buffer.from(value))
  const key = message.key === undefined ? undefined : Buffer.from(message.key)
  return { key, value: asBuffer(body), headers: written, bytes: bytes + (key?.byteLength ?? 0) }
}

/** Attributes with few different values. */
const REPEATED: ReadonlySet<string> = new Set(['specversion', 'source', 'type'])
const known = new Map<string, Buffer>()
const MOST_KNOWN = 1_000

/** The bytes of a text that many messages have. */
function bytesOf(text: string): Buffer {
  const found = known.get(text)
  if (found !== undefined) return found
  const bytes = Buffer.from(text)
  if (known.size >= MOST_KNOWN) known.clear()
  known.set(text, bytes)
  return bytes
}

/** A custom header must not replace an attribute or the content type. */
function isOurs(name: string): boolean {
  return name === CONTENT_TYPE || name.startsWith(PREFIX)
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** A record as it was fetched. */
export interface Fetched {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly leaderEpoch: number
  readonly timestamp: bigint
  readonly record: KafkaBatch['records'][number]
  readonly bytes: number
  /** Why it could not be read. */
  readonly refused: HapaxError | undefined
}

/** Turns a record into an arrival. A record without a value (a tombstone) has an empty body. */
export function arrivalOf(fetched: Fetched, redelivered: boolean): Arrival {
  const { topic, partition, offset, timestamp, record, refused } = fetched
  const headers = record.headers.flatMap(([name, value]) => (name === null ? [] : [[String(name), value] as const]))
  const sorted = sortHeaders(headers, { prefixes: [PREFIX], drop: (name) => name === CONTENT_TYPE })
  const type = headers.findLast(([name]) => name.toLowerCase() === CONTENT_TYPE)?.[1]
  const key = textOf(record.key)
  return {
    body: record.value ?? EMPTY,
    contentType: type?.toString(),
    attributes: withKey(sorted.attributes, key),
    headers: sorted.headers,
    properties: {
      topic,
      partition: String(partition),
      offset: String(offset),
      timestamp: timeOf(timestamp),
      ...(key === undefined ? {} : { key }),
    },
    redelivered,
    refused,
  }
}

const EMPTY = Buffer.alloc(0)

/** The key of the record is the key of the message, unless the sender set `partitionkey`. */
function withKey(attributes: Arrival['attributes'], key: string | undefined): Arrival['attributes'] {
  if (key === undefined || key === '' || attributes['partitionkey'] !== undefined) return attributes
  return Object.assign(Object.create(null), attributes, { partitionkey: key })
}

function timeOf(timestamp: bigint): string {
  const time = new Date(Number(timestamp))
  return Number.isNaN(time.getTime()) ? '' : time.toISOString()
}

function textOf(bytes: Buffer | null): string | undefined {
  if (bytes === null) return undefined
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
