import { createHash } from 'node:crypto'
import { type ErrorRecord, errorHash } from '../../../base/index.ts'
import type { Param, RetryRow, Statement } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, laneOf, markOf, numberOf } from '../../../message/index.ts'
import { uuidBytes } from '../../sql/index.ts'

/** A plain text as bytes. */
export function bytes(value: string): Buffer {
  return Buffer.from(value, 'utf8')
}

/** A text of a message as bytes. */
export function text(value: string): Buffer {
  return bytes(encodeText(value))
}

/** The column `key_hash` of a key. */
export function keyHash(key: string): Buffer {
  return createHash('sha256').update(text(key)).digest()
}

/** consumer, message_key, token, fingerprint, source, id, type: a row of receipts. */
export function receipt(consumer: string, token: string, message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, fingerprint } = message
  const keys = [bytes(consumer), uuidBytes(messageKey), uuidBytes(token), Buffer.from(fingerprint, 'hex')]
  return [...keys, text(source), text(id), text(type)]
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight values of a row. */
export function columns(message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, key, attributes, data, fingerprint } = message
  return [
    uuidBytes(messageKey),
    text(source),
    text(id),
    text(type),
    key === null ? null : text(key),
    bytes(attributes),
    // Older escaping functions know only Buffer, and take any other view for an object.
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    Buffer.from(fingerprint, 'hex'),
  ]
}

/** A delay as the servers take it. */
export function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}

/** lane and ordered: a message without a key has no order to keep. */
export function place(message: StoredMessage, ordered: boolean): readonly Param[] {
  return [laneOf(message, ordered), Number(ordered && message.key !== null)]
}

/** error and error_hash. */
export function errorColumns(error: ErrorRecord): readonly Param[] {
  return [bytes(JSON.stringify(error)), bytes(errorHash(error))]
}

/** consumer, the message, attempts, starts, available_at, first_due_at, error, lane, ordered: a row of the inbox. */
export function inboxRow(row: RetryRow): readonly Param[] {
  const { consumer, message, ordered, attempts, starts, delayMs, error, local } = row
  const delay = microseconds(delayMs)
  const state = [attempts, starts, delay, local ? delay : null, error && bytes(JSON.stringify(error))]
  return [bytes(consumer), ...columns(message), ...state, ...place(message, ordered)]
}

/** The same, with attempts and entry: the row of a message that has failed once. */
export function failedOnce(row: RetryRow): readonly Param[] {
  return [...inboxRow(row), row.attempts, bytes(row.entry ?? '')]
}

/** The numbers and marks of rows, as one list. */
export function named(seqs: readonly string[]): Buffer {
  return bytes(JSON.stringify(seqs.map(one)))
}

/** Numbers of rows as one list. */
export function numbered(numbers: readonly string[]): Buffer {
  return bytes(`[${numbers.join(',')}]`)
}

/** Bytes as one list. */
export function list(values: readonly Buffer[]): Buffer {
  return bytes(JSON.stringify(values.map((value) => value.toString('hex'))))
}

/** The number and the mark of one row. */
export function one(seq: string): readonly [string, string] {
  return [numberOf(seq), markOf(seq)]
}

/** A text that may be absent. */
export function textOrNull(value: string | undefined): Buffer | null {
  return value === undefined ? null : text(value)
}

/** A time that may be absent. */
export function microsecondsOrNull(ms: number | undefined): number | null {
  return ms === undefined ? null : microseconds(ms)
}

/** One row of a multi-row insert around its values. */
export interface MultiRow {
  readonly head: string
  readonly row: string
  readonly tail: string
}

/** Rows of one statement at most. */
const MAX_ROWS = 500
/** Far below the smallest max_allowed_packet in use, 16 MiB; a single row may be larger. */
export const MAX_BYTES: number = 4 * 1024 * 1024

/** A multi-row insert, as several where one would be too large for the server. */
export function inserts(text: MultiRow, rows: readonly (readonly Param[])[]): readonly Statement[] {
  return split(rows).map((part) => ({ text: textFor(text, part.length), params: part.flat() }))
}

/** The texts by the number of their rows: the same one each time is found among those that are prepared without reading it. */
const texts = new WeakMap<MultiRow, Map<number, string>>()

function textFor(text: MultiRow, rows: number): string {
  const own = texts.get(text) ?? new Map<number, string>()
  texts.set(text, own)
  const found = own.get(rows) ?? `${text.head} ${Array(rows).fill(text.row).join(', ')} ${text.tail}`
  own.set(rows, found)
  return found
}

function split(rows: readonly (readonly Param[])[]): readonly (readonly (readonly Param[])[])[] {
  const parts: (readonly Param[])[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const row of rows) {
    const size = row.reduce<number>((sum, param) => sum + sizeOf(param), 0)
    const last = parts.at(-1)
    if (last !== undefined && last.length < MAX_ROWS && bytes + size <= MAX_BYTES) {
      last.push(row)
      bytes += size
    } else {
      parts.push([row])
      bytes = size
    }
  }
  return parts
}

/** In the text of a statement, bytes travel as two hexadecimal digits each. */
export function sizeOf(param: Param): number {
  return param instanceof Uint8Array ? 2 * param.byteLength + 4 : 24
}

/** Lists of values in parts of a statement's size. */
export function chunks<T>(values: readonly T[]): readonly (readonly T[])[] {
  const parts: T[][] = []
  for (let from = 0; from < values.length; from += MAX_ROWS) parts.push(values.slice(from, from + MAX_ROWS))
  return parts
}
