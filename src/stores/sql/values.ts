import { describe, type ErrorRecord, format, HapaxError } from '../../base/index.ts'
import type { Row } from '../../contracts/index.ts'
import type { LeavingMessage, Past, StoredMessage } from '../../message/index.ts'
import { asciiJson, decodeText, pastOf } from '../../message/index.ts'

/** An error as a column of texts holds it, in ASCII: whatever the encoding of the database lacks, a failure can be recorded. */
export function errorJson(error: ErrorRecord): string {
  return asciiJson(JSON.stringify(error))
}

// Readers of columns. Drivers return texts or bytes, numbers or texts, depending on the type of the column and on their own
// settings: these accept every form. Any other value is refused. A column that a plugin has renamed is undefined, and must not be
// taken for null or false.

/** The error for a column that did not come back, or not as what it is. */
export function unrecognised(what: string, got: unknown): HapaxError {
  return new HapaxError(
    'unrecognised-result',
    `expected ${what} from the database, got ${describe(got)}: a plugin or a type parser of its client changes results`,
  )
}

/** A scalar as text. */
function scalar(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8')
  if (value === undefined || (typeof value === 'object' && value !== null)) throw unrecognised('a text', value)
  return String(value)
}

/** A text column. */
export function asText(value: unknown): string {
  return decodeText(scalar(value))
}

/** A text column that may be null. */
export function asTextOrNull(value: unknown): string | null {
  return value === null ? null : asText(value)
}

/** What names a row. */
export function asSeq(value: unknown): string {
  return scalar(value)
}

/** A number. */
export function asNumber(value: unknown): number {
  const number = typeof value === 'object' ? Number.NaN : Number(value)
  if (Number.isNaN(number)) throw unrecognised('a number', value)
  return number
}

/** A column of bytes. */
export function asBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw unrecognised('bytes', value)
}

/** Bytes, or their hexadecimal digits, as lower-case digits. */
export function asHex(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : scalar(value).toLowerCase()
}

/** A UUID that comes as text or as 16 bytes. */
export function asUuid(value: unknown): string {
  const digits = asHex(value)
  return digits.length === 32 ? format(digits) : digits
}

/** A time that comes as milliseconds since 1970. */
export function asDate(value: unknown): Date {
  return new Date(asNumber(value))
}

/** A truth value: some databases have 0 and 1. */
export function asBoolean(value: unknown): boolean {
  if (typeof value === 'boolean' || value === null) return value === true
  const word = scalar(value)
  if (/^(1|t|true)$/i.test(word)) return true
  if (/^(0|f|false)$/i.test(word)) return false
  throw unrecognised('a truth value', value)
}

/** A stored error. One that is not JSON, after a change by hand, must not keep a whole page from being shown. */
export function asErrorRecord(value: unknown): ErrorRecord | null {
  if (value === null || value === undefined) return null
  const text = asText(value)
  try {
    const { name = 'Error', message = '', ...more }: Partial<ErrorRecord> = JSON.parse(text)
    return { name: String(name), message: String(message), ...more }
  } catch {
    return { name: 'Error', message: text }
  }
}

/** What a row remembers of its failures. */
export function asPast({ failures, history }: Row): Past {
  return pastOf({
    failures: Number(failures),
    history: history === null || history === undefined ? null : scalar(history),
  })
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
