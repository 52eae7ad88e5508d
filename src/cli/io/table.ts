// Tables for terminals. Cells are measured in terminal columns, because ids and names may hold wide characters.

import { type Io, line, paint } from './io.ts'
import { cut, widthOf } from './text.ts'

/** A column of a table. */
export interface Column {
  readonly title: string
  readonly align?: 'left' | 'right'
  /** How narrow the column may become when the terminal is too small; without it, the column is never cut. */
  readonly shrinkTo?: number
}

/** A cell: its text, without escape sequences, and its colour. */
export type Cell = string | { readonly text: string; readonly style: Parameters<typeof paint>[1] }

const GAP = '  '

/** Prints a table. On a terminal it is cut to the width; elsewhere nothing is cut, so that it can be piped. */
export function table(io: Io, columns: readonly Column[], rows: readonly (readonly Cell[])[]): void {
  const widths = widthsOf(io, columns, rows)
  const titles = columns.map(({ title }) => ({ text: title, style: 'dim' as const }))
  for (const row of [titles, ...rows]) {
    const cells = columns.map((column, index) => aligned(io, row[index] ?? '', column, widths[index] ?? 0))
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
    const widest = widestOf(columns, widths)
    if (widest === undefined) break
    widths[widest.index] = widest.width - 1
    over -= 1
  }
  return widths
}

/** The widest column that may still be cut, if there is one. */
function widestOf(columns: readonly Column[], widths: readonly number[]): { index: number; width: number } | undefined {
  let widest: { index: number; width: number } | undefined
  for (const [index, width] of widths.entries()) {
    const shrinkTo = columns[index]?.shrinkTo
    if (shrinkTo !== undefined && width > shrinkTo && width > (widest?.width ?? 0)) widest = { index, width }
  }
  return widest
}

function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text
}
