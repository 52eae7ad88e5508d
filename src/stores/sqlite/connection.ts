import {
  describe,
  HapaxError,
  type Interrupt,
  pause,
  systemClock,
  Turn,
  transactionClosed,
  type WriterQueue,
} from '../../base/index.ts'
import type {
  Connection,
  EnteredExecutor,
  Executor,
  Result,
  Statement,
  TransactionEnd,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import { byTransaction, notInTransaction } from '../sql/index.ts'
import { type Database, openDatabase } from './database.ts'
import { isBusy } from './errors.ts'
import { SqliteTransaction, type SqliteTx } from './transaction.ts'

/** How long to wait for the turn to write, unless the caller says. */
const WAIT_MS = 60_000
const MAX_PAUSE_MS = 5

/** Transactions on one connection of its own to a file; one after another, also with other connections of this process. */
export class SqliteConnection implements Connection<SqliteTx> {
  readonly features = {
    name: 'sqlite',
    roundTrips: 0,
    lateUse: 'refused',
    unawaited: 'not detectable',
    pool: undefined,
  } as const
  readonly #path: string
  readonly #prefix: string
  #database: Database | undefined
  #opening: Promise<Database> | undefined
  #closed = false

  /** `prefix`: what the names of the tables of hapax begin with. */
  constructor(path: string, prefix: string) {
    this.#path = path
    this.#prefix = prefix
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<SqliteTx, T>): Promise<T> {
    const { signal, lockTimeoutMs = WAIT_MS } = options
    const patience = new Patience(lockTimeoutMs, signal)
    const database = this.#database ?? (await this.#open())
    // Awaiting only what has to be waited for: this is the path of every message.
    const taken = patience.turn(database.queue)
    const turn = taken instanceof Turn ? taken : await taken
    try {
      options.acquired?.()
      const begun = patience.until(() => database.begin())
      if (begun instanceof Promise) await begun
      return await turn.run(() => inTransaction(database, signal, work))
    } finally {
      if (database.stuck) this.#discard(database)
      turn.end()
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: SqliteTx): Executor {
    return this.#own(tx).executor
  }

  enter(tx: SqliteTx): EnteredExecutor {
    const { executor } = this.#own(tx)
    return { own: false, checks: true, query: (text, params) => executor.query(text, params), leave: () => {} }
  }

  /** What SQLite takes as one value or row, unless it was built otherwise. */
  mostBytes(): number {
    return 1_000_000_000
  }

  async query({ text, params }: Statement): Promise<Result> {
    const patience = new Patience(WAIT_MS)
    const database = this.#database ?? (await this.#open())
    const turn = await patience.turn(database.queue)
    try {
      return await patience.until(() => database.run(text, params))
    } finally {
      turn.end()
    }
  }

  /** Waits for the transaction that is running. */
  async close(): Promise<void> {
    const database = this.#database ?? (await this.#opening?.catch(() => undefined))
    const turn = await (database && new Patience(WAIT_MS).turn(database.queue))
    this.#closed = true
    if (database !== undefined) this.#discard(database)
    turn?.end()
  }

  #own(tx: SqliteTx): SqliteTransaction {
    if (!(tx instanceof SqliteTransaction)) throw notInTransaction(describe(tx))
    if (tx.closed) throw transactionClosed()
    if (tx.database !== this.#database) throw notInTransaction('a transaction of another store')
    return tx
  }

  #open(): Promise<Database> {
    if (this.#closed) throw new HapaxError('closed', 'this store has been closed')
    this.#opening ??= this.#openNow()
    return this.#opening
  }

  async #openNow(): Promise<Database> {
    try {
      this.#database = await new Patience(WAIT_MS).until(() => openDatabase(this.#path, this.#prefix))
      return this.#database
    } catch (error) {
      this.#opening = undefined
      throw error
    }
  }

  /** The next use opens the file anew. */
  #discard(database: Database): void {
    this.#database = undefined
    this.#opening = undefined
    database.close()
  }
}

/**
 * A wait with an end: the lock timeout, or the signal. Transactions of this process take turns in a queue; those of other processes
 * hold the lock of the file, and are tried again and again, because SQLite itself would block the event loop while it waits.
 */
class Patience {
  readonly #signal: Interrupt | undefined
  readonly #deadline: number

  constructor(waitMs: number, signal?: Interrupt) {
    this.#signal = signal
    this.#deadline = systemClock.monotonic() + waitMs
  }

  turn(queue: WriterQueue): Turn | Promise<Turn> {
    const taken = queue.take(this.#leftMs, this.#signal)
    return taken instanceof Turn ? taken : taken.then(inTime)
  }

  /** Does what may meet the lock of another process; while it does, again and again. */
  until<T>(action: () => T): T | Promise<T> {
    try {
      return action()
    } catch (error) {
      return this.#retry(action, error)
    }
  }

  /** The pauses leave the event loop free. */
  async #retry<T>(action: () => T, first: unknown): Promise<T> {
    let error = first
    for (let attempt = 1; isBusy(error); attempt++) {
      const leftMs = this.#leftMs
      if (leftMs === 0) throw busy(error)
      const pauseMs = Math.min(attempt, MAX_PAUSE_MS) * (0.5 + Math.random())
      await pause(systemClock, Math.min(pauseMs, leftMs), this.#signal)
      this.#signal?.throwIfAborted()
      try {
        return action()
      } catch (next) {
        error = next
      }
    }
    throw error
  }

  get #leftMs(): number {
    return Math.max(0, this.#deadline - systemClock.monotonic())
  }
}

function inTime(turn: Turn | undefined): Turn {
  if (turn === undefined) throw busy()
  return turn
}

function busy(cause?: unknown): HapaxError {
  return new HapaxError('busy', 'another transaction held the write lock for too long', { cause })
}

/** Runs the steps; an abort rolls back at once and does not wait for them. */
function inTransaction<T>(
  database: Database,
  signal: Interrupt | undefined,
  work: TransactionWork<SqliteTx, T>,
): Promise<T> {
  const run = new Run(database)
  if (signal === undefined) return run.steps(work)
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      run.end(() => database.rollback())
      reject(signal.reason)
    }
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    const settled = (): void => signal.removeEventListener('abort', abort)
    run.steps(work).then(
      (value) => {
        settled()
        resolve(value)
      },
      (error: unknown) => {
        settled()
        reject(error)
      },
    )
  })
}

/** One transaction, which ends once: by its steps or by an abort. */
class Run {
  readonly #database: Database
  readonly #tx: SqliteTransaction
  #over = false

  constructor(database: Database) {
    this.#database = database
    this.#tx = new SqliteTransaction(database)
  }

  async steps<T>(work: TransactionWork<SqliteTx, T>): Promise<T> {
    const database = this.#database
    try {
      const answers = work.first.map(({ text, params }) => database.run(text, params))
      return this.#finish(await work.body(this.#tx, answers))
    } catch (error) {
      this.end(() => database.rollback())
      // What doomed it comes before what it threw.
      this.#tx.assertNotDoomed()
      throw error
    }
  }

  #finish<T>({ value, last, committed }: TransactionEnd<T>): T {
    const database = this.#database
    this.#tx.close()
    this.#tx.assertSound()
    let written: readonly Result[] | undefined
    this.end(() => {
      if (last === undefined) database.rollback()
      else written = database.commit(last)
    })
    if (written !== undefined) committed?.(written)
    return value
  }

  /** Only the first call counts: an abort and the last step may meet. After it the connection serves the next transaction. */
  end(how: () => void): void {
    if (this.#over) return
    how()
    this.#over = true
    this.#tx.close()
  }
}
