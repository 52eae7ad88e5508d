import { fieldOf, HapaxError } from '../../base/index.ts'
import type { Arrival, OutgoingMessage } from '../../message/index.ts'
import { sortHeaders } from '../../message/index.ts'
import { type Encoder, unencodable } from '../kit/index.ts'
import { type AmqpMessage, type AmqpProperty, type AmqpPublish, UNREADABLE } from './client.ts'

/** The CloudEvents binding for AMQP prefers the first prefix, which hapax sends, and requires readers to accept both. */
const PREFIX = 'cloudEvents_'
const PREFIXES = ['cloudevents_', 'cloudevents:']

/** A message in its AMQP form. */
export interface Outgoing {
  readonly body: Buffer
  readonly options: AmqpPublish
}

/** Encodes a message. Throws for what the protocol cannot carry. */
export function encodeMessage(message: OutgoingMessage, encoder: Encoder): Outgoing {
  const { attributes, plain, headers, contentType, body, properties } = encoder.encode(message)
  const table = new Table()
  for (const [name, value] of headers) table[name] = checkedHeader(name, value)
  // After the headers, so that no header replaces an attribute.
  for (const [name, value] of attributes) table[prefixed(name)] = value
  for (const [name, value] of plain) table[name] = checkedHeader(name, value)
  const own = properties === undefined ? undefined : checkedProperties(message, properties)
  // `amqplib` skips properties that are undefined.
  const options = { mandatory: true, persistent: true, headers: table, contentType, ...propertiesOf(message), ...own }
  return { body: bufferOf(body), options: options as AmqpPublish }
}

/** The properties that repeat attributes, for readers that know nothing of CloudEvents. */
export interface SentProperties {
  readonly messageId: string | undefined
  readonly type: string | undefined
  readonly correlationId: string | undefined
  readonly timestamp: number | undefined
  readonly appId: string | undefined
}

/** An object of one fixed shape is faster than one put together by conditions. */
export function propertiesOf({ id, type, correlationId, time }: OutgoingMessage): SentProperties {
  return {
    messageId: short(id),
    type: short(type),
    correlationId: short(correlationId),
    timestamp: seconds(time),
    appId: undefined,
  }
}

/** The source is left out where it is too long, as other attributes are. What a function says has to fit. */
function checkedProperties(
  { source }: OutgoingMessage,
  properties: Readonly<Record<string, string>>,
): Readonly<Record<string, string | undefined>> {
  const checked: Record<string, string | undefined> = {}
  for (const [name, value] of Object.entries(properties)) {
    checked[name] = short(value)
    if (checked[name] === undefined && !(name === 'appId' && value === source)) {
      throw unencodable(`expected the property ${name} that encode returns to have at most 255 bytes`)
    }
  }
  return checked
}

/** Headers without a prototype, because the sender chooses their names. A class is faster here than Object.create(null). */
class Table {
  [name: string]: string
  static {
    Object.setPrototypeOf(Table.prototype, null)
    Reflect.deleteProperty(Table.prototype, 'constructor')
  }
}

/** Prefixed names, cached because they are the same for every message. */
const prefixedNames = new Map<string, string>()

/** The name of the header that carries an attribute. */
export function prefixed(name: string): string {
  let found = prefixedNames.get(name)
  if (found === undefined) {
    found = PREFIX + name
    prefixedNames.set(name, found)
  }
  return found
}

/** RabbitMQ closes the channel, with everything under way, at a header CC or BCC that is not a list. */
function checkedHeader(name: string, value: string): string {
  if (name === 'CC' || name === 'BCC') throw cannotCarry(`a header called ${name}, which means routing keys`)
  if (!value.isWellFormed() || !name.isWellFormed())
    throw cannotCarry(`the header ${name}, which is no well-formed text`)
  return value
}

function cannotCarry(what: string): HapaxError {
  return new HapaxError('broker-refused', `RabbitMQ cannot carry ${what}`)
}

/** AMQP properties hold 255 bytes. Longer values travel only as attributes. */
function short(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  return value.length <= 85 || Buffer.byteLength(value) <= 255 ? value : undefined
}

