import { type Interrupt, storeClosed, Turn, transactionClosed } from '../../../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  DoomOf,
  EnteredExecutor,
  Executor,
  Reach,
  Result,
  Statement,
  TransactionEnd,
  TransactionOptions,
  TransactionWork,
} from '../../../../contracts/index.ts'
import { byTransaction, notInTransaction } from '../driver.ts'
import type { SyncClient, SyncDatabase } from './sync-database.ts'
import type { SyncTransaction } from './sync-transaction.ts'
import { Patience } from './turns.ts'

/** What differs between synchronous drivers of SQLite. */
export interface SyncDriver<Tx, Client extends SyncClient = SyncClient> {
  readonly name: string
  /** Opens the file with the settings that the promises of hapax rest on. Fails with SQLITE_BUSY while others are opening it. */
  open(): SyncDatabase<Client>
  /** A transaction that has begun. */
  begun(database: SyncDatabase<Client>, doomOf: DoomOf): SyncTransaction<Tx>
  /** The transaction of hapax's that a handler has; undefined: it is something else. */
  of(tx: unknown): SyncTransaction<Tx> | undefined
  /** What something is that is no transaction of hapax's. */
  describe(tx: unknown): string
}

/**
 * Transactions on one connection of its own to a file; one after another, also with other connections of this process. It never uses what
 * a driver has for transactions: those call their function synchronously, roll back when it returns a promise, and let its body go on.
 */
export class SyncConnection<Tx, Client extends SyncClient = SyncClient> implements Connection<Tx> {
  readonly features: ConnectionFeatures
  readonly #driver: SyncDriver<Tx, Client>
  #database: SyncDatabase<Client> | undefined
  #opening: Promise<SyncDatabase<Client>> | undefined
  #closed = false

  constructor(driver: SyncDriver<Tx, Client>) {
    this.#driver = driver
    this.features = {
      name: driver.name,
      roundTrips: 0,
      lateUse: 'refused',
      unawaited: 'not detectable',
      ownTransactions: false,
      pool: undefined,
    }
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    const { signal, lockTimeoutMs, doomOf } = options
    const patience = new Patience(lockTimeoutMs, signal)
    const database = this.#database ?? (await this.#open())
    database.file?.assertThere()
    // Awaiting only what has to be waited for: this is the path of every message.
    const taken = patience.turn(database.queue)
    const turn = taken instanceof Turn ? taken : await taken
    try {
      options.acquired?.()
      const begun = patience.until(() => database.begin())
      if (begun instanceof Promise) await begun
      return await turn.run(() => inTransaction(this.#driver.begun(database, doomOf), signal, work))
    } finally {
      if (database.stuck) this.#discard(database)
      turn.end()
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: Tx): Executor {
    return this.#own(tx).executor
  }

  enter(tx: Tx): EnteredExecutor {
    const { executor } = this.#own(tx)
    return { own: false, checks: true, query: (text, params) => executor.query(text, params), leave: () => {} }
  }

  mayHaveEnded(tx: Tx): boolean | undefined {
    return typeof tx === 'object' && tx !== null ? cutOff.get(tx) : undefined
  }

  reach(tx: Tx): Reach {
    return this.#driver.of(tx)?.reaching?.take() ?? 'unseen'
  }

  /** What SQLite takes as one value or row, unless it was built otherwise. */
  mostBytes(): number {
    return 1_000_000_000
  }

  async query({ text, params }: Statement): Promise<Result> {
    const patience = new Patience()
    const database = this.#database ?? (await this.#open())
    database.file?.assertThere()
    // Handlers may be long, and many of them may wait: heartbeats, looks and pauses must come through.
    const turn = await patience.turn(database.queue, true)
    try {
      return await patience.until(() => database.run(text, params))
    } finally {
      turn.end()
    }
  }

  /** Waits for the transaction that is running. */
  async close(): Promise<void> {
    const database = this.#database ?? (await this.#opening?.catch(() => undefined))
    const turn = await (database && new Patience().turn(database.queue))
    this.#closed = true
    if (database !== undefined) this.#discard(database)
    turn?.end()
  }

  #own(tx: Tx): SyncTransaction<Tx> {
    const own = this.#driver.of(tx)
    if (own === undefined) throw notInTransaction(this.#driver.describe(tx))
    if (own.closed) throw transactionClosed()
    if (own.database !== this.#database) throw notInTransaction('a transaction of another store')
    return own
  }

  #open(): Promise<SyncDatabase<Client>> {
    if (this.#closed) throw storeClosed()
    this.#opening ??= this.#openNow()
    return this.#opening
  }

  async #openNow(): Promise<SyncDatabase<Client>> {
    try {
      this.#database = await new Patience().until(() => this.#driver.open())
      return this.#database
    } catch (error) {
      this.#opening = undefined
      throw error
    }
  }

  /** The next use opens the file anew. */
  #discard(database: SyncDatabase<Client>): void {
    this.#database = undefined
    this.#opening = undefined
    database.close()
  }
}

/** Whether handlers that were cut off had ended their transactions; by handle, because a closed handle of an ORM leads nowhere. */
const cutOff = new WeakMap<object, boolean>()

/** Runs the steps; an abort rolls back at once and does not wait for them. */
function inTransaction<Tx, T>(
  transaction: SyncTransaction<Tx>,
  signal: Interrupt | undefined,
  work: TransactionWork<Tx, T>,
): Promise<T> {
  const run = new Run(transaction)
  if (signal === undefined) return run.steps(work)
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      const { tx } = transaction
      if (typeof tx === 'object' && tx !== null) cutOff.set(tx, transaction.hasEnded())
      run.rollBack()
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
class Run<Tx> {
  readonly #transaction: SyncTransaction<Tx>
  #over = false

  constructor(transaction: SyncTransaction<Tx>) {
    this.#transaction = transaction
  }

  async steps<T>(work: TransactionWork<Tx, T>): Promise<T> {
    const transaction = this.#transaction
    try {
      const answers = work.first.map(({ text, params }) => transaction.database.run(text, params))
      return this.#finish(await work.body(transaction.tx, answers))
    } catch (error) {
      this.rollBack()
      // What doomed it comes before what it threw.
      transaction.assertNotDoomed()
      throw error
    }
  }

  rollBack(): void {
    this.#end(() => this.#transaction.database.rollback())
  }

  #finish<T>({ value, last, committed }: TransactionEnd<T>): T {
    const { database } = this.#transaction
    this.#transaction.close()
    this.#transaction.assertSound()
    let written: readonly Result[] | undefined
    this.#end(() => {
      if (last === undefined) database.rollback()
      else written = database.commit(last)
    })
    if (written !== undefined) committed?.(written)
    return value
  }

  /** Only the first call counts: an abort and the last step may meet. After it the connection serves the next transaction. */
  #end(how: () => void): void {
    if (this.#over) return
    how()
    this.#over = true
    this.#transaction.close()
  }
}
