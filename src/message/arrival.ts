import { randomUUID } from 'node:crypto'
import {
  asError,
  describe,
  type ErrorCode,
  expected,
  fieldOf,
  HapaxError,
  messageOf,
  noOthers,
  text,
} from '../base/index.ts'
import { isStructured, isStructuredJson } from './cloudevents.ts'
import { isName } from './incoming.ts'
import { CUT, DELIVERY, type IncomingMessage, REFUSED } from './message.ts'
import { MAX_DEPTH, parseJson } from './payload.ts'
import { readPlain } from './plain.ts'

/** What a broker handed out, as its driver found it: not interpreted yet. `decodeArrival` makes a message of it. */
export interface Arrival {
  readonly body: Uint8Array
  readonly contentType: string | undefined
  /** Attributes of CloudEvents that came beside the body (binary mode), without the protocol's prefix. */
  readonly attributes: Readonly<Record<string, string>>
  /** The sender's other headers, as texts; not those that the broker adds. */
  readonly headers: Readonly<Record<string, string>>
  /** What the protocol has fields of its own for, `messageId` for example; the page of each broker lists them. */
  readonly properties: Readonly<Record<string, string>>
  /** Whether it may have been delivered before. */
  readonly redelivered: boolean
  /**
   * Why it goes to the failed store, whatever it says: the broker will not deliver it any more (`given-up-by-broker`), or not all
   * of it could be read (`undecodable`; `too-large`, with its size as the field `bytes`: then the body is only the beginning).
   */
  readonly refused: HapaxError | undefined
}

/**
 * Where an attribute of a message is found: a fixed text; a field of the protocol (`{ property: 'messageId' }`); a header;
 * a place in the JSON body (`{ path: 'order.id' }`); or what a function makes of all that came.
 */
type AttributeFrom =
  | string
  | { readonly property: string }
  | { readonly header: string }
  | { readonly path: string }
  | ((arrival: Arrival) => string | undefined)

/** Where the attributes of messages are found whose senders know nothing of CloudEvents. */
export interface Mapping {
  readonly id?: AttributeFrom
  readonly type?: AttributeFrom
  /** Who sends. There is no default: ids are unique per source only, and the name of a queue is not one. */
  readonly source?: AttributeFrom
  readonly key?: AttributeFrom
}

const MAPPED = ['id', 'type', 'source', 'key'] as const satisfies readonly (keyof Mapping)[]

/** Checks where attributes are said to be found. */
export function checkMapping(mapping: Mapping): Mapping {
  for (const name of MAPPED) checkAttribute(name, mapping[name])
  return mapping
}

function checkAttribute(name: string, origin: AttributeFrom | undefined): void {
  if (origin === undefined || typeof origin === 'function') return
  if (typeof origin === 'string') {
    text(name, origin, 2048)
    return
  }
  const what = `a text, { property }, { header }, { path } or a function`
  if (typeof origin !== 'object' || origin === null) expected(name, what, origin)
  noOthers(name, origin, ['property', 'header', 'path'])
  const [place, ...more] = Object.values(origin)
  if (more.length > 0 || typeof place !== 'string' || place === '') expected(name, what, origin)
}

/**
 * Makes a message of what arrived: a CloudEvent in binary or structured mode, or whatever `mapping` finds. What cannot be
 * understood is a message as well, one that its consumer refuses and keeps in the failed store with its bytes.
 */
export function decodeArrival(arrival: Arrival, mapping: Mapping, maxBytes: number): IncomingMessage {
  try {
    return decoded(arrival, mapping, maxBytes)
  } catch (error) {
    // Headers that are too large for a text, for example: it must not keep those that came with it from being taken.
    const [refused, delivery] = [undecodable(messageOf(asError(error)), error), randomUUID()]
    return { source: '', type: '', data: arrival.body, [REFUSED]: refused, [DELIVERY]: delivery }
  }
}

