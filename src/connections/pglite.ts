// Lets a PostgreSQL store work on PGlite, which is PostgreSQL in the process with a single connection. PGlite begins, commits and rolls
// back, and keeps everybody else waiting meanwhile; hapax adds turns with deadlines, and refuses what would wait for itself.

import {
  describe,
  expected,
  fieldOf,
  HapaxError,
  type Interrupt,
  isolationOption,
  systemClock,
  Turn,
  transactionClosed,
  WriterQueue,
} from '../base/index.ts'
import type {
  Connection,
  EnteredExecutor,
  Executor,
  Param,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../contracts/index.ts'
import {
  beforeCommit,
  byTransaction,
  doomed,
  NotSent,
  notInTransaction,
  TransactionWatch,
  untilAborted,
} from '../stores/sql/index.ts'

/** A result of PGlite, and `rowCount` as `pg` has it. */
export interface PgliteResult<Row> {
  rows: Row[]
  /** Rows returned or changed. */
  rowCount: number
  affectedRows?: number
  fields: { name: string; dataTypeID: number }[]
}

/** The subset of a PGlite database that hapax needs; `Tx` is its own type of transactions. */
export interface PgliteDatabase<Tx> {
  query(text: string, params?: never[], options?: never): Promise<{ rows: unknown[] }>
  exec(text: string): Promise<{ rows: unknown[] }[]>
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * PGlite's own transaction as handlers receive it. `query` and `client` are also what `ctx.tx` of a store on `pg` has, so that handlers
 * written for `pg` run on PGlite. It is dead once the transaction has settled.
 */
export type PgliteTx<Tx> = Omit<Tx, 'query'> & {
  query<Row = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
    options?: object,
  ): Promise<PgliteResult<Row>>
  /** For libraries that want a client of `pg`: only `query` does anything. */
  readonly client: PgliteClient
}

/** What stands for a client of `pg` in a transaction of PGlite. */
export interface PgliteClient {
  query(text: string, params?: readonly unknown[]): Promise<PgliteResult<Record<string, unknown>>>
  release(): void
  on(event: string, listener: (error: Error) => void): unknown
  off(event: string, listener: (error: Error) => void): unknown
}

/**
 * Lets a store work on PGlite: `postgres(fromPglite(db))`. `ctx.tx` is PGlite's own transaction, and `publish` takes those that you
 * open with `db.transaction`. There is one connection: inside a handler, `db.query` would wait for the handler's own transaction, until
 * its deadline.
 */
export function fromPglite<Tx extends object>(db: PgliteDatabase<Tx>): Connection<PgliteTx<Tx>, Tx> {
  if (!isDatabase(db)) expected('db', 'a PGlite database', db)
  return new PgliteConnection(db)
}

// What hapax calls, as it calls it. The interfaces above leave the types of parameters open, so that they fit every version of PGlite.

interface Answer {
  readonly rows: Record<string, unknown>[]
  readonly affectedRows?: number
  readonly fields: { name: string; dataTypeID: number }[]
}

interface Queryable {
  query(text: string, params?: readonly unknown[], options?: object): Promise<Answer>
  exec(text: string): Promise<Answer[]>
}

interface Database<Tx> extends Queryable {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

interface Transaction extends Queryable {
  readonly closed: boolean
}

function isDatabase<Tx>(db: PgliteDatabase<Tx>): db is PgliteDatabase<Tx> & Database<Tx> {
  return has(db, ['query', 'exec', 'transaction'])
}

/** The database itself has no `rollback`. */
function isTransaction(tx: unknown): tx is Transaction {
  return has(tx, ['query', 'exec', 'rollback']) && typeof fieldOf(tx, 'closed') === 'boolean'
}

function has(value: unknown, methods: readonly string[]): boolean {
  return methods.every((method) => typeof fieldOf(value, method) === 'function')
}

/** How long to wait for the turn, unless the caller says. */
const WAIT_MS = 60_000

/** Stores on the same database share its turns. */
const queues = new WeakMap<object, WriterQueue>()

function queueOf(db: object): WriterQueue {
  const queue = queues.get(db) ?? new WriterQueue()
  queues.set(db, queue)
  return queue
}

/** Whether the code that asks is inside a transaction of hapax's on this database. */
export function isInTransaction(db: object): boolean {
  return queueOf(db).inside
}

class PgliteConnection<Tx extends object> implements Connection<PgliteTx<Tx>, Tx> {
  readonly features = {
    name: 'postgres (pglite)',
    roundTrips: 0,
    lateUse: 'refused',
    unawaited: 'detected',
    ownTransactions: true,
    oneWriter: true,
    pool: undefined,
  } as const
  readonly #db: Database<Tx>
  readonly #queue: WriterQueue

  constructor(db: Database<Tx>) {
    this.#db = db
    this.#queue = queueOf(db)
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<PgliteTx<Tx>, T>): Promise<T> {
    const { signal, lockTimeoutMs = WAIT_MS } = options
    const deadline = systemClock.monotonic() + lockTimeoutMs
    const turn = await this.#turn(lockTimeoutMs, signal)
    const run = new Run<Tx>(options)
    const leftMs = Math.max(0, deadline - systemClock.monotonic())
    // The next one may ask for its turn before this one is rolled back: PGlite lets it wait.
    const abort = (): unknown => {
      turn.end()
      return run.abort(signal?.reason)
    }
    try {
      return await turn.run(() => untilAborted(signal, () => run.during(this.#db, leftMs, work), abort))
    } finally {
      turn.end()
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: PgliteTx<Tx>): Executor {
    const { raw } = ownOf(tx) ?? notOurs(tx)
    return { query: (text, params) => answered(raw, text, params) }
  }

  enter(tx: PgliteTx<Tx> | Tx): EnteredExecutor {
    const own = ownOf(tx)
    const raw = own?.raw ?? tx
    if (own?.watch.closed) throw transactionClosed()
    if (!isTransaction(raw)) throw notInTransaction(describe(tx))
    if (raw.closed) throw notInTransaction('one that has ended')
    const query: Executor['query'] = async (text, params) => {
      if (own?.watch.closed) throw transactionClosed()
      if (raw.closed) throw notInTransaction('one that has ended')
      return answered(raw, text, params)
    }
    return { own: own === undefined, checks: own !== undefined, query, leave: () => {} }
  }

  assertAwaited(tx: PgliteTx<Tx>): void {
    ownOf(tx)?.watch.assertSound()
  }

  /** Bytes travel as two hexadecimal digits each, into a memory of 32 bits. */
  mostBytes(): number {
    return 2 ** 26
  }

  async query({ text, params }: Statement): Promise<Result> {
    const turn = await this.#turn(WAIT_MS)
    try {
      return await answered(this.#db, text, params)
    } finally {
      turn.end()
    }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #turn(waitMs: number, signal?: Interrupt): Promise<Turn> {
    const taken = this.#queue.take(waitMs, signal)
    const turn = taken instanceof Turn ? taken : await taken
    if (turn === undefined) throw busy()
    return turn
  }
}

/** One transaction of hapax's. */
class Run<Tx extends object> {
  readonly #options: TransactionOptions
  readonly #watch: TransactionWatch
  #stage: 'waiting' | 'body' | 'ending' | 'committing' = 'waiting'
  /** Nobody waits for it any more: whatever goes on may not commit. */
  #over = false
  #committed: () => void = () => {}
  /** The first error, which a failing ROLLBACK would hide. */
  #failure: { readonly error: unknown } | undefined

  constructor(options: TransactionOptions) {
    this.#options = options
    this.#watch = new TransactionWatch(options.doomOf, () => false)
  }

  async during<T>(db: Database<Tx>, waitMs: number, work: TransactionWork<PgliteTx<Tx>, T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    // A transaction that the user has opened may be in the way.
    const cancel = systemClock.after(waitMs, () => {
      this.#over = true
      late.reject(busy())
    })
    const running = db.transaction((tx) => {
      cancel()
      return this.#watched(tx, work)
    })
    try {
      const value = await Promise.race([running, late.promise])
      this.#committed()
      return value
    } catch (error) {
      const first = this.#failure === undefined ? error : this.#failure.error
      if (first instanceof RolledBack) return first.value
      throw first
    } finally {
      cancel()
    }
  }

  /** Ends it without waiting for its body: PGlite rolls back as soon as the statement that runs has ended. */
  abort(reason: unknown): NotSent | undefined {
    this.#over = true
    this.#watch.close()
    return this.#stage === 'ending' ? new NotSent(doomed('lost', reason)) : undefined
  }

  async #watched<T>(tx: Tx, work: TransactionWork<PgliteTx<Tx>, T>): Promise<T> {
    try {
      return await this.#steps(tx, work)
    } catch (error) {
      this.#failure = { error }
      throw error
    } finally {
      this.#watch.close()
    }
  }

  async #steps<T>(tx: Tx, work: TransactionWork<PgliteTx<Tx>, T>): Promise<T> {
    this.#assertWanted()
    if (!isTransaction(tx)) throw notInTransaction(describe(tx))
    this.#options.acquired?.()
    const isolation = isolationOption(this.#options.isolation)
    if (isolation !== undefined) await tx.exec(`set transaction isolation level ${isolation}`)
    const answers = await all(tx, work.first)
    this.#stage = 'body'
    const { value, last, committed } = await this.#body(tx, answers, work)
    this.#stage = 'ending'
    // PGlite commits unless the callback throws.
    if (last === undefined) throw new RolledBack(value)
    const written = await beforeCommit(() => all(tx, last))
    this.#assertWanted()
    this.#committed = () => committed?.(written)
    this.#stage = 'committing'
    return value
  }

  #body<T>(
    tx: Tx & Transaction,
    answers: readonly Result[],
    work: TransactionWork<PgliteTx<Tx>, T>,
  ): ReturnType<TransactionWork<PgliteTx<Tx>, T>['body']> {
    const body = (): ReturnType<typeof work.body> => work.body(handle(tx, this.#watch), answers)
    return untilAborted(
      this.#options.signal,
      () => this.#watch.during(body),
      () => {},
    )
  }

  #assertWanted(): void {
    if (this.#over) throw new NotSent(transactionClosed())
  }
}

/** What hapax knows of the transactions that it has handed out. */
interface Own {
  readonly raw: Transaction
  readonly watch: TransactionWatch
}

const owns = new WeakMap<object, Own>()

function ownOf(tx: unknown): Own | undefined {
  return typeof tx === 'object' && tx !== null ? owns.get(tx) : undefined
}

function notOurs(tx: unknown): never {
  throw notInTransaction(describe(tx))
}

/** The transaction as a handler has it: what it sends is watched, and it is dead once it has settled. */
function handle<Tx extends object>(raw: Tx & Transaction, watch: TransactionWatch): PgliteTx<Tx> {
  const query = async (text: string, params?: readonly unknown[], options?: object) => {
    watch.assertOpen()
    return counted(await watch.track(raw.query(text, params, options)))
  }
  const nothing = (): void => {}
  const client: PgliteClient = { query, release: nothing, on: nothing, off: nothing }
  // By a statement, so that PGlite goes on and the guard sees it.
  const rollback = async (): Promise<void> => {
    watch.assertOpen()
    await watch.track(raw.exec('rollback'))
  }
  const replaced: Readonly<Record<PropertyKey, unknown>> = { query, client, rollback }
  const guarded = watch.guard(raw, () => watch.assertOpen())
  const tx = new Proxy(guarded, {
    get: (target, name) => {
      if (name === 'closed') return watch.closed
      watch.assertOpen()
      return Object.hasOwn(replaced, name) ? replaced[name] : Reflect.get(target, name)
    },
  })
  owns.set(tx, { raw, watch })
  // A proxy has the type of what is behind it.
  return tx as unknown as PgliteTx<Tx>
}

async function all(tx: Queryable, statements: readonly Statement[]): Promise<readonly Result[]> {
  const answers: Result[] = []
  for (const { text, params } of statements) answers.push(await answered(tx, text, params))
  return answers
}

/** Without values a text may hold several statements. */
async function answered(target: Queryable, text: string, params: readonly Param[]): Promise<Result> {
  if (params.length > 0) return toResult(await target.query(text, params, AS_TEXT))
  const answers = await target.exec(text)
  const [before, last] = answers.slice(-2)
  // PGlite adds up the rows of all statements.
  if (last !== undefined) return toResult(last, before?.affectedRows)
  return before === undefined ? { rows: [], affected: 0 } : toResult(before)
}

/** Booleans of hapax's statements are texts, which PGlite would refuse. */
const AS_TEXT = { serializers: { 16: String } }

function toResult(answer: Answer, before = 0): Result {
  return { rows: answer.rows, affected: countOf(answer, before) }
}

function counted(answer: Answer): PgliteResult<Record<string, unknown>> {
  return { ...answer, rowCount: countOf(answer) }
}

/** PGlite counts no rows that were only read. */
function countOf({ rows, fields, affectedRows = 0 }: Answer, before = 0): number {
  return fields.length > 0 ? rows.length : affectedRows - before
}

/** Makes PGlite roll back without an error. */
class RolledBack<T> {
  readonly value: T

  constructor(value: T) {
    this.value = value
  }
}

function busy(): HapaxError {
  return new HapaxError('busy', 'another transaction held the only connection of PGlite for too long')
}
