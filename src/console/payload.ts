// Payloads as they are: bytes that are text are shown as that text, never parsed, and others as hexadecimal digits.

import { redact } from '../base/index.ts'
import { type StoredMessage, unpackAttributes } from '../message/index.ts'
import type { PayloadView } from './api.ts'
import { mayAs, type ShownMessage } from './options.ts'
import type { Seen } from './route.ts'

/** How much of a payload is shown at first. */
const HEAD_BYTES = 64 * 1024

/** Headers whose values nobody sees, whatever their role: what proves who somebody is, and every key but those that only sort messages. */
const WITHHELD =
  /authorization|authenticat|cookie|secret|passw|passphrase|token|credential|signature|assertion|session|jwt|bearer|(^|[-_])(auth|sig|hmac|otp|pin)([-_]|$)|api[-_]?key|access[-_]?key|(?<!^|message|routing|partition|order|ordering|group|object|sort|record)[-_]key$/i

/** What this person may see of a message; null: nothing. */
export function payloadView(message: StoredMessage, seen: Seen, whole: boolean): PayloadView | null {
  if (!seen.payloads) return null
  const stored = shownOf(message)
  const shown = redacted(stored, seen)
  if (shown === undefined) return withheld(stored)
  const { data } = shown
  const part = whole ? data : data.subarray(0, HEAD_BYTES)
  const text = textOf(part, part.length < data.length)
  return {
    contentType: stored.contentType,
    bytes: data.byteLength,
    text: text ?? Buffer.from(part).toString('hex'),
    encoding: text === undefined ? 'hex' : 'text',
    whole: part.length === data.length,
    redacted: !Buffer.from(data).equals(stored.data),
    headers: Object.entries(shown.headers).map(([name, value]) => ({ name, value: headerValue(name, value, seen) })),
  }
}

/** Whether this person sees the payload of a message exactly as it is stored: otherwise an edit would lose what they do not see. */
export function seesExactly(message: StoredMessage, seen: Seen): boolean {
  if (!seen.payloads) return false
  const shown = redacted(shownOf(message), seen)
  return shown !== undefined && Buffer.from(shown.data).equals(message.data)
}

function shownOf(message: StoredMessage): ShownMessage {
  const { source, id, type, key, data } = message
  const { datacontenttype = null, headers = {}, ...others } = attributesOf(message)
  const { subject, time, correlationId, causationId, traceparent, tracestate } = others
  const named = { subject, time, correlationId, causationId, traceparent, tracestate, ...headers }
  const texts = Object.entries(named).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return { source, id, type, key, contentType: datacontenttype, headers: Object.fromEntries(texts), data }
}

/** Others than hapax may have written anything. */
function attributesOf(message: StoredMessage): Partial<ReturnType<typeof unpackAttributes>> {
  try {
    return unpackAttributes(message)
  } catch {
    return {}
  }
}

/** What the application lets this person see; undefined: it failed to say. */
function redacted(
  message: ShownMessage,
  { settings, person }: Seen,
): Pick<ShownMessage, 'headers' | 'data'> | undefined {
  if (settings.redact === undefined) return message
  try {
    // A copy: the application may change what it is given.
    const copy = { ...message, headers: { ...message.headers }, data: new Uint8Array(message.data) }
    const { headers, data } = settings.redact(copy, person)
    if (!(data instanceof Uint8Array)) throw new TypeError('redact returned no bytes as data')
    if (!isTexts(headers)) throw new TypeError('redact returned no texts as headers')
    return { headers, data }
  } catch (error) {
    settings.report(error)
    return undefined
  }
}

function isTexts(value: unknown): value is Readonly<Record<string, string>> {
  return typeof value === 'object' && value !== null && Object.values(value).every((each) => typeof each === 'string')
}

function withheld({ contentType }: ShownMessage): PayloadView {
  return { contentType, bytes: 0, text: '', encoding: 'text', whole: true, redacted: true, headers: [] }
}

function headerValue(name: string, value: string, seen: Seen): string {
  if (WITHHELD.test(name)) return NOT_SHOWN
  return name === REQUEST_URL ? urlView(value, seen) : value
}

/** Where the URL of a stored HTTP request is kept among its headers. */
const REQUEST_URL = ':url'
const NOT_SHOWN = '(withheld)'

/** The URL of a request. The values of its query may be anything: administrators see them, and credentials are never shown. */
function urlView(url: string, { person }: Seen): string {
  const start = url.indexOf('?')
  if (start < 0) return url
  const parts = url.slice(start + 1).split('&')
  const isAdmin = mayAs(person.role, 'admin')
  return `${url.slice(0, start)}?${parts.map((part) => parameterView(part, isAdmin)).join('&')}`
}

function parameterView(part: string, isAdmin: boolean): string {
  const [name = '', ...value] = part.split('=')
  // A part without a value may be one itself.
  if (value.length === 0) return isAdmin && redact(part) === part ? part : NOT_SHOWN
  const isCredential = WITHHELD.test(name) || SHORT_CREDENTIAL.test(name) || redact(part) !== part
  return isAdmin && !isCredential ? part : `${name}=${NOT_SHOWN}`
}

/** Names of parameters that are credentials in a query. */
const SHORT_CREDENTIAL = /^(?:key|code|state|sig|auth|pin|otp|sid)$/i

/** The text that these bytes are; undefined: they are none, or have characters that text does not have. */
function textOf(bytes: Uint8Array, isCut: boolean): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isCut })
    return BINARY.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what tells bytes from text.
const BINARY = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/
