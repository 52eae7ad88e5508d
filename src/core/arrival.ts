import type { Arrival } from './broker.ts'
import { isStructured, isStructuredJson } from './cloudevents.ts'
import { asError, describe, HapaxError, messageOf } from './errors.ts'
import { parseJson } from './json.ts'
import { type IncomingMessage, REFUSED } from './message.ts'
import { expected, noOthers, text } from './options.ts'

/**
 * Where an attribute of a message is found: a fixed text; a field of the protocol (`{ property: 'messageId' }`); a header;
 * a place in the JSON body (`{ path: 'order.id' }`); or what a function makes of all that came.
 */
export type AttributeFrom =
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
  const body = new Body(arrival, maxBytes)
  let message: IncomingMessage = { source: '', type: '', data: arrival.body, ...contentTypeOf(arrival) }
  try {
    message = isStructured(arrival.contentType) ? structured(arrival, body) : binary(arrival)
    message = mapped(message, arrival, mapping, body)
    for (const name of ['source', 'type'] as const) if (message[name] === '') throw absent(name)
    if (arrival.givenUp !== undefined) throw new HapaxError('given-up-by-broker', arrival.givenUp)
  } catch (error) {
    const refused = error instanceof HapaxError ? error : undecodable(messageOf(asError(error)), error)
    message = { ...message, [REFUSED]: refused }
  }
  return arrival.redelivered ? { ...message, redelivered: true } : message
}

function absent(attribute: 'source' | 'type'): HapaxError {
  const what = `the message came without a ${attribute}: say where it is found, with '${attribute}' in .from()`
  return new HapaxError('invalid-message', what, { fields: { attribute } })
}

function undecodable(detail: string, cause?: unknown): HapaxError {
  return new HapaxError('undecodable', `the message could not be decoded: ${detail}`, { cause })
}

function contentTypeOf({ contentType }: Arrival): { datacontenttype?: string } {
  return contentType === undefined ? {} : { datacontenttype: contentType }
}

function binary(arrival: Arrival): IncomingMessage {
  const { attributes, body, headers } = arrival
  return { ...known(attributes, headers), data: body, ...contentTypeOf(arrival) }
}

/** The whole event is in the body; what is no attribute that hapax knows stays with the headers. */
function structured({ contentType = '', headers }: Arrival, body: Body): IncomingMessage {
  if (!isStructuredJson(contentType)) throw undecodable(`expected application/cloudevents+json, got ${contentType}`)
  const event = body.json()
  if (typeof event !== 'object' || event === null || Array.isArray(event)) {
    throw undecodable(`expected a CloudEvent, got ${describe(event)}`)
  }
  const { data, data_base64: base64, datacontenttype, ...attributes } = event as Record<string, unknown>
  const type = typeof datacontenttype === 'string' ? { datacontenttype } : {}
  return { ...known(texts(attributes), headers), data: dataOf(data, base64), ...type }
}

function dataOf(data: unknown, base64: unknown): unknown {
  if (base64 === undefined) return data
  if (typeof base64 !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) {
    throw undecodable('expected data_base64 to be base64')
  }
  return Buffer.from(base64, 'base64')
}

function texts(values: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const found: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'string') found[name] = value
    else if (typeof value === 'number' || typeof value === 'boolean') found[name] = String(value)
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
  const message: Record<string, unknown> = { source: '', type: '' }
  let others: Record<string, string> | undefined
  for (const name of Object.keys(attributes)) {
    if (Object.hasOwn(FIELDS, name)) message[FIELDS[name as keyof typeof FIELDS]] = attributes[name]
    else if (name !== 'specversion') {
      others ??= Object.assign(Object.create(null), headers) as Record<string, string>
      others[name] ??= attributes[name] as string
    }
  }
  const all = others ?? headers
  for (const _ in all) return { ...message, headers: all } as IncomingMessage
  return message as unknown as IncomingMessage
}

function mapped(message: IncomingMessage, arrival: Arrival, mapping: Mapping, body: Body): IncomingMessage {
  let result = message
  for (const name of MAPPED) {
    const origin = mapping[name]
    const value = origin === undefined ? undefined : find(origin, arrival, body)
    if (value !== undefined) result = { ...result, [name]: value }
  }
  return result
}

function find(origin: AttributeFrom, arrival: Arrival, body: Body): string | undefined {
  if (typeof origin === 'string') return origin
  if (typeof origin === 'function') return origin(arrival)
  if ('path' in origin) return asText(at(body.json(), origin.path))
  if ('property' in origin) return own(arrival.properties, origin.property)
  const wanted = origin.header.toLowerCase()
  const name = Object.keys(arrival.headers).find((each) => each.toLowerCase() === wanted)
  return name === undefined ? undefined : arrival.headers[name]
}

function own(values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

/** Walks into a JSON value: names of fields and numbers of items, with dots between. */
function at(value: unknown, path: string): unknown {
  let found = value
  for (const step of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = (found as Record<string, unknown>)[step]
  }
  return found
}

/** Whole numbers are taken as well, as far as they are exact: a larger one has lost its last digits. */
function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return Number.isSafeInteger(value) ? String(value) : undefined
}

/** The body as JSON, parsed when it is asked for, once, and not at all when it is too large. */
class Body {
  readonly #arrival: Arrival
  readonly #maxBytes: number
  #json: { readonly value: unknown } | undefined

  constructor(arrival: Arrival, maxBytes: number) {
    this.#arrival = arrival
    this.#maxBytes = maxBytes
  }

  json(): unknown {
    this.#json ??= { value: this.#parse() }
    return this.#json.value
  }

  #parse(): unknown {
    const { body } = this.#arrival
    if (body.byteLength > this.#maxBytes) {
      const bytes = body.byteLength
      throw new HapaxError('too-large', `expected a message of at most ${this.#maxBytes} bytes, got ${bytes}`, {
        fields: { bytes },
      })
    }
    try {
      return parseJson(utf8.decode(body))
    } catch (cause) {
      throw undecodable(`expected the body to be JSON in UTF-8: ${messageOf(asError(cause))}`, cause)
    }
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
