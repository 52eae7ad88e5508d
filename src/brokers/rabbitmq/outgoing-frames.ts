import { contentTypeOf, eachOwnAttribute, type OutgoingMessage, sharedAttributes } from '../../message/index.ts'
import type { AmqpPublish } from './client.ts'
import { type Outgoing, prefixed, propertiesOf } from './wire.ts'

// Messages in the frames of AMQP 0-9-1, many of them in one piece of memory. `amqplib` makes six pieces of each message and hands every
// message to the socket by itself, which is much of what a relay spends.

/** A message to be sent. */
export interface Sent {
  readonly message: OutgoingMessage
  readonly routingKey: string
  readonly body: Buffer
  /** Whether its attributes travel as they are; then nothing else is needed. */
  readonly isPlain: boolean
  readonly outgoing: Outgoing
}

/** Where the frames go. */
interface FramesOptions {
  /** The number of the channel. */
  readonly channel: number
  readonly exchange: string
  /** The largest frame that the server takes. */
  readonly frameMax: number
}

/** Collects the frames of messages that are published to one exchange. */
export class Frames {
  readonly #options: FramesOptions
  /** The method frame for each routing key: it is the same for all messages of a type. */
  readonly #methods = new Map<string, Buffer | undefined>()
  /** The attributes that messages of a type share, and the source that they are for. */
  readonly #shared = new Map<string, { readonly source: string; readonly bytes: Buffer }>()
  #bytes = NONE
  #start = 0
  #at = 0

  constructor(options: FramesOptions) {
    this.#options = options
  }

  /** Adds the frames of a message. False: it is not one of the usual ones, and has to take the way through `amqplib`. */
  add(sent: Sent): boolean {
    const { body } = sent
    const method = this.#methodOf(sent.routingKey)
    const most = sent.isPlain ? mostOfMessage(sent.message) : mostOfTable(sent.outgoing.options)
    if (method === undefined || most > MOST_HEADER || body.length > MOST_BODY) return false
    if (most + body.length + FRAME > this.#options.frameMax) return false
    this.#reserve(method.length + most + body.length + 2 * FRAME)
    this.#copy(method)
    this.#header(sent, body.length)
    if (body.length > 0) this.#body(body)
    return true
  }

  /** The frames since the last call. */
  take(): Buffer | undefined {
    if (this.#at === this.#start) return undefined
    const taken = this.#bytes.subarray(this.#start, this.#at)
    this.#start = this.#at
    return taken
  }

  /** More than what is left makes a new piece; frames that were not taken yet move there. */
  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const kept = this.#bytes.subarray(this.#start, this.#at)
    // Not from the pool of Node.js, which would keep small pieces of others alive.
    this.#bytes = Buffer.allocUnsafeSlow(Math.max(PIECE, 2 * (kept.length + bytes)))
    this.#start = 0
    this.#at = kept.copy(this.#bytes)
  }

  #methodOf(routingKey: string): Buffer | undefined {
    if (this.#methods.has(routingKey)) return this.#methods.get(routingKey)
    const { channel, exchange } = this.#options
    const made = methodFrame(channel, exchange, routingKey)
    if (this.#methods.size >= MOST_KNOWN) this.#methods.clear()
    this.#methods.set(routingKey, made)
    return made
  }

  #header(sent: Sent, size: number): void {
    const { appId, correlationId, messageId, timestamp, type } = sent.isPlain
      ? propertiesOf(sent.message)
      : sent.outgoing.options
    const start = this.#begin(HEADER)
    this.#uint16(BASIC)
    this.#uint16(0)
    this.#uint64(size)
    const flags = this.#at
    this.#at += 2
    let set = CONTENT_TYPE | HEADERS | DELIVERY_MODE
    if (sent.isPlain) {
      this.#short(contentTypeOf(sent.message))
      this.#attributes(sent.message)
    } else {
      const { contentType, headers } = sent.outgoing.options
      this.#short(contentType)
      this.#table(headers)
    }
    this.#uint8(PERSISTENT)
    if (correlationId !== undefined) {
      set |= CORRELATION_ID
      this.#short(correlationId)
    }
    if (messageId !== undefined) {
      set |= MESSAGE_ID
      this.#short(messageId)
    }
    if (timestamp !== undefined) {
      set |= TIMESTAMP
      this.#uint64(timestamp)
    }
    if (type !== undefined) {
      set |= TYPE
      this.#short(type)
    }
    if (appId !== undefined) {
      set |= APP_ID
      this.#short(appId)
    }
    this.#bytes[flags] = set >> 8
    this.#bytes[flags + 1] = set
    this.#end(start)
  }

  #body(body: Buffer): void {
    const start = this.#begin(BODY)
    this.#copy(body)
    this.#end(start)
  }