function decoded(arrival: Arrival, mapping: Mapping, maxBytes: number): IncomingMessage {
  const body = new Body(arrival, maxBytes)
  let message: IncomingMessage = { source: '', type: '', ...raw(arrival) }
  try {
    message = isStructured(arrival.contentType) ? structured(arrival, body) : binary(arrival)
    const { found, failed } = mapped(message, arrival, mapping, body)
    message = unlessGarbled(found, arrival, mapping)
    if (arrival.refused !== undefined) throw arrival.refused
    if (failed !== undefined) throw failed.reason
    for (const name of ['source', 'type'] as const) if (message[name] === '') throw absent(name)
  } catch (error) {
    const cut = cutOf(arrival)
    // What could not be decoded because the end is missing is missing its end.
    const thrown = cut === undefined ? error : arrival.refused
    const refused = thrown instanceof HapaxError ? thrown : undecodable(messageOf(asError(error)), error)
    const came = AS_IT_CAME.has(refused.code) ? raw(arrival) : {}
    message = { ...message, ...came, ...cut, headers: withProperties(message, arrival), [REFUSED]: refused }
  }
  const { id, source } = message
  const refused = !isName(id) || !isName(source) || REFUSED in message
  const marked = refused ? { ...message, [DELIVERY]: deliveryOf(arrival) } : message
  return arrival.redelivered ? { ...marked, redelivered: true } : marked
}

/** Marks a message of which the driver read only the beginning, so that it is never taken for the whole. */
function cutOf({ refused }: Arrival): Pick<IncomingMessage, typeof CUT> | undefined {
  if (refused?.code !== 'too-large') return undefined
  const { bytes } = refused.fields
  return { [CUT]: { bytes: typeof bytes === 'number' ? bytes : null } }
}

/** Adds the protocol properties to the headers, so that a person sees everything that came with a refused message. */
function withProperties({ headers = {} }: IncomingMessage, { properties }: Arrival): Readonly<Record<string, string>> {
  const all = withoutPrototype(headers)
  for (const [name, value] of Object.entries(properties)) all[`property ${name}`] ??= value
  return all
}

const deliveries = new WeakMap<Uint8Array, string>()

/**
 * Identifies a delivery without a usable id. One that is not marked as redelivered is a message of its own. If the reader hands it out
 * again, its bytes are the same object. One that is marked counts as the earlier delivery with exactly the same contents.
 */
function deliveryOf({ body, attributes, headers, properties, redelivered }: Arrival): string {
  const known = deliveries.get(body)
  if (known !== undefined) return known
  const stable = Object.entries(properties).filter(([name]) => !/count$/i.test(name))
  const made = redelivered ? JSON.stringify([attributes, headers, stable]) : randomUUID()
  // Some drivers have one object for every empty body.
  if (body.byteLength > 0) deliveries.set(body, made)
  return made
}

function absent(attribute: 'source' | 'type'): HapaxError {
  const what = `the message came without a ${attribute}: say where it is found, with '${attribute}' in .from()`
  return new HapaxError('invalid-message', what, { fields: { attribute } })
}

function undecodable(detail: string, cause?: unknown): HapaxError {
  return new HapaxError('undecodable', `the message could not be decoded: ${detail}`, { cause })
}

/** With these codes a message is kept as raw bytes. With any other, what was decoded is kept. */
const AS_IT_CAME: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['undecodable', 'too-large'])

function raw({ body, contentType }: Arrival): Pick<IncomingMessage, 'data' | 'datacontenttype'> {
  return contentType === undefined ? { data: body } : { data: body, datacontenttype: contentType }
}

/** Attributes beside the body: those of CloudEvents, or plain ones. */
function binary(arrival: Arrival): IncomingMessage {
  const { attributes, headers } = readPlain(arrival) ?? arrival
  return { ...known(attributes, headers), ...raw(arrival) }
}

