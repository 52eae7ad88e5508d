import { type Io, line, paint } from './io.ts'
import { cut, widthOf } from './text.ts'

/** A column of a table. */
export interface Column {
  readonly title: string
  readonly align?: 'left' | 'right'
  /** May be cut where the terminal is too narrow, down to this many columns. */
  readonly shrinkTo?: number
}

/** A cell: its text, without escape sequences, and its colour. */
export type Cell = string | { readonly text: string; readonly style: Parameters<typeof paint>[1] }

const GAP = '  '

/** Prints a table. On a terminal it is cut to its width; elsewhere nothing is ever cut. */
export function table(io: Io, columns: readonly Column[], rows: readonly (readonly Cell[])[]): void {
  const widths = widthsOf(io, columns, rows)
  const titles = columns.map(({ title }) => ({ text: title, style: 'dim' as const }))
  for (const row of [titles, ...rows]) {
    const cells = row.map((cell, index) => aligned(io, cell, columns[index] as Column, widths[index] as number))
    line(io, cells.join(GAP).trimEnd())
  }
}

function aligned(io: Io, cell: Cell, { align = 'left' }: Column, width: number): string {
  const text = cut(textOf(cell), width)
  const padding = ' '.repeat(width - widthOf(text))
  const shown = typeof cell === 'string' ? text : paint(io, cell.style, text)
  return align === 'left' ? shown + padding : padding + shown
}

function widthsOf({ out }: Io, columns: readonly Column[], rows: readonly (readonly Cell[])[]): readonly number[] {
  const widths = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...rows.map((row) => widthOf(textOf(row[index] ?? '')))),
  )
  if (!out.isTTY || out.columns === undefined) return widths
  let over = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length) - out.columns
  while (over > 0) {
    const index = widestOf(columns, widths)
    if (index === -1) break
    widths[index] = (widths[index] as number) - 1
    over -= 1
  }
  return widths
}

/** The widest column that may still be cut, or -1. */
function widestOf(columns: readonly Column[], widths: readonly number[]): number {
  let widest = -1
  for (const [index, { shrinkTo }] of columns.entries()) {
    const width = widths[index] as number
    if (shrinkTo !== undefined && width > shrinkTo && width > (widths[widest] ?? 0)) widest = index
  }
  return widest
}

function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text
}
