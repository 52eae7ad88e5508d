import { join } from 'node:path'
import { cellsOf, type PageTable, rowsOf, writeRow } from '../../test/support/page-table.ts'
import { runtimeNames } from '../../test/support/runtimes.ts'
import type { Counted } from '../counted.ts'

/** What ran on a runtime. */
export const parts = ['SQLite', 'PostgreSQL', 'package', 'unit tests'] as const

type Part = (typeof parts)[number]

/** What a run has shown of a runtime; a part that does not run there is left out. */
export type Shown = Readonly<Partial<Record<Part, Counted>>>

const table: PageTable = {
  path: join(import.meta.dirname, '..', '..', 'docs', 'support.md'),
  head: '| runtime |',
  keys: 1,
  order: (row) => runtimeNames.findIndex((name) => row.startsWith(`| \`${name}\` |`)),
}

/** A row of the table. */
interface RuntimeRow {
  readonly name: string
  /** Its own name and version: `Node.js 24.21.0`. */
  readonly said: string
  /** Whether something ran, and nothing failed. */
  readonly green: boolean
}

/** The rows of the table as it stands. */
export function runtimeRows(): readonly RuntimeRow[] {
  return rowsOf(table).map((row) => {
    const [name = '', said = '', ...figures] = cellsOf(row)
    const ran = figures.filter((each) => each.includes(' / '))
    return { name: name.replaceAll('`', ''), said, green: ran.length > 0 && ran.every((each) => each.endsWith(' / 0')) }
  })
}

/** Writes what a run has shown into the row of its runtime. */
export function recordRuntime(name: string, said: string, shown: Shown, date: Date): void {
  const figures = parts.map((part) => figuresOf(shown[part]))
  writeRow(table, `| ${[`\`${name}\``, said, ...figures, date.toISOString().slice(0, 10)].join(' | ')} |`)
}

/** Passed, skipped, failed. */
export function figuresOf(counted: Counted | undefined): string {
  return counted === undefined ? 'not run' : [counted.passed, counted.skipped, counted.failed].join(' / ')
}
