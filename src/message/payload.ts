import { asError, describe, fieldOf, HapaxError, messageOf } from '../base/index.ts'
import { isJson } from './incoming.ts'

/** Data as it is stored and sent. */
export interface Payload {
  readonly bytes: Uint8Array
  readonly contentType: string
  /** The JSON that was made of it; undefined: it is none, or came as bytes. */
  readonly json: string | undefined
}

const JSON_TYPE = 'application/json'
const BYTES_TYPE = 'application/octet-stream'
const TEXT_TYPE = 'text/plain; charset=utf-8'

/** Bytes stay what they are, and so does a text unless its content type is JSON; all else is made JSON. `what` is whose data it is. */
export function payloadOf(what: string, data: unknown, contentType?: string): Payload {
  if (data === undefined) return { bytes: new Uint8Array(0), contentType: contentType ?? JSON_TYPE, json: undefined }
  // A copy, because the caller may reuse the buffer before it is written.
  if (data instanceof Uint8Array)
    return { bytes: Buffer.from(data), contentType: contentType ?? BYTES_TYPE, json: undefined }
  if (isBuffer(data)) {
    throw invalid(`expected bytes of ${what} to be a Uint8Array, got ${describe(data)}`)
  }
  if (isEmptied(data)) {
    const advice = data instanceof Promise ? ': await it' : ', of which nothing would be left'
    throw invalid(`expected data of ${what} to be a JSON value, got ${describe(data)}${advice}`)
  }
  if (typeof data === 'string' ? contentType !== undefined && isJson(contentType) : isJson(contentType)) {
    const json = jsonOf(`data of ${what}`, data)
    return { bytes: Buffer.from(json), contentType: contentType ?? JSON_TYPE, json }
  }
  const type = contentType ?? TEXT_TYPE
  if (typeof data !== 'string' || !data.isWellFormed()) {
    throw invalid(
      `expected data of ${what} to be bytes or a well-formed text, because its content type is ${type}, got ${describe(data)}`,
    )
  }
  return { bytes: Buffer.from(data), contentType: type, json: undefined }
}

/** The JSON of a value; `what` is how it is called. Throws `invalid-payload`. */
export function jsonOf(what: string, data: unknown): string {
  let json: string | undefined
  try {
    json = JSON.stringify(data)
  } catch (cause) {
    throw invalid(`expected ${what} to be a JSON value: ${messageOf(asError(cause))}`, cause)
  }
  if (json === undefined) throw invalid(`expected ${what} to be a JSON value, got ${describe(data)}`)
  if (LOSSY.test(json)) refuseLost(what, data)
  return json
}

/** What JSON makes of maps, sets and promises, of bytes, and of numbers that are not finite. Most texts have none of it. */
const LOSSY = /\{\}|\{"0":|null/

function refuseLost(what: string, data: unknown): void {
  const lost = lostIn(data, 0)
  if (lost === undefined) return
  const place = lost.path === '' ? '' : ` at ${lost.path.replace(/^\./, '')}`
  throw invalid(`expected ${what} to be a JSON value, got ${describe(lost.value)}${place}, which JSON cannot carry`)
}

interface Lost {
  readonly value: unknown
  readonly path: string
}

/** The first value that JSON would change without a word. A `toJSON` says what is meant; what is nested too deeply is refused for that. */
function lostIn(value: unknown, depth: number): Lost | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : { value, path: '' }
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return undefined
  if (typeof fieldOf(value, 'toJSON') === 'function') return undefined
  if (isBuffer(value) || isEmptied(value)) return { value, path: '' }
  for (const [name, each] of Object.entries(value)) {
    const lost = lostIn(each, depth + 1)
    if (lost === undefined) continue
    return { value: lost.value, path: `${Array.isArray(value) ? `[${name}]` : `.${name}`}${lost.path}` }
  }
  return undefined
}

/** A view or a buffer, of which JSON would make an object of numbers or an empty one. */
function isBuffer(value: unknown): boolean {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof SharedArrayBuffer
}

function isEmptied(value: unknown): boolean {
  return value instanceof Promise || value instanceof Map || value instanceof Set
}

function invalid(what: string, cause?: unknown): HapaxError {
  return new HapaxError('invalid-payload', what, { cause })
}

/** How deeply JSON from outside may be nested. Deeper values could exhaust the stack of recursive code. */
export const MAX_DEPTH = 64

/** Parses JSON from outside. Throws for what is nested too deeply, and for names that would reach into the prototype. */
export function parseJson(text: string, maxDepth: number = MAX_DEPTH): unknown {
  // A shorter text cannot be nested that deeply.
  if (text.length > 2 * maxDepth && depthOf(text) > maxDepth) {
    throw new SyntaxError(`nested deeper than ${maxDepth} levels`)
  }
  const value: unknown = JSON.parse(text)
  // Most texts have neither the name nor an escape that could spell it.
  if (SUSPICIOUS.test(text)) refusePrototypes(value)
  return value
}

const SUSPICIOUS = /__proto__|\\u00/

/** Counts brackets outside of strings. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1
  }
  return deepest
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  for (; at < text.length && text.charCodeAt(at) !== QUOTE; at++) if (text.charCodeAt(at) === BACKSLASH) at += 1
  return at
}

const QUOTE = 34
const BACKSLASH = 92
const OPEN_LIST = 91
const CLOSE_LIST = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** A copy of such a value (an assignment, a merge) would change the prototype of the copy. */
function refusePrototypes(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw new SyntaxError(`a field is called '__proto__'`)
  for (const each of Object.values(value)) refusePrototypes(each)
}