/** The whole event is in the body; what is no attribute that hapax knows stays with the headers. */
function structured({ contentType = '', headers }: Arrival, body: Body): IncomingMessage {
  if (!isStructuredJson(contentType)) throw undecodable(`expected application/cloudevents+json, got ${contentType}`)
  const event = body.event()
  if (typeof event !== 'object' || event === null || Array.isArray(event)) {
    throw undecodable(`expected a CloudEvent, got ${describe(event)}`)
  }
  const { data, data_base64: base64, datacontenttype, ...attributes }: Record<string, unknown> = { ...event }
  const type = typeof datacontenttype === 'string' ? { datacontenttype } : {}
  return { ...known(texts(attributes), headers), data: dataOf(data, base64), ...type }
}

function dataOf(data: unknown, base64: unknown): unknown {
  if (base64 === undefined || base64 === null) return data
  if (typeof base64 !== 'string' || !isBase64(base64)) throw undecodable('expected data_base64 to be base64')
  return Buffer.from(base64, 'base64')
}

/** Node.js reads anything as base64 and leaves out what it does not know; the padding may be missing, not wrong. */
function isBase64(text: string): boolean {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  if (padding > 0 ? text.length % 4 !== 0 : text.length % 4 === 1) return false
  return /^[A-Za-z0-9+/]*$/.test(text.slice(0, text.length - padding))
}

function texts(values: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const found: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(values)) {
    const text = typeof value === 'boolean' ? String(value) : asText(value)
    if (text !== undefined) found[name] = text
  }
  return found
}

