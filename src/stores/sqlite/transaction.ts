import type { DatabaseSync } from 'node:sqlite'
import type { DoomOf, Result } from '../../contracts/index.ts'
import { type Lending, Reaching, reachOf, SAVEPOINTS, type SyncDatabase, SyncTransaction } from '../sql/index.ts'
import type { NodeClient } from './database.ts'
import { nodeSqlite } from './node-sqlite.ts'

/** The result of a statement: its rows, and how many rows it returned or changed. */
export interface SqliteResult<Row = Record<string, unknown>> {
  readonly rows: readonly Row[]
  readonly rowCount: number
}

/** What handlers receive as `ctx.tx`, and `hapax.transaction` as `tx`. It is dead once the transaction has settled. */
export interface SqliteTx {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<SqliteResult<Row>>
  /** The connection of this transaction, for libraries that want one. */
  readonly client: DatabaseSync
}

const NO_PARAMS: readonly unknown[] = []

const LENDING: Lending = {
  notLent: new Set(['open', 'close', 'deserialize', 'createTagStore', Symbol.dispose]),
  instead: {
    // An open cursor would outlive the transaction.
    iterate: (target) =>
      target instanceof nodeSqlite.StatementSync
        ? (...args: Parameters<typeof target.all>) => target.all(...args).values()
        : undefined,
  },
}

/** One transaction on a connection of `node:sqlite`. */
export class SqliteTransaction extends SyncTransaction<SqliteTx> implements SqliteTx {
  readonly #node: NodeClient
  #client: DatabaseSync | undefined

  constructor(database: SyncDatabase<NodeClient>, doomOf: DoomOf) {
    super(database, doomOf, new Reaching())
    this.#node = database.client
  }

  get tx(): SqliteTx {
    return this
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = NO_PARAMS,
  ): Promise<SqliteResult<Row>> {
    this.reaching?.add(reachOf(text, SAVEPOINTS))
    return this.answer(text, params, toResult<Row>)
  }

  get client(): DatabaseSync {
    this.#client ??= this.lent(this.#node.database, LENDING)
    return this.#client
  }
}

function toResult<Row>({ rows, affected }: Result): SqliteResult<Row> {
  return { rows: rows as readonly Row[], rowCount: affected }
}
