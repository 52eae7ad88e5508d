import { join } from 'node:path'
import { cellsOf, type PageTable, rowsOf, writeRow } from '../../test/support/page-table.ts'
import type { Counted } from '../counted.ts'
import { versions } from './versions.ts'

/** What a run has shown of a version. */
export interface Outcome {
  /** How the server was obtained, or why it was not. */
  readonly how: string
  /** Its own name and version, if it started. */
  readonly said?: string
  /** Without, it was not to be had. */
  readonly counted?: Counted
}

const table: PageTable = {
  path: join(import.meta.dirname, '..', '..', 'docs', 'support.md'),
  head: '| server |',
  keys: 1,
  order: (row) => versions.findIndex(({ name }) => row.startsWith(`| \`${name}\` |`)),
}

/** A row of the matrix. */
interface Row {
  readonly name: string
  /** The server's own name and version; undefined: there was none to run on. */
  readonly said: string | undefined
  /** Whether tests passed, and none failed. */
  readonly green: boolean
}

/** The rows of the matrix as it stands. */
export function rows(): readonly Row[] {
  return rowsOf(table).map((row) => {
    const [name = '', said = '', passed, , failed] = cellsOf(row)
    return { name: name.replaceAll('`', ''), said: said || undefined, green: Number(passed) > 0 && failed === '0' }
  })
}

/** Writes what a run has shown into the row of its version. One that could not be had this time keeps what it has. */
export function record(name: string, { how, said = '', counted }: Outcome, date: Date): void {
  if (counted === undefined && rows().some((row) => row.name === name && row.said !== undefined)) return
  const figures = counted === undefined ? ['', '', ''] : [counted.passed, counted.skipped, counted.failed]
  const cells = [`\`${name}\``, said, ...figures, date.toISOString().slice(0, 10), how]
  writeRow(table, `| ${cells.map((cell) => (cell === '' ? '' : `${cell} `)).join('| ')}|`)
}
