import { hash } from 'node:crypto'
import { expected, uuidv7Time } from '../base/index.ts'

/**
 * The key of a message in `receipts`: a UUIDv8 computed from the exact bytes of source and id.
 * The time of a UUIDv7 id comes first, so that inserts into the index stay local; other ids have zeros there.
 */
export function messageKey(source: string, id: string): string {
  return uuidv8(uuidv7Time(id) ?? '000000000000', sha256(pair(source, id)))
}

/** Keys of messages, both ends included. */
export interface KeyRange {
  readonly from: string
  readonly to: string
}

/** The keys that a message with this id can have, whatever its source is; undefined if only the source tells. */
export function keyRange(id: string): KeyRange | undefined {
  const time = uuidv7Time(id)
  if (time === undefined) return undefined
  const start = `${time.slice(0, 8)}-${time.slice(8)}`
  return { from: `${start}-0000-0000-000000000000`, to: `${start}-ffff-ffff-ffffffffffff` }
}

/** A UUID of version 8 that begins with these twelve digits; what version and variant take the place of is left out. */
function uuidv8(start: string, digits: string): string {
  const variant = '89ab'[Number.parseInt(digits.charAt(4), 16) & 3]
  return `${start.slice(0, 8)}-${start.slice(8)}-8${digits.slice(1, 4)}-${variant}${digits.slice(5, 8)}-${digits.slice(8, 20)}`
}

/** The SHA-256 of a payload in hexadecimal digits; a text stands for its UTF-8. */
export function sha256(payload: Uint8Array | string): string {
  return hash('sha256', payload, 'hex')
}

/** Eight bytes, in hexadecimal digits, that tell one payload from another. */
export function fingerprint(payload: Uint8Array | string): string {
  return fingerprintOf(sha256(payload))
}

/** The fingerprint of a payload whose SHA-256 is known. */
export function fingerprintOf(digest: string): string {
  return digest.slice(0, 16)
}

/** An id for a message that came without one: the SHA-256 of its type, its key and the SHA-256 of its payload. */
export function payloadId(type: string, key: string | null, digest: string): string {
  return `sha256:${sha256(pair(type, key ?? '') + digest)}`
}

/**
 * A deterministic id for a sender that may be retried: the same name and parts give the same id.
 * @example messageId('order.placed', order.id, order.version)
 */
export function messageId(name: string, ...parts: readonly (string | number | bigint | boolean)[]): string {
  if (typeof name !== 'string' || name === '' || !name.isWellFormed()) {
    expected('name', 'a non-empty, well-formed string', name)
  }
  if (parts.length === 0) expected('parts', 'at least one value', parts)
  // JSON of the typed parts is an unambiguous join: ('a', 'b,c') and ('a,b', 'c') differ, and so do 1 and '1'.
  const typed = parts.map((part, index) => [typeof part, checkedPart(part, index)])
  const digest = sha256(JSON.stringify([name, typed]))
  return uuidv8(digest.slice(0, 12), digest.slice(12))
}

function checkedPart(part: unknown, index: number): string {
  const fine =
    typeof part === 'string'
      ? part.isWellFormed()
      : ['bigint', 'boolean'].includes(typeof part) || Number.isFinite(part)
  if (!fine) expected(`parts[${index}]`, 'a well-formed string, a finite number, a bigint or a boolean', part)
  return String(part)
}

/** Both texts behind their lengths in bytes, as netstrings, so that ('ab', 'c') and ('a', 'bc') differ. */
function pair(source: string, id: string): string {
  return `${Buffer.byteLength(source)}:${source},${Buffer.byteLength(id)}:${id},`
}
