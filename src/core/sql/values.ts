import type { Row } from '../connection.ts'
import type { ErrorRecord } from '../errors.ts'
import type { LeavingMessage, StoredMessage } from '../message.ts'
import { asciiJson } from '../stub.ts'
import { format } from '../uuid.ts'

/**
 * Text as a database can hold it: PostgreSQL refuses U+0000. Texts with it, and those that look escaped, are marked with
 * U+0001 and escaped; all others, practically every text, stay as they are.
 */
export function encodeText(text: string): string {
  if (text.charCodeAt(0) !== 1 && !text.includes('\0')) return text
  return `\u0001${text.replaceAll('%', '%25').replaceAll('\0', '%00')}`
}

/** The text that `encodeText` was given. */
export function decodeText(stored: string): string {
  if (stored.charCodeAt(0) !== 1) return stored
  return stored.slice(1).replaceAll('%00', '\0').replaceAll('%25', '%')
}

/** An error as a column of texts holds it, in ASCII: whatever the encoding of the database lacks, a failure can be recorded. */
export function errorJson(error: ErrorRecord): string {
  return asciiJson(JSON.stringify(error))
}

// Drivers answer with text or bytes, numbers or text, depending on the column's type: these read all of them.

/** A text column. */
export function asText(value: unknown): string {
  return decodeText(value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value))
}

/** A text column that may be null. */
function asTextOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : asText(value)
}

/** A column of bytes. */
export function asBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new TypeError(`expected bytes from the database, got ${typeof value}`)
}

/** Bytes, or their hexadecimal digits, as lower-case digits. */
export function asHex(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value).toLowerCase()
}

/** A UUID that comes as text or as 16 bytes. */
export function asUuid(value: unknown): string {
  const digits = asHex(value)
  return digits.length === 32 ? format(digits) : digits
}

/** A time that comes as milliseconds since 1970. */
export function asDate(value: unknown): Date {
  return new Date(Number(value))
}

/** A truth value: some databases have 0 and 1. */
export function asBoolean(value: unknown): boolean {
  return value === true || Number(value) === 1
}

/** A stored error. One that somebody has spoilt must not keep a whole page from being seen. */
export function asError(value: unknown): ErrorRecord | null {
  if (value === null || value === undefined) return null
  const text = asText(value)
  try {
    const { name = 'Error', message = '', ...more } = JSON.parse(text) as Partial<ErrorRecord>
    return { name: String(name), message: String(message), ...more }
  } catch {
    return { name: 'Error', message: text }
  }
}

/** The message columns of a row: message_key, fingerprint, and those of `asLeaving`. */
export function asMessage(row: Row): StoredMessage {
  return { messageKey: asUuid(row['message_key']), fingerprint: asHex(row['fingerprint']), ...asLeaving(row) }
}

/** The columns of a row that a broker gets: source, id, type, key, attributes, data. */
export function asLeaving(row: Row): LeavingMessage {
  return {
    source: asText(row['source']),
    id: asText(row['id']),
    type: asText(row['type']),
    key: asTextOrNull(row['key']),
    attributes: asText(row['attributes']),
    data: asBytes(row['data']),
  }
}

/** A UUID's 16 bytes, for databases that have no such type. */
export function uuidBytes(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}
