import { asError, describe, expected, HapaxError, isHapaxError, messageOf } from '../../base/index.ts'
import type { Encode, EncodeFunction } from '../../contracts/index.ts'
import {
  contentTypeOf,
  type EncodedEvent,
  type EventFormat,
  encodeEvent,
  encodePlain,
  type OutgoingMessage,
} from '../../message/index.ts'
import { formatOption } from './options.ts'

/** Writes messages for a destination. */
export interface Encoder {
  /** Whether messages travel as CloudEvents in binary mode, which some drivers write by a faster way. */
  readonly isBinaryEvent: boolean
  /** Throws `unencodable` for a message that a function of the application cannot write. */
  encode(message: OutgoingMessage): EncodedEvent
}

/** Checks the options `encode` and `format`. `properties` are those of the protocol that a function may set. */
export function encoderOption(
  { encode, format }: { readonly encode?: Encode; readonly format?: EventFormat },
  properties: readonly string[] = [],
): Encoder {
  const style = formatOption(format)
  if (encode === undefined || encode === 'cloudevents') {
    return { isBinaryEvent: style === 'binary', encode: (message) => encodeEvent(message, style) }
  }
  if (encode !== 'plain-json' && typeof encode !== 'function') {
    expected('encode', `'cloudevents', 'plain-json' or a function`, encode)
  }
  if (format !== undefined) expected('format', `absent unless encode is 'cloudevents'`, format)
  if (encode === 'plain-json') return { isBinaryEvent: false, encode: encodePlain }
  return { isBinaryEvent: false, encode: (message) => encodedBy(encode, message, properties) }
}

function encodedBy(encode: EncodeFunction, message: OutgoingMessage, allowed: readonly string[]): EncodedEvent {
  try {
    return readFrom(encode(message), message, allowed)
  } catch (cause) {
    if (isHapaxError(cause, 'unencodable')) throw cause
    const type = describe(message.type)
    throw unencodable(`encode threw for a message of type ${type}: ${messageOf(asError(cause))}`, cause)
  }
}

/** What a function returned. It may throw only now, where it has getters. */
function readFrom(made: unknown, message: OutgoingMessage, allowed: readonly string[]): EncodedEvent {
  if (typeof made !== 'object' || made === null || !('body' in made)) {
    if (made instanceof Promise) made.catch(() => {})
    throw wrong('what encode returns', 'an object with a body, at once', made)
  }
  const { body, contentType, headers, properties, ...others }: Record<string, unknown> = { ...made }
  const [other] = Object.keys(others)
  if (other !== undefined) throw wrong('what encode returns', `an object with ${FIELDS}`, other)
  return {
    attributes: [],
    plain: headersOf(headers),
    headers: [],
    contentType: contentType === undefined ? contentTypeOf(message) : contentTypeFrom(contentType),
    body: bodyOf(body),
    properties: propertiesOf(properties, allowed),
  }
}

const FIELDS = 'body, contentType, headers and properties'

function bodyOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body
  if (!isText(body)) throw wrong('the body that encode returns', 'bytes or a well-formed text', body)
  return Buffer.from(body)
}

function contentTypeFrom(contentType: unknown): string {
  if (isText(contentType) && contentType !== '') return contentType
  throw wrong('the contentType that encode returns', 'a text', contentType)
}

function headersOf(headers: unknown): EncodedEvent['plain'] {
  const found = textsOf('header', headers)
  const reserved = found.find(([name]) => name === '' || name.toLowerCase() === 'content-type')?.[0]
  if (reserved === undefined) return found
  throw wrong('the name of a header that encode returns', 'a text other than content-type', reserved)
}

function propertiesOf(properties: unknown, allowed: readonly string[]): Readonly<Record<string, string>> {
  const found = textsOf('property', properties)
  const other = found.find(([name]) => !allowed.includes(name))?.[0]
  if (other === undefined) return Object.fromEntries(found)
  const what = allowed.length === 0 ? 'absent, because this broker has none' : `one of ${allowed.join(', ')}`
  throw wrong('the name of a property that encode returns', what, other)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed()
}

/** The texts of an object by their names. */
function textsOf(kind: 'header' | 'property', values: unknown): [name: string, value: string][] {
  if (values === undefined) return []
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw wrong(`the ${kind === 'header' ? 'headers' : 'properties'} that encode returns`, 'an object of texts', values)
  }
  const found: [name: string, value: string][] = []
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue
    if (!isText(name)) throw wrong(`the name of a ${kind} that encode returns`, 'a well-formed text', name)
    if (!isText(value)) throw wrong(`the ${kind} ${name} that encode returns`, 'a well-formed text', value)
    found.push([name, value])
  }
  return found
}

function wrong(name: string, what: string, got: unknown): HapaxError {
  return unencodable(`expected ${name} to be ${what}, got ${describe(got)}`)
}

/** The error of a message that cannot be written in the form that was asked for. */
export function unencodable(what: string, cause?: unknown): HapaxError {
  return new HapaxError('unencodable', what, { cause })
}
