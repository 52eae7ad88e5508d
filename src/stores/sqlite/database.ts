import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { expected, WriterQueue } from '../../base/index.ts'
import type { Result, Row, Statement } from '../../contracts/index.ts'
import { prepareFile, queueOf } from './file.ts'
import { nodeSqlite } from './node-sqlite.ts'
import { type Places, placed, withoutNumbers } from './placeholders.ts'

/** A prepared statement, and how to run it. */
interface Prepared {
  readonly statement: StatementSync
  readonly places: Places | undefined
  readonly hasRows: boolean
  readonly isWrite: boolean
}

const NO_ROWS: readonly Row[] = Object.freeze([])
/** Prepared statements of one generation. */
const GENERATION = 100

/** Milliseconds that SQLite itself may wait for a lock. It blocks the event loop meanwhile, so longer waits are ours. */
const BUSY_TIMEOUT_MS = 1

/** One open connection to a database file. */
export class Database {
  readonly client: DatabaseSync
  readonly queue: WriterQueue
  // Two generations: statements that were not used during a whole generation are dropped.
  #young = new Map<string, Prepared>()
  #old = new Map<string, Prepared>()
  readonly #begin: StatementSync
  readonly #commit: StatementSync
  readonly #rollback: StatementSync

  constructor(client: DatabaseSync, queue: WriterQueue) {
    this.client = client
    this.queue = queue
    this.#begin = client.prepare('begin immediate')
    this.#commit = client.prepare('commit')
    this.#rollback = client.prepare('rollback')
  }

  run(text: string, params: readonly unknown[]): Result {
    const { statement, places, hasRows, isWrite } = this.#young.get(text) ?? this.#prepared(text)
    const values = (places === undefined ? params : placed(places, params)) as SQLInputValue[]
    if (values.length > 0) refuseNames(values[0])
    if (hasRows) {
      const rows = statement.all(...values)
      return { rows, affected: rows.length }
    }
    const { changes } = statement.run(...values)
    return { rows: NO_ROWS, affected: isWrite ? Number(changes) : 0 }
  }

  begin(): void {
    this.#begin.run()
  }

  commit(last: readonly Statement[]): readonly Result[] {
    const answers = last.map(({ text, params }) => this.run(text, params))
    this.#commit.run()
    return answers
  }

  /** Undoes the open transaction, if SQLite or the handler has not ended it already. */
  rollback(): void {
    try {
      if (this.client.isTransaction) this.#rollback.run()
    } catch {
      // `stuck` tells.
    }
  }

  /** Whether a transaction is still open that could not even be rolled back. */
  get stuck(): boolean {
    return this.client.isOpen && this.client.isTransaction
  }

  close(): void {
    if (this.client.isOpen) this.client.close()
  }

  #prepared(text: string): Prepared {
    const prepared = this.#old.get(text) ?? prepare(this.client, text)
    if (this.#young.size >= GENERATION) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(text, prepared)
    return prepared
  }
}

/** Opens a file with the settings that the promises of hapax rest on. Fails with SQLITE_BUSY while others are opening it. */
export function openDatabase(path: string, prefix: string): Database {
  const inMemory = path === ':memory:'
  if (!inMemory) prepareFile(path)
  const client = new nodeSqlite.DatabaseSync(path)
  try {
    client.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
    const mode = client.prepare('pragma journal_mode = wal').get()?.['journal_mode']
    if (mode !== (inMemory ? 'memory' : 'wal')) expected('path', 'on a disk where SQLite can use WAL', path)
    client.exec('pragma synchronous = full')
    forgetStatistics(client, prefix)
    return new Database(client, inMemory ? new WriterQueue() : queueOf(path))
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

function prepare(client: DatabaseSync, written: string): Prepared {
  const { text, places } = withoutNumbers(written)
  const statement = client.prepare(text)
  // SQLite compiles the first statement and would ignore the others without a word.
  if (/\S/.test(text.slice(statement.sourceSQL.length))) {
    throw new TypeError('expected one SQL statement, got several: use client.exec() for a script')
  }
  return {
    statement,
    places,
    hasRows: statement.columns().length > 0,
    // SQLite repeats the last count for statements that are no writes.
    isWrite: /^\s*(insert|update|delete|replace|with)\b/i.test(text),
  }
}

/** The driver takes an object in front for named parameters: a Date there would move all others by one place. */
function refuseNames(first: unknown): void {
  if (typeof first === 'object' && first !== null && !ArrayBuffer.isView(first)) {
    throw new TypeError('expected params to be texts, numbers, bigints, bytes or null')
  }
}
