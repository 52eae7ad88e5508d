/** How a row was before the running transaction changed it. */
interface Before {
  readonly rows: Map<string, object>
  readonly key: string
  readonly row: object | undefined
}

/** One table: immutable rows by key. */
export class Table<Row extends object> {
  readonly rows: Map<string, object> = new Map()
  readonly #log: Before[]

  constructor(log: Before[]) {
    this.#log = log
  }

  get(key: string): Row | undefined {
    return this.rows.get(key) as Row | undefined
  }

  all(): Row[] {
    return [...this.rows.values()] as Row[]
  }

  set(key: string, row: Row): void {
    this.#log.push({ rows: this.rows, key, row: this.rows.get(key) })
    this.rows.set(key, row)
  }

  delete(key: string): boolean {
    this.#log.push({ rows: this.rows, key, row: this.rows.get(key) })
    return this.rows.delete(key)
  }
}

/** Tables that change together: until `commit`, `rollback` takes every change back. */
export class Tables {
  readonly #tables = new Map<string, Table<object>>()
  readonly #log: Before[] = []

  table<Row extends object>(name: string): Table<Row> {
    const table = this.#tables.get(name) ?? new Table(this.#log)
    this.#tables.set(name, table)
    return table as Table<Row>
  }

  /** The rows of a table without the changes that are not committed yet. */
  committed(name: string): readonly object[] {
    const { rows } = this.table(name)
    const copy = new Map(rows)
    for (const before of this.#log.toReversed()) if (before.rows === rows) restore(copy, before)
    return [...copy.values()]
  }

  commit(): void {
    this.#log.length = 0
  }

  rollback(): void {
    for (const before of this.#log.toReversed()) restore(before.rows, before)
    this.#log.length = 0
  }
}

function restore(rows: Map<string, object>, { key, row }: Before): void {
  if (row === undefined) rows.delete(key)
  else rows.set(key, row)
}
