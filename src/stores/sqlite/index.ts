import { resolve } from 'node:path'
import { expected, identifier, isText, noOthers } from '../../base/index.ts'
import type { Store } from '../../contracts/index.ts'
import { sqlStore } from '../sql/index.ts'
import { SqliteConnection } from './connection.ts'
import { dialect } from './statements/sql.ts'
import type { SqliteTx } from './transaction.ts'

export type { SqliteResult, SqliteTx } from './transaction.ts'

/** Where the tables are. */
export interface SqliteOptions {
  /**
   * The database file, on a disk of this host; or ':memory:', a database that ends with the store. A new file is for its owner alone
   * (mode 0600).
   */
  readonly path: string
  /** What the names of the tables of hapax begin with. @default 'hapax_' */
  readonly prefix?: string
}

/** What operating systems take. */
const MAX_PATH_BYTES = 4096

/** A store on a SQLite file, by `node:sqlite`. hapax opens a connection of its own: several processes may share the file. */
export function sqlite(options: SqliteOptions): Store<SqliteTx> {
  noOthers('options of sqlite', options, ['path', 'prefix'])
  const { path, prefix = 'hapax_' } = options
  if (!isText(path, MAX_PATH_BYTES) || path.includes('\0')) expected('path', 'the path of a file', path)
  const file = path === ':memory:' ? path : resolve(path)
  const checked = identifier('prefix', prefix)
  return sqlStore(new SqliteConnection(file, checked), dialect(checked))
}
