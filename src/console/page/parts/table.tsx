import type { ComponentChildren, Key } from 'preact'

/** A column: in a narrow window rows become cards, where `title` stands before the value. */
export interface Column<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  readonly align?: 'right'
  /** `grow`: gets what is left, and its text is cut. `lead`: the headline of a card. */
  readonly kind?: 'grow' | 'lead' | 'actions'
}

interface TableProps<T> {
  readonly label: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => Key
  readonly tone?: (row: T) => string | undefined
}

/** A table of rows. */
export function Table<T>({ label, columns, rows, keyOf, tone }: TableProps<T>) {
  return (
    <table class="rows">
      <caption class="hidden">{label}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.title} scope="col" class={classOf(column)}>
              {column.kind === 'actions' ? <span class="hidden">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)} class={tone?.(row)}>
            {columns.map((column) => (
              <td key={column.title} class={classOf(column)} data-title={column.title}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function classOf<T>({ align, kind }: Column<T>): string {
  return [align, kind].filter(Boolean).join(' ')
}
