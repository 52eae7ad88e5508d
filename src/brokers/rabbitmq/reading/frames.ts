import { asError, fieldOf, messageOf } from '../../../base/index.ts'
import { type AmqpChannel, type AmqpConnection, type AmqpProperty, UNREADABLE } from '../client.ts'

// `amqplib` closes the connection when it cannot decode the headers of one message: it throws at some types (`L`), at deeply nested
// tables and at malformed ones. The server then redelivers the same message, and the connection dies again, for ever. So hapax decodes
// such a frame itself.

/** The part of an `amqplib` connection that reads frames. Undocumented: without it, such a message ends the link. */
interface Frames {
  recvFrame(): unknown
  /** Received bytes that are not parsed yet. */
  readonly rest: Buffer
}

const guarded = new WeakMap<Frames, Set<number>>()

/** Keeps undecodable messages of this channel from ending its connection. */
export function guardFrames({ connection }: AmqpConnection, channel: AmqpChannel): void {
  const ch = fieldOf(channel, 'ch')
  if (!readsFrames(connection) || typeof ch !== 'number') return
  const channels = guarded.get(connection) ?? guard(connection)
  channels.add(ch)
  // The number may be used for another channel next.
  channel.on('close', () => channels.delete(ch))
}

function readsFrames(connection: unknown): connection is Frames {
  return typeof fieldOf(connection, 'recvFrame') === 'function' && Buffer.isBuffer(fieldOf(connection, 'rest'))
}

function guard(frames: Frames): Set<number> {
  const channels = new Set<number>()
  const receive = frames.recvFrame
  frames.recvFrame = function recvFrame(this: Frames): unknown {
    const before = this.rest
    try {
      return receive.call(this)
    } catch (error) {
      const frame = takenFrom(before, this.rest)
      if (frame === undefined || !channels.has(frame.channel)) throw error
      return { id: BASIC, channel: frame.channel, size: frame.size, fields: propertiesIn(frame.properties) }
    }
  }
  guarded.set(frames, channels)
  return channels
}

const HEADER_FRAME = 2
const BASIC = 60
/** Type, channel and size before the payload, and the end mark after it. */
const FRAME_BYTES = 8
/** Class, weight, size of the body, and the first flags. */
const LEAST_PAYLOAD = 14

interface HeaderFrame {
  readonly channel: number
  readonly size: number
  readonly properties: Buffer
}

/** The header frame that `amqplib` consumed from `before`; undefined if it consumed something else. */
function takenFrom(before: Buffer, rest: Buffer): HeaderFrame | undefined {
  if (before.length < FRAME_BYTES + LEAST_PAYLOAD || before[0] !== HEADER_FRAME) return undefined
  const bytes = before.readUInt32BE(3)
  const payload = before.subarray(7, 7 + bytes)
  const isTaken = before.length - rest.length === FRAME_BYTES + bytes
  if (!isTaken || bytes < LEAST_PAYLOAD || payload.readUInt16BE(0) !== BASIC) return undefined
  return {
    channel: before.readUInt16BE(1),
    size: Number(payload.readBigInt64BE(4)),
    properties: payload.subarray(12),
  }
}

/** The properties in the order of their flags. */
const PROPERTIES: readonly (AmqpProperty | 'headers')[] = [
  'contentType',
  'contentEncoding',
  'headers',
  'deliveryMode',
  'priority',
  'correlationId',
  'replyTo',
  'expiration',
  'messageId',
  'timestamp',
  'type',
  'userId',
  'appId',
  'clusterId',
]

/** All properties that can be read, and the reason if some cannot. */
function propertiesIn(bytes: Buffer): Record<string | symbol, unknown> {
  const found: Record<string | symbol, unknown> = {}
  const cursor = new Cursor(bytes)
  try {
    const flags = cursor.number(2)
    for (const [at, name] of PROPERTIES.entries()) {
      if ((flags & (0x8000 >> at)) === 0) continue
      if (name === 'headers') readTable(cursor.bytes(cursor.number(4)), found)
      else if (name === 'deliveryMode' || name === 'priority') found[name] = cursor.number(1)
      else found[name] = name === 'timestamp' ? Number(cursor.bytes(8).readBigUInt64BE()) : cursor.text(1)
    }
  } catch (error) {
    found[UNREADABLE] ??= messageOf(asError(error))
  }
  return found
}

/** Reads a table. Nested lists and tables are skipped: hapax does not use them, and deep ones could exhaust the stack. */
function readTable(bytes: Buffer, found: Record<string | symbol, unknown>): void {
  const headers: Record<string, unknown> = Object.create(null)
  found['headers'] = headers
  const cursor = new Cursor(bytes)
  try {
    while (!cursor.ended) headers[cursor.text(1)] = readValue(cursor)
  } catch (error) {
    // The properties after the table can still be read.
    found[UNREADABLE] = messageOf(asError(error))
  }
}

function readValue(cursor: Cursor): unknown {
  const type = String.fromCharCode(cursor.number(1))
  switch (type) {
    case 'S':
      return cursor.text(4)
    case 'x':
      return cursor.bytes(cursor.number(4))
    case 'F':
    case 'A':
      cursor.bytes(cursor.number(4))
      return undefined
    case 'D':
      cursor.bytes(5)
      return undefined
    case 'T':
      return { '!': 'timestamp', value: Number(cursor.bytes(8).readBigUInt64BE()) }
    case 't':
      return cursor.number(1) !== 0
    case 'V':
      return undefined
    default:
      return readNumber(type, cursor)
  }
}

function readNumber(type: string, cursor: Cursor): number | bigint {
  switch (type) {
    case 'b':
      return cursor.bytes(1).readInt8()
    case 'B':
      return cursor.number(1)
    case 's':
      return cursor.bytes(2).readInt16BE()
    case 'u':
      return cursor.number(2)
    case 'I':
      return cursor.bytes(4).readInt32BE()
    case 'i':
      return cursor.number(4)
    case 'l':
      return cursor.bytes(8).readBigInt64BE()
    case 'L':
      return cursor.bytes(8).readBigUInt64BE()
    case 'f':
      return cursor.bytes(4).readFloatBE()
    case 'd':
      return cursor.bytes(8).readDoubleBE()
    default:
      throw new Error(`a header has the unknown type ${JSON.stringify(type)}`)
  }
}

/** Reads bytes in order. Throws if there are fewer than announced. */
class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get ended(): boolean {
    return this.#at >= this.#bytes.length
  }

  bytes(count: number): Buffer {
    const end = this.#at + count
    if (end > this.#bytes.length) throw new Error('the headers end too early')
    const found = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return found
  }

  /** An unsigned number of this many bytes. */
  number(width: 1 | 2 | 4): number {
    return this.bytes(width).readUIntBE(0, width)
  }

  /** A text with a length prefix. */
  text(width: 1 | 4): string {
    return this.bytes(this.number(width)).toString()
  }
}
