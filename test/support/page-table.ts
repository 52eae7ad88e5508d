import { readFileSync, writeFileSync } from 'node:fs'

/** A table on a page that tests or scripts write. */
export interface PageTable {
  readonly path: string
  /** What its first line begins with: `| pair |`. */
  readonly head: string
  /** How many cells say what a row is about: another one that begins with the same is the same row. */
  readonly keys: number
  /** The place of a row among the others. @default that of the alphabet */
  readonly order?: (row: string) => number
}

/** The rows of a table as it stands. */
export function rowsOf(table: PageTable): readonly string[] {
  return read(table).rows
}

/** The cells of a row. */
export function cellsOf(row: string): readonly string[] {
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())
}

/** Writes a row in the place of the one that begins like it, or adds it. */
export function writeRow(table: PageTable, row: string): void {
  const { text, start, end, rows } = read(table)
  const begin = (each: string): string => cellsOf(each).slice(0, table.keys).join('|')
  const others = rows.filter((each) => begin(each) !== begin(row))
  const { order = () => 0 } = table
  const sorted = [...others, row].sort().sort((a, b) => order(a) - order(b))
  writeFileSync(table.path, `${text.slice(0, start)}${sorted.join('\n')}\n${text.slice(end)}`)
}

function read({ path, head }: PageTable): { text: string; start: number; end: number; rows: string[] } {
  const text = readFileSync(path, 'utf8')
  const begin = text.indexOf(head)
  if (begin < 0) throw new Error(`expected a table that begins with '${head}' in ${path}`)
  const start = text.indexOf('\n', text.indexOf('\n', begin) + 1) + 1
  const [found = ''] = /^(?:\|.*\n)*/.exec(text.slice(start)) ?? []
  return { text, start, end: start + found.length, rows: found.trimEnd().split('\n').filter(Boolean) }
}
