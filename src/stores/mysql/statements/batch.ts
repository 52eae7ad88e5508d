import type { Param, Statement } from '../../../contracts/index.ts'

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
  return split(rows).map((part) => ({
    text: `${text.head} ${part.map(() => text.row).join(', ')} ${text.tail}`,
    params: part.flat(),
  }))
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
