import type { ComponentChildren, Key } from 'preact'

/** A column: in a narrow window rows become cards, where `title` stands before the value. */
export interface Column<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  readonly align?: 'right'
  /** `grow`: gets what is left. `lead`: the headline of a card. `below`: has a line of its own under the row, if there is something. */
  readonly kind?: 'grow' | 'lead' | 'actions' | 'below'
  /** Whether the title is shown before a value below the row. */
  readonly titled?: boolean
}

interface TableProps<T> {
  readonly label: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => Key
}

/** A table of rows. */
export function Table<T>({ label, columns, rows, keyOf }: TableProps<T>) {
  const beside = columns.filter(({ kind }) => kind !== 'below')
  const below = columns.filter(({ kind }) => kind === 'below')
  return (
    <table class="rows">
      <caption class="hidden">{label}</caption>
      <thead>
        <tr>
          {beside.map((column) => (
            <th key={column.title} scope="col" class={classOf(column)}>
              {column.kind === 'actions' ? <span class="hidden">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      {rows.map((row) => (
        <tbody key={keyOf(row)}>
          <tr>
            {beside.map((column) => (
              <td key={column.title} class={classOf(column)} data-title={column.title}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
          {below.map((column) => (
            <Below key={column.title} column={column} span={beside.length}>
              {column.cell(row)}
            </Below>
          ))}
        </tbody>
      ))}
    </table>
  )
}

interface BelowProps {
  readonly column: Pick<Column<never>, 'title' | 'titled'>
  readonly span: number
  readonly children: ComponentChildren
}

function Below({ column: { title, titled }, span, children }: BelowProps) {
  if (children === null) return null
  return (
    <tr class={titled ? 'below titled' : 'below'}>
      <td colSpan={span} data-title={title}>
        <span class={titled ? 'below-title' : 'hidden'}>{title}: </span>
        {children}
      </td>
    </tr>
  )
}

function classOf<T>({ align, kind }: Column<T>): string {
  return [align, kind].filter(Boolean).join(' ')
}
