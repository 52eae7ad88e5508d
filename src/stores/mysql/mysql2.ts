/** A statement as `mysql2` takes it. */
export interface MysqlQuery {
  readonly sql: string
  readonly values?: unknown[]
  readonly rowsAsArray?: boolean
  readonly nestTables?: boolean
  readonly typeCast?: boolean | ((field: never, next: () => unknown) => unknown)
}

/** The subset of a promise connection of `mysql2` that hapax needs: your own one inside a transaction. */
export interface MysqlClient {
  query(query: string | MysqlQuery): Promise<[unknown, ...unknown[]]>
}

/** The subset of a promise connection taken from a pool. */
export interface MysqlPoolClient extends MysqlClient {
  execute(text: string, params: never): Promise<[unknown, ...unknown[]]>
  release(): void
  destroy(): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/** The subset of a pool of `mysql2/promise`. */
export interface MysqlPool<Client extends MysqlPoolClient = MysqlPoolClient> {
  getConnection(): Promise<Client>
}

/** What the callback style of `mysql2` offers: the same thing with promises. */
export interface MysqlCallbacks<Promised> {
  promise(): Promised
}

/** The result of a statement: its rows, and how many rows it returned or changed. */
export interface MysqlResult<Row = Record<string, unknown>> {
  readonly rows: Row[]
  readonly rowCount: number
}

/** What handlers receive as `ctx.tx`, and `hapax.transaction` as `tx`. It is dead once the transaction has settled. */
export interface MysqlTx<Client extends MysqlClient = MysqlPoolClient> {
  /** With parameters a prepared statement, without them plain text. */
  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<MysqlResult<Row>>
  /** The connection of this transaction, for libraries that want one. */
  readonly client: Client
}

/** The promise form of what may be in callback style. */
export function promised<Promised extends object>(given: Promised | MysqlCallbacks<Promised>): Promised {
  return isCallbacks(given) ? given.promise() : given
}

function isCallbacks<Promised extends object>(
  given: Promised | MysqlCallbacks<Promised>,
): given is MysqlCallbacks<Promised> {
  return 'promise' in given && typeof given.promise === 'function'
}
