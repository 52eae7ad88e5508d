import { describe } from '../../base/index.ts'
import type { DoomOf } from '../../contracts/index.ts'
import { SyncConnection, type SyncDatabase, type SyncDriver } from '../sql/index.ts'
import { type NodeClient, openDatabase } from './database.ts'
import { SqliteTransaction, type SqliteTx } from './transaction.ts'

/** Transactions by `node:sqlite`. */
export class SqliteConnection extends SyncConnection<SqliteTx, NodeClient> {
  /** `prefix`: what the names of the tables of hapax begin with. */
  constructor(path: string, prefix: string) {
    super(new NodeSqlite(path, prefix))
  }
}

class NodeSqlite implements SyncDriver<SqliteTx, NodeClient> {
  readonly name = 'sqlite'
  readonly describe = describe
  readonly #path: string
  readonly #prefix: string

  constructor(path: string, prefix: string) {
    this.#path = path
    this.#prefix = prefix
  }

  open(): SyncDatabase<NodeClient> {
    return openDatabase(this.#path, this.#prefix)
  }

  begun(database: SyncDatabase<NodeClient>, doomOf: DoomOf): SqliteTransaction {
    return new SqliteTransaction(database, doomOf)
  }

  of(tx: unknown): SqliteTransaction | undefined {
    return tx instanceof SqliteTransaction ? tx : undefined
  }
}
