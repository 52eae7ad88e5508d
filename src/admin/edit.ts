// The message that an edit puts in the place of a failed one.

import { asError, describe, HapaxError, messageOf } from '../base/index.ts'
import {
  fingerprint,
  isJson,
  jsonOf,
  messageKey,
  packAttributes,
  parseJson,
  payloadOf,
  type StoredMessage,
  unpackAttributes,
} from '../message/index.ts'

/** How data becomes a payload. */
interface EditRules {
  /** Whether it is the payload itself. */
  readonly exact: boolean
  /** The type of the new message. */
  readonly type: string
  readonly maxBytes: number
}

/** The message of a failed one with other data, under an id of its own. */
export function edited(old: StoredMessage, id: string, data: unknown, rules: EditRules): StoredMessage {
  const { exact, maxBytes } = rules
  const { correlationId = old.id, ...others } = unpackAttributes(old)
  const { bytes, type } = exact ? exactly(data, others.datacontenttype) : encoded(data, others.datacontenttype)
  const attributes = packAttributes({ ...others, ...type, correlationId, causationId: old.id })
  const size = bytes.byteLength + Buffer.byteLength(attributes)
  if (size > maxBytes) {
    throw new HapaxError('too-large', `expected a message of at most ${maxBytes} bytes, got ${size}`, {
      fields: { bytes: size },
    })
  }
  const { source, key } = old
  return {
    messageKey: messageKey(source, id),
    source,
    id,
    type: rules.type,
    key,
    attributes,
    data: bytes,
    fingerprint: fingerprint(bytes),
  }
}

/** A payload, and its content type if that is another one than before. */
interface Edited {
  readonly bytes: Uint8Array
  readonly type: { readonly datacontenttype?: string }
}

/** Of the content type of the message if that is for texts or bytes and the data is one, else JSON. */
function encoded(data: unknown, before: string | undefined): Edited {
  const raw = typeof data === 'string' || data instanceof Uint8Array
  const kept = raw ? keptType(data, before) : undefined
  const { bytes, contentType, json } = payloadOf('the edit', data === undefined ? jsonOf('data', data) : data, kept)
  return { bytes, type: json !== undefined && isJson(before) ? {} : { datacontenttype: contentType } }
}

/** A text that replaces JSON is a JSON string; bytes that replace JSON are bytes. */
function keptType(data: string | Uint8Array, contentType: string | undefined): string | undefined {
  if (!isJson(contentType)) return contentType
  return typeof data === 'string' ? (contentType ?? 'application/json') : undefined
}

/** The payload as it is given. JSON is only looked at: numbers that JavaScript would round keep their digits. */
function exactly(data: unknown, contentType: string | undefined): Edited {
  const fine = typeof data === 'string' ? data.isWellFormed() : data instanceof Uint8Array
  if (!fine) throw invalid(`expected the new payload to be a well-formed text or bytes, got ${describe(data)}`)
  const bytes = Buffer.from(data as string | Uint8Array)
  if (isJson(contentType)) assertJson(bytes)
  return { bytes, type: {} }
}

/** By the rules by which consumers read it: a message that none of them can take must not be written. */
function assertJson(bytes: Uint8Array): void {
  try {
    parseJson(utf8.decode(bytes))
  } catch (cause) {
    throw invalid(`expected the new payload to be JSON, as the message has it: ${messageOf(asError(cause))}`, cause)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function invalid(what: string, cause?: unknown): HapaxError {
  return new HapaxError('invalid-payload', what, { cause })
}
