import { HapaxError, unstorable } from '../../base/index.ts'
import type { Param, Statement } from '../../contracts/index.ts'

/**
 * Statements as one text with their values written in, for the simple query protocol: it carries several statements in
 * one round trip, and a failing one stops the rest. Every statement of hapax casts each parameter, so a quoted literal
 * means the same as a bound value.
 */
export function script(statements: readonly Statement[]): string {
  try {
    return checked(statements.map(inline).join(';'))
  } catch (error) {
    // Nothing was sent: a text has an end in JavaScript, and some characters have no place in one.
    throw error instanceof HapaxError ? error : unstorable(error)
  }
}

/** Bytes travel as two hexadecimal digits each, and no text of JavaScript is longer than half a gigabyte. */
export const MOST_BYTES: number = 2 ** 28 - 2 ** 16

/** What PostgreSQL takes at once; it ends the connection over what is larger. */
const MAX_BYTES = 2 ** 30 - 1024

function checked(text: string): string {
  // One unit is at most three bytes of UTF-8: practically no text has to be measured.
  if (text.length * 3 <= MAX_BYTES || Buffer.byteLength(text) <= MAX_BYTES) return text
  throw new HapaxError('too-large', `expected statements of at most ${MAX_BYTES} bytes, got ${Buffer.byteLength(text)}`)
}

const parsed = new Map<string, readonly string[]>()

function inline({ text, params }: Statement): string {
  if (params.length === 0) return text
  let parts = parsed.get(text)
  if (parts === undefined) {
    parts = text.split(/\$(\d+)/)
    parsed.set(text, parts)
  }
  let out = parts[0] ?? ''
  for (let index = 1; index < parts.length; index += 2) {
    out += literal(params[Number(parts[index]) - 1]) + parts[index + 1]
  }
  return out
}

/**
 * A value as an SQL literal, whatever `standard_conforming_strings` and `backslash_quote` say. A backslash is written as its number:
 * where a session takes bytes for another encoding than they are in, one may be swallowed by the character before it, and what then
 * remains is digits. A quote is never part of a longer character.
 */
export function literal(value: Param | undefined): string {
  if (value === null || value === undefined) return 'NULL'
  if (typeof value === 'number') return `'${value}'`
  if (typeof value !== 'string') return `E'\\\\x${hex(value)}'`
  if (value.includes('\0')) throw new TypeError('a text with U+0000 cannot be sent to PostgreSQL')
  if (value.includes('\\')) return ` E'${value.replaceAll('\\', '\\134').replaceAll("'", "''")}'`
  return value.includes("'") ? `'${value.replaceAll("'", "''")}'` : `'${value}'`
}

/**
 * Values as the text of a PostgreSQL array: a scalar for every driver, cast to an array by the statement. There is no null among them:
 * with `array_nulls = off` it would be the text NULL. Where one is needed, the statement makes it of an empty text.
 */
export function array(values: readonly (string | number | Uint8Array)[]): string {
  return `{${values.map(element).join(',')}}`
}

function element(value: string | number | Uint8Array): string {
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'string') return `"\\\\x${hex(value)}"`
  const escaped = value.includes('\\') ? value.replaceAll('\\', '\\\\') : value
  return `"${escaped.includes('"') ? escaped.replaceAll('"', '\\"') : escaped}"`
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
