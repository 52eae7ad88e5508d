import type { WriterQueue } from '../../../../base/index.ts'
import type { Result, Row, Statement } from '../../../../contracts/index.ts'
import type { OpenedFile } from './file.ts'
import { type Places, placed, withoutNumbers } from './placeholders.ts'

/** A connection of a driver whose statements are over when they return: `node:sqlite`, better-sqlite3. */
export interface SyncClient {
  readonly inTransaction: boolean
  readonly isOpen: boolean
  /** Compiles one statement, whose parameters have no numbers. */
  prepare(text: string): SyncStatement
  close(): void
}

/** A compiled statement. */
export interface SyncStatement {
  readonly hasRows: boolean
  all(values: readonly unknown[]): readonly Row[]
  /** Returns how many rows have changed; what it says of a statement that is no write does not matter. */
  run(values: readonly unknown[]): number
}

/** A compiled statement, and how to run it. */
interface Prepared {
  readonly statement: SyncStatement
  readonly places: Places | undefined
  readonly isWrite: boolean
}

const NO_ROWS: readonly Row[] = Object.freeze([])
/** Prepared statements of one generation. */
const GENERATION = 100

/** Milliseconds that SQLite itself may wait for a lock. It blocks the event loop meanwhile, so longer waits are ours. */
export const BUSY_TIMEOUT_MS = 1

/** One open connection to a database file. */
export class SyncDatabase<Client extends SyncClient = SyncClient> {
  readonly client: Client
  readonly queue: WriterQueue
  /** Undefined for a database in memory. */
  readonly file: OpenedFile | undefined
  // Two generations: statements that were not used during a whole generation are dropped.
  #young = new Map<string, Prepared>()
  #old = new Map<string, Prepared>()
  readonly #begin: SyncStatement
  readonly #commit: SyncStatement
  readonly #rollback: SyncStatement

  constructor(client: Client, queue: WriterQueue, file: OpenedFile | undefined) {
    this.client = client
    this.queue = queue
    this.file = file
    this.#begin = client.prepare('begin immediate')
    this.#commit = client.prepare('commit')
    this.#rollback = client.prepare('rollback')
  }

  run(text: string, params: readonly unknown[]): Result {
    const { statement, places, isWrite } = this.#young.get(text) ?? this.#prepared(text)
    const values = places === undefined ? params : placed(places, params)
    if (values.length > 0) refuseNames(values[0])
    if (statement.hasRows) {
      const rows = statement.all(values)
      return { rows, affected: rows.length }
    }
    const changes = statement.run(values)
    return { rows: NO_ROWS, affected: isWrite ? changes : 0 }
  }

  begin(): void {
    this.#begin.run([])
  }

  commit(last: readonly Statement[]): readonly Result[] {
    const answers = last.map(({ text, params }) => this.run(text, params))
    this.#commit.run([])
    return answers
  }

  /** Undoes the open transaction, if SQLite or the handler has not ended it already. */
  rollback(): void {
    try {
      if (this.client.inTransaction) this.#rollback.run([])
    } catch {
      // `stuck` tells.
    }
  }

  /** Whether the open transaction has this savepoint; if so, later changes are rolled back. */
  holds(savepoint: string): boolean {
    try {
      this.client.prepare(`rollback to savepoint ${savepoint}`).run([])
      return this.client.inTransaction
    } catch {
      return false
    }
  }

  /** Whether a transaction is still open that could not even be rolled back. */
  get stuck(): boolean {
    return this.client.isOpen && this.client.inTransaction
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

function prepare(client: SyncClient, written: string): Prepared {
  const { text, places } = withoutNumbers(written)
  return {
    statement: client.prepare(text),
    places,
    // SQLite repeats the last count for statements that are no writes.
    isWrite: /^\s*(insert|update|delete|replace|with)\b/i.test(text),
  }
}

/** Drivers take an object in front for named parameters: a Date there would move all others by one place. */
function refuseNames(first: unknown): void {
  if (typeof first === 'object' && first !== null && !ArrayBuffer.isView(first)) {
    throw new TypeError('expected params to be texts, numbers, bigints, bytes or null')
  }
}