/** Attributes that have a field of their own, with the names on the wire. */
const FIELDS = {
  id: 'id',
  source: 'source',
  type: 'type',
  subject: 'subject',
  time: 'time',
  partitionkey: 'key',
  correlationid: 'correlationId',
  causationid: 'causationId',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const

function known(attributes: Readonly<Record<string, string>>, headers: Arrival['headers']): IncomingMessage {
  const { specversion } = attributes
  if (specversion !== undefined && !specversion.startsWith('1.')) {
    throw undecodable(`expected a CloudEvent of version 1, got ${describe(specversion)}`)
  }
  const message: { -readonly [Name in keyof IncomingMessage]: IncomingMessage[Name] } = { source: '', type: '' }
  let others: Record<string, string> | undefined
  for (const name of Object.keys(attributes)) {
    const value = attributes[name]
    if (value === undefined || name === 'specversion') continue
    if (name === 'time') message.time = rfc3339(value)
    else if (isField(name)) message[FIELDS[name]] = value
    else if (name === 'datacontenttype') message.datacontenttype = value
    else {
      others ??= withoutPrototype(headers)
      others[name] ??= value
    }
  }
  const all = others ?? headers
  for (const _ in all) return { ...message, headers: all }
  return message
}

/** Some SDKs send the time as a number of milliseconds or seconds since 1970; the number of digits tells which. */
function rfc3339(time: string): string {
  const digits = /^(?:\d{13}|\d{10})$/.test(time) ? time.length : 0
  return digits === 0 ? time : new Date(Number(time) * (digits === 10 ? 1_000 : 1)).toISOString()
}

function isField(name: string): name is keyof typeof FIELDS {
  return Object.hasOwn(FIELDS, name)
}

/** A copy that inherits nothing, because the names are the sender's. */
function withoutPrototype(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.assign(Object.create(null), texts)
}

/** All that can be found, also if some of it cannot, and why the first of that cannot. */
function mapped(
  message: IncomingMessage,
  arrival: Arrival,
  mapping: Mapping,
  body: Body,
): { readonly found: IncomingMessage; readonly failed: { readonly reason: unknown } | undefined } {
  let found = message
  let failed: { readonly reason: unknown } | undefined
  for (const name of MAPPED) {
    const origin = mapping[name]
    try {
      const value = origin === undefined ? undefined : find(origin, arrival, body)
      if (value !== undefined) found = { ...found, [name]: value }
    } catch (reason) {
      failed ??= { reason }
    }
  }
  return { found, failed }
}

/**
 * U+FFFD in an id or a source that came beside the body: most clients decode texts before hapax sees a byte and write it for what they
 * cannot read, so that different ids would become equal. It cannot be told from a U+FFFD that the sender meant, so it is never
 * accepted there. A lone surrogate in its place makes it what it is: no text.
 */
function unlessGarbled(message: IncomingMessage, { contentType }: Arrival, mapping: Mapping): IncomingMessage {
  let checked = message
  for (const name of ['id', 'source'] as const) {
    const value: unknown = message[name]
    const origin = mapping[name] ?? (isStructured(contentType) ? IN_BODY : undefined)
    const exact = typeof origin === 'string' || (typeof origin === 'object' && 'path' in origin)
    if (exact || typeof value !== 'string' || !value.includes('\ufffd')) continue
    checked = { ...checked, [name]: value.replaceAll('\ufffd', '\udfff') }
  }
  return checked
}

/** The body is decoded here, and not at all if it has a byte that cannot be. */
const IN_BODY: AttributeFrom = { path: '' }

function find(origin: AttributeFrom, arrival: Arrival, body: Body): string | undefined {
  if (typeof origin === 'string') return origin
  if (typeof origin === 'function') return answerOf(origin(arrival))
  if ('path' in origin) return asText(at(body.json(), origin.path))
  if ('property' in origin) return own(arrival.properties, origin.property)
  const wanted = origin.header.toLowerCase()
  const name = Object.keys(arrival.headers).find((each) => each.toLowerCase() === wanted)
  return name === undefined ? undefined : arrival.headers[name]
}

/** What a function of the application says, which may be written in JavaScript. */
function answerOf(answer: unknown): string | undefined {
  if (answer === undefined || answer === null || typeof answer === 'string') return answer ?? undefined
  if (answer instanceof Promise) answer.catch(() => {})
  throw new TypeError(`expected the function in .from() to return a text at once, got ${describe(answer)}`)
}

function own(values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

/** Walks into a JSON value: names of fields and numbers of items, with dots between. */
function at(value: unknown, path: string): unknown {
  let found = value
  for (const step of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = fieldOf(found, step)
  }
  return found
}

/** Whole numbers are taken as well, as far as they are exact: a larger one has lost its last digits. */
function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return Number.isSafeInteger(value) ? String(value) : undefined
}

/**
 * The body as JSON, parsed when it is asked for, once, and not at all when it is too large. A whole event may be larger than its
 * data, which may be base64, and is one level deeper: whatever can be published can be read.
 */
class Body {
  readonly #arrival: Arrival
  readonly #maxBytes: number
  #json: { readonly value: unknown } | undefined

  constructor(arrival: Arrival, maxBytes: number) {
    this.#arrival = arrival
    this.#maxBytes = maxBytes
  }

  json(): unknown {
    this.#json ??= { value: this.#parse(this.#maxBytes, MAX_DEPTH) }
    return this.#json.value
  }

  event(): unknown {
    const mostBytes = Math.ceil(this.#maxBytes / 3) * 4 + ATTRIBUTES_BYTES
    this.#json ??= { value: this.#parse(mostBytes, MAX_DEPTH + 1) }
    return this.#json.value
  }

  #parse(mostBytes: number, maxDepth: number): unknown {
    const { body } = this.#arrival
    if (body.byteLength > mostBytes) {
      const bytes = body.byteLength
      throw new HapaxError('too-large', `expected a message of at most ${mostBytes} bytes, got ${bytes}`, {
        fields: { bytes },
      })
    }
    try {
      return parseJson(utf8.decode(body), maxDepth)
    } catch (cause) {
      throw undecodable(`expected the body to be JSON in UTF-8: ${messageOf(asError(cause))}`, cause)
    }
  }
}

/** More than the attributes of one message take in JSON. */
const ATTRIBUTES_BYTES = 64 * 1024

const utf8 = new TextDecoder('utf-8', { fatal: true })
