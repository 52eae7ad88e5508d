import { callback, expected, noOthers } from '../base/index.ts'
import type { Connection } from '../contracts/index.ts'
import { SyncConnection } from '../stores/sql/index.ts'
import { BetterDriver, type BetterSqlite3Database, reopening } from './kit/better-sqlite3.ts'

export type { BetterSqlite3Database } from './kit/better-sqlite3.ts'

/** How hapax gets its own connection. */
export interface BetterSqlite3Options<Db> {
  /**
   * Opens the connection of hapax's own: for functions, extensions or a key that handlers need. It has to be a new one.
   * @default one to the same file, by the same class
   */
  readonly open?: () => Db
}

/**
 * Lets a store work through better-sqlite3: `sqlite(fromBetterSqlite3(db))`. hapax opens the file a second time; `ctx.tx` is that
 * connection, for as long as the transaction lasts. What runs on `db` itself is never part of a transaction of hapax's.
 */
export function fromBetterSqlite3<Db extends BetterSqlite3Database>(
  db: Db,
  options: BetterSqlite3Options<Db> = {},
): Connection<Db> {
  noOthers('options of fromBetterSqlite3', options, ['open'])
  callback('open', options.open)
  const open = options.open ?? reopening(db)
  const plain = { name: 'sqlite (better-sqlite3)', of: (client: Db) => client, key: (tx: unknown) => tx }
  return new SyncConnection(new BetterDriver(() => another(db, open), plain))
}

function another<Db extends BetterSqlite3Database>(db: Db, open: () => Db): Db {
  const own = open()
  return own === db ? expected('open', 'a function that returns a new connection', 'the one that was passed') : own
}