function seconds(time: string | undefined): number | undefined {
  if (time === undefined) return undefined
  // Messages that are published together have the same time.
  if (time !== lastTime.text) lastTime = { text: time, ms: Date.parse(time) }
  return lastTime.ms >= 0 ? Math.floor(lastTime.ms / 1_000) : undefined
}

let lastTime = { text: '', ms: Number.NaN }

/** The same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** The size of the header frame. Unlike a body, headers cannot be split over several frames. */
export function headerFrameBytes({ options }: Outgoing): number {
  const { headers, contentType, messageId, type, correlationId, timestamp, appId } = options
  let bytes = FIXED_HEADER_BYTES
  for (const [name, value] of Object.entries(headers)) bytes += 6 + Buffer.byteLength(name) + Buffer.byteLength(value)
  for (const text of [contentType, messageId, type, correlationId, appId])
    if (text !== undefined) bytes += 1 + Buffer.byteLength(text)
  return timestamp === undefined ? bytes : bytes + 8
}

/** The frame itself (8), class, weight, size of the body and flags (14), the length of the table (4), the delivery mode (1). */
const FIXED_HEADER_BYTES = 27

/** Whether a returned message equals one that was sent. */
export function isSame(sent: Outgoing, routingKey: string, { fields, properties, content }: AmqpMessage): boolean {
  return (
    fields.routingKey === routingKey &&
    properties.messageId === sent.options.messageId &&
    sameHeaders(sent.options.headers, properties.headers ?? {}) &&
    sent.body.equals(content)
  )
}

function sameHeaders(sent: Readonly<Record<string, unknown>>, came: Readonly<Record<string, unknown>>): boolean {
  for (const name in sent) if (sent[name] !== came[name]) return false
  return true
}

/** Turns a delivery into an arrival. */
export function arrivalOf({ content, fields, properties }: AmqpMessage): Arrival {
  const table = properties.headers ?? {}
  const { attributes, headers } = sortHeaders(textsOf(table), SORTING)
  return {
    body: content,
    contentType: asText(properties.contentType),
    attributes,
    headers,
    properties: arrivedProperties(fields, properties, table),
    redelivered: fields.redelivered,
    refused: unreadable(properties),
  }
}

function unreadable({ [UNREADABLE]: why }: AmqpMessage['properties']): HapaxError | undefined {
  return why === undefined
    ? undefined
    : new HapaxError('undecodable', `the headers of the message could not be read: ${why}`)
}

/** Headers that servers and their plugins add. */
const ADDED = /^x-(death|first-death-.*|last-death-.*|delivery-count|acquired-count|received-from|stream-offset)$/

const SORTING = { prefixes: PREFIXES, drop: (name: string) => name.startsWith('x-') && ADDED.test(name) }

function textsOf(table: Readonly<Record<string, unknown>>): [string, unknown][] {
  const entries = Object.entries(table)
  for (const entry of entries) if (typeof entry[1] === 'object') entry[1] = dateOf(entry[1])
  return entries
}

/** `amqplib` decodes an AMQP timestamp as `{ '!': 'timestamp', value }`, in seconds. */
function dateOf(value: object | null): unknown {
  const time = fieldOf(value, 'value')
  return fieldOf(value, '!') === 'timestamp' && typeof time === 'number' ? new Date(time * 1_000) : value
}

const PROPERTIES = [
  'messageId',
  'type',
  'appId',
  'correlationId',
  'replyTo',
  'userId',
  'timestamp',
  'expiration',
  'priority',
  'contentEncoding',
] as const satisfies readonly AmqpProperty[]

/** How often the server delivered a message before. The header has another name in newer versions. */
const COUNTS = [
  ['deliveryCount', 'x-delivery-count'],
  ['acquiredCount', 'x-acquired-count'],
] as const

function arrivedProperties(
  { exchange, routingKey }: AmqpMessage['fields'],
  properties: AmqpMessage['properties'],
  table: Readonly<Record<string, unknown>>,
): Arrival['properties'] {
  const found: Record<string, string> = { exchange, routingKey }
  for (const name of PROPERTIES) {
    const value = asText(properties[name])
    if (value !== undefined) found[name] = value
  }
  for (const [name, header] of COUNTS) {
    const value = asText(table[header])
    if (value !== undefined) found[name] = value
  }
  return found
}

function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : undefined
}
