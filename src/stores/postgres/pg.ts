/** The subset of a `pg` result that hapax reads. */
export interface PgResult<Row = Record<string, unknown>> {
  readonly rows: Row[]
  readonly rowCount: number | null
  readonly command?: string
}

/** The subset of a `pg` client that hapax needs: a PoolClient, or your own Client inside a transaction. */
export interface PgClient {
  query(text: string, params?: readonly unknown[]): Promise<PgResult>
}

/** The subset of a client taken from a pool. */
export interface PgPoolClient extends PgClient {
  release(error?: boolean | Error): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/** The subset of a `pg` pool. */
export interface PgPool<Client extends PgPoolClient = PgPoolClient> {
  connect(): Promise<Client>
  query(text: string, params?: readonly unknown[]): Promise<PgResult>
}

/** The client type of a pool, also of one whose `connect` has a form with a callback. */
export type PgClientOf<Pool> = Pool extends { connect: { (): Promise<infer Client>; (callback: never): unknown } }
  ? Client & PgPoolClient
  : Pool extends { connect(): Promise<infer Client> }
    ? Client & PgPoolClient
    : PgPoolClient

/** What handlers receive as `ctx.tx`, and `hapax.transaction` as `tx`. It is dead once the transaction has settled. */
export interface PgTx<Client extends PgClient = PgPoolClient> {
  query<Row extends object = Record<string, unknown>>(text: string, params?: readonly unknown[]): Promise<PgResult<Row>>
  /** The client of this transaction, for libraries that want one. */
  readonly client: Client
}
