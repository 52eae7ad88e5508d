import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { expected, WriterQueue } from '../../base/index.ts'
import {
  BUSY_TIMEOUT_MS,
  OpenedFile,
  prepareFile,
  queueOf,
  type SyncClient,
  SyncDatabase,
  type SyncStatement,
} from '../sql/index.ts'
import { nodeSqlite } from './node-sqlite.ts'

/** A connection of `node:sqlite`. */
export class NodeClient implements SyncClient {
  readonly database: DatabaseSync

  constructor(database: DatabaseSync) {
    this.database = database
  }

  get inTransaction(): boolean {
    return this.database.isTransaction
  }

  get isOpen(): boolean {
    return this.database.isOpen
  }

  prepare(text: string): SyncStatement {
    const statement = this.database.prepare(text)
    // SQLite compiles the first statement and would ignore the others without a word.
    if (/\S/.test(text.slice(statement.sourceSQL.length))) {
      throw new TypeError('expected one SQL statement, got several: use client.exec() for a script')
    }
    const hasRows = statement.columns().length > 0
    // `run` also returns the last row id of the connection. Node.js 26 refuses to, if a number cannot hold it.
    if (!hasRows) statement.setReadBigInts(true)
    return {
      hasRows,
      all: (values) => statement.all(...(values as SQLInputValue[])),
      run: (values) => Number(statement.run(...(values as SQLInputValue[])).changes),
    }
  }

  close(): void {
    this.database.close()
  }
}

/** Opens a file with the settings that the promises of hapax rest on. Fails with SQLITE_BUSY while others are opening it. */
export function openDatabase(path: string, prefix: string): SyncDatabase<NodeClient> {
  const inMemory = path === ':memory:'
  if (!inMemory) prepareFile(path)
  const client = new nodeSqlite.DatabaseSync(path)
  try {
    client.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
    const mode = client.prepare('pragma journal_mode = wal').get()?.['journal_mode']
    if (mode !== (inMemory ? 'memory' : 'wal')) expected('path', 'on a disk where SQLite can use WAL', path)
    client.exec('pragma synchronous = full')
    forgetStatistics(client, prefix)
    const file = inMemory ? undefined : new OpenedFile(path)
    return new SyncDatabase(new NodeClient(client), inMemory ? new WriterQueue() : queueOf(path), file)
  } catch (error) {
    client.close()
    throw error
  }
}

/**
 * Forgets what ANALYZE has found in the tables of hapax. Queues are small most of the time, and a planner that was told so reads them from
 * end to end when they are large; one that was told nothing goes by the indexes.
 */
function forgetStatistics(client: DatabaseSync, prefix: string): void {
  if (client.prepare(`select 1 from sqlite_schema where name = 'sqlite_stat1'`).get() === undefined) return
  const own = `substr(tbl, 1, ${prefix.length}) = '${prefix}'`
  if (client.prepare(`select 1 from sqlite_stat1 where ${own} limit 1`).get() === undefined) return
  client.exec(`delete from sqlite_stat1 where ${own}`)
  // Reads the statistics again.
  client.exec('analyze sqlite_schema')
}