  /** The attributes of a message, as a table. */
  #attributes(message: OutgoingMessage): void {
    const start = this.#at
    this.#at += 4
    this.#copy(this.#sharedOf(message))
    eachOwnAttribute(message, this.#attribute)
    this.#uint32At(start, this.#at - start - 4)
  }

  readonly #attribute = (name: string, value: string): void => {
    this.#copy(nameOf(prefixed(name)))
    this.#long(value)
  }

  #table(headers: Readonly<Record<string, string>>): void {
    const start = this.#at
    this.#at += 4
    for (const name in headers) {
      this.#copy(nameOf(name))
      this.#long(headers[name] ?? '')
    }
    this.#uint32At(start, this.#at - start - 4)
  }

  /** What all messages of a type have in common, encoded once. */
  #sharedOf(message: OutgoingMessage): Buffer {
    const known = this.#shared.get(message.type)
    if (known?.source === message.source) return known.bytes
    const entries = sharedAttributes(message).flatMap(([name, value]) => [nameOf(prefixed(name)), longText(value)])
    const bytes = Buffer.concat(entries)
    if (this.#shared.size >= MOST_KNOWN) this.#shared.clear()
    this.#shared.set(message.type, { source: message.source, bytes })
    return bytes
  }

  #begin(type: number): number {
    const start = this.#at
    this.#bytes[start] = type
    this.#at = start + 1
    this.#uint16(this.#options.channel)
    this.#at += 4
    return start
  }

  #end(start: number): void {
    this.#uint32At(start + 3, this.#at - start - 7)
    this.#uint8(FRAME_END)
  }

  #short(text: string): void {
    const start = this.#at
    this.#at += 1
    this.#text(text)
    this.#bytes[start] = this.#at - start - 1
  }

  #long(text: string): void {
    const start = this.#at
    this.#at += 4
    this.#text(text)
    this.#uint32At(start, this.#at - start - 4)
  }

  /** Short texts are ASCII almost always: written here, they need no call into Node.js. */
  #text(text: string): void {
    const bytes = this.#bytes
    const start = this.#at
    const length = text.length
    if (length <= SHORT) {
      let index = 0
      for (; index < length; index++) {
        const code = text.charCodeAt(index)
        if (code > 0x7f) break
        bytes[start + index] = code
      }
      if (index === length) {
        this.#at = start + length
        return
      }
    }
    this.#at = start + bytes.write(text, start)
  }

  #copy(from: Buffer): void {
    this.#bytes.set(from, this.#at)
    this.#at += from.length
  }

  #uint8(value: number): void {
    this.#bytes[this.#at] = value
    this.#at += 1
  }

  #uint16(value: number): void {
    this.#bytes[this.#at] = value >> 8
    this.#bytes[this.#at + 1] = value
    this.#at += 2
  }

  #uint64(value: number): void {
    this.#uint32At(this.#at, Math.floor(value / 2 ** 32))
    this.#uint32At(this.#at + 4, value)
    this.#at += 8
  }

  #uint32At(at: number, value: number): void {
    const bytes = this.#bytes
    bytes[at] = value >>> 24
    bytes[at + 1] = value >>> 16
    bytes[at + 2] = value >>> 8
    bytes[at + 3] = value
  }
}

