import { resolve } from 'node:path'
import { expected, identifier, isText, noOthers } from '../../base/index.ts'
import type { Connection, ConnectionSource, Store } from '../../contracts/index.ts'
import { connectionOn, isConnection, sqlStore } from '../sql/index.ts'
import { SqliteConnection } from './connection.ts'
import { dialect } from './statements/sql.ts'
import type { SqliteTx } from './transaction.ts'

export type { SqliteResult, SqliteTx } from './transaction.ts'

/** What the tables are called. */
export interface SqliteTables {
  /** What the names of the tables of hapax begin with. @default 'hapax_' */
  readonly prefix?: string
}

/** A file that hapax opens itself. */
export interface SqliteOptions extends SqliteTables {
  /**
   * The database file, on a disk of this host; or ':memory:', a database that ends with the store. A new file is for its owner alone
   * (mode 0600).
   */
  readonly path: string
}

/** What operating systems take. */
const MAX_PATH_BYTES = 4096

/**
 * A store on SQLite: on a file, by `node:sqlite`; or on a connection such as `fromBetterSqlite3(db)`, which alone has its options beside
 * it. Several processes may share the file.
 */
export function sqlite<Tx = SqliteTx, Own = Tx>(
  given: SqliteOptions | Connection<Tx, Own> | ConnectionSource<Tx, Own>,
  options?: SqliteTables,
): Store<Tx, Own>
export function sqlite(
  given: SqliteOptions | Connection<unknown, unknown> | ConnectionSource<unknown, unknown>,
  options: SqliteTables = {},
): Store<unknown, unknown> | Store<SqliteTx> {
  if (isConnection(given)) {
    noOthers('options of sqlite', options, ['prefix'])
    return sqlStore(connectionOn('sqlite', given), dialect(prefixOf(options)))
  }
  noOthers('options of sqlite', given, ['path', 'prefix'])
  noOthers('second argument', options, [])
  return onFile(given)
}

function onFile({ path, prefix }: SqliteOptions): Store<SqliteTx> {
  if (!isText(path, MAX_PATH_BYTES) || path.includes('\0')) expected('path', 'the path of a file', path)
  const file = path === ':memory:' ? path : resolve(path)
  const checked = prefixOf({ prefix })
  return sqlStore(new SqliteConnection(file, checked), dialect(checked))
}

function prefixOf({ prefix = 'hapax_' }: { readonly prefix?: string | undefined }): string {
  return identifier('prefix', prefix)
}
