import type { MsgHdrs } from '@nats-io/transport-node'
import { asError, describe, HapaxError, messageOf } from '../../base/index.ts'
import type { Arrival, OutgoingMessage } from '../../message/index.ts'
import { isStructured, messageKey, parseJson, percentDecode, percentEncode, sortHeaders } from '../../message/index.ts'
import { unencodable } from '../kit/index.ts'
import type { StreamPlan } from './options.ts'

const MSG_ID = 'Nats-Msg-Id'
const EXPECTED_STREAM = 'Nats-Expected-Stream'
const CONTENT_TYPE = 'Content-Type'
/** Holds headers that NATS cannot carry, or would take for its own: a JSON object, as base64. */
const OTHERS = 'Hapax-Headers'

/** Writes the headers of a message and returns its body. */
export function encodeMessage(message: OutgoingMessage, { name, encoder }: StreamPlan, headers: MsgHdrs): Uint8Array {
  const event = encoder.encode(message)
  // From source and id, so that equal ids of two sources are not deduplicated.
  headers.append(MSG_ID, messageKey(message.source, message.id))
  // Makes the server refuse the message if its subject belongs to another stream.
  headers.append(EXPECTED_STREAM, name)
  headers.append(CONTENT_TYPE, percentless(event.contentType))
  if (event.attributes.length > 0) headers.append('ce-datacontenttype', percentEncode(event.contentType))
  for (const [name, value] of event.attributes) headers.append(`ce-${name}`, percentEncode(value))
  for (const [name, value] of event.plain) headers.append(checkedName(name, value), value)
  writeOthers(event.headers, headers)
  return event.body
}

function checkedName(name: string, value: string): string {
  if (isCarried(name, value) && !OWN.test(name)) return name
  throw unencodable(`NATS cannot carry the header ${describe(name)} with the value ${describe(value)}`)
}

/** Names that the server and the driver use. */
const OWN = /^(nats-|hapax-)/i

/** A content type should be ASCII. One that is not must not make the message unsendable. */
function percentless(contentType: string): string {
  return /^[ -~]+$/.test(contentType) ? contentType : percentEncode(contentType)
}

function writeOthers(entries: readonly (readonly [name: string, value: string])[], headers: MsgHdrs): void {
  const hidden: (readonly [name: string, value: string])[] = []
  for (const [name, value] of entries) {
    if (isPlain(name, value) && !headers.has(name)) headers.append(name, value)
    else hidden.push([name, value])
  }
  if (hidden.length === 0) return
  const json = JSON.stringify(Object.fromEntries(hidden))
  headers.append(OTHERS, Buffer.from(json).toString('base64'))
}

/** Whether a header survives as it is: no line ends, nothing that is trimmed, no name that the server or hapax uses. */
function isPlain(name: string, value: string): boolean {
  return !RESERVED.test(name) && isCarried(name, value)
}

function isCarried(name: string, value: string): boolean {
  return TOKEN.test(name) && value === value.trim() && !CONTROL.test(value) && value.isWellFormed()
}

const TOKEN = /^[!-9;-~]+$/
const RESERVED = /^(nats-|ce-|hapax-|content-type$)/i
const CONTROL = /\p{Cc}/u

/** The subject of a message. Throws `invalid-message` if the text is not a valid subject. */
export function subjectOf(message: OutgoingMessage, { subject, prefix }: StreamPlan): string {
  const made = subject === undefined ? `${prefix}.${tokens(message.type)}` : called(subject, message)
  if (isSubject(made)) return made
  const what = `a subject without spaces, wildcards and empty parts, of at most ${MOST_CHARACTERS} characters`
  throw new HapaxError('invalid-message', `expected the subject of a message to be ${what}, got ${describe(made)}`)
}

/** The server closes a connection that sends a longer line. */
const MOST_CHARACTERS = 1024

function called(subject: NonNullable<StreamPlan['subject']>, message: OutgoingMessage): unknown {
  try {
    return subject(message)
  } catch (cause) {
    const what = `the subject of a message of type ${describe(message.type)} could not be made`
    throw new HapaxError('invalid-message', `${what}: ${messageOf(asError(cause))}`, { cause })
  }
}