const NONE = Buffer.alloc(0)
/** The size of one piece of memory. */
const PIECE = 512 * 1024
/** Larger headers and bodies are rare, and copying them here would gain nothing. */
const MOST_HEADER = 16 * 1024
const MOST_BODY = 64 * 1024
/** How many routing keys, types and names of headers are remembered. */
const MOST_KNOWN = 1_000
/** What a frame adds to its content. */
const FRAME = 8
/** Up to this length, a loop writes a text faster than Node.js does. */
const SHORT = 48

const [METHOD, HEADER, BODY, FRAME_END] = [1, 2, 3, 0xce] as const
/** The class of messages in AMQP, and its method that publishes one. */
const [BASIC, PUBLISH] = [60, 40] as const
const MANDATORY = 1
const PERSISTENT = 2
/** Flags that say which properties a header has. */
const CONTENT_TYPE = 0x8000
const HEADERS = 0x2000
const DELIVERY_MODE = 0x1000
const CORRELATION_ID = 0x0400
const MESSAGE_ID = 0x0080
const TIMESTAMP = 0x0040
const TYPE = 0x0020
const APP_ID = 0x0008

/** The frame that says where a message goes; undefined if the names do not fit. */
function methodFrame(channel: number, exchange: string, routingKey: string): Buffer | undefined {
  const names = [Buffer.from(exchange), Buffer.from(routingKey)]
  if (names.some(({ length }) => length > MOST_SHORT)) return undefined
  const content = Buffer.concat([
    Buffer.from([0, BASIC, 0, PUBLISH, 0, 0]),
    ...names.flatMap((name) => [Buffer.from([name.length]), name]),
    Buffer.from([MANDATORY]),
  ])
  const start = Buffer.from([METHOD, channel >> 8, channel, 0, 0, 0, 0])
  start.writeUInt32BE(content.length, 3)
  return Buffer.concat([start, content, Buffer.from([FRAME_END])])
}

/** The most bytes of a short string. */
const MOST_SHORT = 255

/** What the header frame can take at most, without looking at every character: three bytes for each, and a name for each attribute. */
function mostOfMessage(message: OutgoingMessage): number {
  const { id, source, type, correlationId } = message
  const contentType = contentTypeOf(message)
  if (contentType.length * 3 > MOST_SHORT) return Number.POSITIVE_INFINITY
  let units = contentType.length + 2 * id.length + source.length + 2 * type.length + 2 * (correlationId?.length ?? 0)
  for (const value of [message.subject, message.time, message.key, message.causationId]) units += value?.length ?? 0
  return FIXED + 3 * (units + (message.traceparent?.length ?? 0) + (message.tracestate?.length ?? 0))
}

/** More than the fixed parts of a header frame and the names of all attributes. */
const FIXED = 512

function mostOfTable(options: AmqpPublish): number {
  const { headers, contentType, messageId = '', type = '', correlationId = '', appId = '' } = options
  if (contentType.length * 3 > MOST_SHORT) return Number.POSITIVE_INFINITY
  let bytes = FIXED
  let units = contentType.length + messageId.length + type.length + correlationId.length + appId.length
  for (const name in headers) {
    // Its length takes one byte.
    if (name.length * 3 > MOST_SHORT) return Number.POSITIVE_INFINITY
    bytes += 6
    units += name.length + (headers[name]?.length ?? 0)
  }
  return bytes + 3 * units
}

function longText(text: string): Buffer {
  const bytes = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** Names of headers with their length and the tag of a string; they are the same in every message. */
const names = new Map<string, Buffer>()

function nameOf(name: string): Buffer {
  const known = names.get(name)
  if (known !== undefined) return known
  const bytes = Buffer.from(name)
  const made = Buffer.concat([Buffer.from([bytes.length]), bytes, Buffer.from('S')])
  if (names.size >= MOST_KNOWN) names.clear()
  names.set(name, made)
  return made
}