/** A type as a part of a subject: wildcards, empty parts and whatever is not printable ASCII are written as %XX. */
function tokens(type: string): string {
  return percentEncode(type)
    .replaceAll('*', '%2A')
    .replaceAll('>', '%3E')
    .replace(/^\.|\.$|\.(?=\.)/g, '%2E')
}

function isSubject(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > MOST_CHARACTERS || !/^[!-~]+$/.test(value)) return false
  return value.split('.').every((token) => token !== '' && token !== '*' && token !== '>')
}

/** A message as the server handed it out. */
export interface StreamMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: MsgHdrs | undefined
}

/** Where a message is stored, and how often it has been delivered. */
export interface Position {
  readonly stream: string
  readonly seq: string
  readonly deliveryCount: number
}

/** Reads stream, sequence and delivery count from an ack subject; undefined if it is not one. */
export function positionOf(reply: string): Position | undefined {
  const parts = reply.split('.')
  // Since 2.10 a domain and an account may stand in between.
  const at = parts.length === 9 ? 2 : 4
  const [stream, seq, count] = [parts[at], parts[at + 3], Number(parts[at + 2])]
  if (!reply.startsWith('$JS.ACK.') || stream === undefined || seq === undefined || !(count > 0)) return undefined
  return { stream, seq, deliveryCount: count }
}

/** Turns a NATS message into an arrival. */
export function arrivalOf(
  { subject, data, headers }: StreamMessage,
  { stream, seq, deliveryCount }: Position,
  { redelivered, refused }: Pick<Arrival, 'redelivered' | 'refused'>,
): Arrival {
  const { attributes, headers: others, contentType, msgId, hidden } = readHeaders(headers)
  return {
    body: data,
    contentType,
    attributes,
    headers: hidden === undefined ? others : Object.assign(Object.create(null), others, hidden),
    properties: {
      subject,
      stream,
      seq,
      deliveryCount: String(deliveryCount),
      ...(msgId === undefined ? {} : { msgId }),
    },
    redelivered,
    refused,
  }
}

interface ReadHeaders extends Pick<Arrival, 'attributes' | 'contentType' | 'headers'> {
  readonly hidden: Record<string, string> | undefined
  readonly msgId: string | undefined
}

function readHeaders(headers: MsgHdrs | undefined): ReadHeaders {
  const entries = [...(headers ?? [])].map(([name, values]) => [name, values.join(', ')] as const)
  const value = (wanted: string): string | undefined => entries.find(([name]) => sameName(name, wanted))?.[1]
  const sorted = sortHeaders(entries, { prefixes: ['ce-'], drop: (name) => RESERVED.test(name) })
  const attributes: Record<string, string> = Object.create(null)
  for (const [name, text] of Object.entries(sorted.attributes)) attributes[name] = percentDecode(unquoted(text))
  const { datacontenttype } = attributes
  delete attributes['datacontenttype']
  const contentType = value(CONTENT_TYPE)
  return {
    attributes,
    headers: sorted.headers,
    hidden: readHidden(value(OTHERS)),
    contentType: isStructured(contentType) ? contentType : (datacontenttype ?? contentType),
    msgId: value(MSG_ID),
  }
}

function sameName(name: string, wanted: string): boolean {
  return name.length === wanted.length && name.toLowerCase() === wanted.toLowerCase()
}

/** Older CloudEvents libraries quote values with spaces instead of percent-encoding them. */
function unquoted(value: string): string {
  return /^".*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, '$1') : value
}

/** Reads the hidden headers. Anything but an object of texts was not written by hapax, and is ignored. */
function readHidden(encoded: string | undefined): Record<string, string> | undefined {
  if (encoded === undefined) return undefined
  try {
    const read = parseJson(Buffer.from(encoded, 'base64').toString())
    if (typeof read !== 'object' || read === null) return undefined
    const texts: Record<string, string> = Object.create(null)
    for (const [name, value] of Object.entries(read)) if (typeof value === 'string') texts[name] = value
    return texts
  } catch {
    return undefined
  }
}
