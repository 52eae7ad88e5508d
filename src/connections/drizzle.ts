// Lets a PostgreSQL store work through Drizzle on node-postgres. Drizzle begins, commits and rolls back; hapax adds what Drizzle does
// not do: deadlines, statements that share a round trip, and clients that are destroyed when they cannot be trusted any more.

import {
  describe,
  expected,
  fieldOf,
  HapaxError,
  heard,
  heardPool,
  isHapaxError,
  isolationOption,
  pause,
  systemClock,
  transactionClosed,
} from '../base/index.ts'
import type {
  Connection,
  EnteredExecutor,
  Executor,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../contracts/index.ts'
import {
  beforeCommit,
  byTransaction,
  Changed,
  cutOff,
  destroy,
  doomed,
  hasOtherRole,
  isAsBefore,
  isBusy,
  isHarmless,
  leftOpen,
  NotSent,
  notInTransaction,
  SESSION,
  untilAborted,
} from '../stores/sql/index.ts'

/** The subset of Drizzle's `sql` that hapax needs. */
export interface DrizzleSql {
  raw(text: string): unknown
  param(value: unknown): unknown
  join(chunks: never[]): unknown
}

/** The subset of a Drizzle database on node-postgres; `Tx` is its own type of transactions. */
export interface DrizzleDatabase<Tx> {
  execute(query: never): PromiseLike<unknown>
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: never): Promise<T>
}

/**
 * Lets a store work through Drizzle: `postgres(fromDrizzle(db, sql))`, with `db` from `drizzle-orm/node-postgres` and
 * `sql` from `drizzle-orm`. `ctx.tx` and `publish` then take Drizzle's own transactions.
 */
export function fromDrizzle<Tx extends object>(db: DrizzleDatabase<Tx>, sql: DrizzleSql): Connection<Tx> {
  if (!isDatabase(db)) expected('db', 'a Drizzle database', db)
  if (!isSql(sql)) expected('sql', `the sql of 'drizzle-orm'`, sql)
  const pool = fieldOf(db, '$client')
  if (!isPool(pool)) expected('db', 'a Drizzle database on a Pool of pg, not on a single client', pool)
  if (isEmitter(pool)) listenTo(pool)
  return new DrizzleConnection(db, sql)
}

// What hapax calls, as it calls it. The interfaces above leave the types of parameters open, so that they fit every version of Drizzle.

interface Sql {
  raw(text: string): object
  param(value: unknown): object
  join(chunks: object[]): object
}

interface Queryable {
  execute(query: object): PromiseLike<unknown>
}

interface Database<Tx> extends Queryable {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: { isolationLevel: string }): Promise<T>
}

/** The pool under a Drizzle database. */
interface Emitter {
  on(event: 'error', listener: () => void): unknown
}

function isSql(sql: DrizzleSql): sql is DrizzleSql & Sql {
  return has(sql, ['raw', 'param', 'join'])
}

function isDatabase<Tx>(db: DrizzleDatabase<Tx>): db is DrizzleDatabase<Tx> & Database<Tx> {
  return has(db, ['transaction', 'execute'])
}

function isQueryable(tx: unknown): tx is Queryable {
  return has(tx, ['execute'])
}

function isEmitter(pool: unknown): pool is Emitter {
  return has(pool, ['on'])
}

function has(value: unknown, methods: readonly string[]): boolean {
  return methods.every((method) => typeof fieldOf(value, method) === 'function')
}

/** The transaction as hapax uses it, or `not-in-transaction`. */
function queryable(tx: unknown): Queryable {
  if (!isQueryable(tx)) throw notInTransaction(describe(tx))
  return tx
}

/**
 * Whether Drizzle takes a client of its own for every transaction, by the same test as in Drizzle. On a single client, two concurrent
 * transactions would be one.
 */
function isPool(client: unknown): boolean {
  for (let each = client; typeof each === 'object' && each !== null; each = Object.getPrototypeOf(each)) {
    if (/Pool/.test(each.constructor?.name)) return true
  }
  return false
}

/**
 * Keeps a broken connection from ending the process: while it is in use, its client emits the error; while it is idle, the pool
 * does.
 */
function listenTo(pool: Emitter): void {
  heardPool(heard(pool))
}

class DrizzleConnection<Tx extends object> implements Connection<Tx> {
  readonly features = {
    name: 'postgres (drizzle)',
    roundTrips: 6,
    lateUse: 'partly refused',
    unawaited: 'detected',
    pool: undefined,
  } as const
  readonly #db: Database<Tx>
  readonly #sql: Sql
  readonly #handles = new WeakMap<object, Handle<Tx>>()

  constructor(db: Database<Tx>, sql: Sql) {
    this.#db = db
    this.#sql = sql
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    const { signal } = options
    const isolationLevel = isolationOption(options.isolation)
    const config = isolationLevel && { isolationLevel }
    const run = new Run(options)
    const steps = (tx: Tx): Promise<T> => run.watch(tx, () => this.#steps(tx, run, options, work))
    const running = (): Promise<T> => this.#db.transaction(steps, config)
    try {
      const value = await untilAborted(signal, running, () => run.abort(signal?.reason))
      run.committed()
      return value
    } catch (error) {
      // Drizzle's ROLLBACK fails on a client that was destroyed, and would hide what came before.
      const first = run.failure === undefined ? error : run.failure.error
      if (first instanceof RolledBack) return first.value
      if (first instanceof Changed) return this.transaction(options, work)
      throw first
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: Tx): Executor {
    const raw = queryable(this.#handles.get(tx)?.raw ?? tx)
    return { query: (text, params) => this.#run(raw, { text, params }) }
  }

  enter(tx: Tx): EnteredExecutor {
    const handle = this.#handles.get(tx)
    if (handle?.closed) throw transactionClosed()
    const raw = queryable(handle?.raw ?? tx)
    const query: Executor['query'] = async (text, params) => {
      if (handle?.closed) throw transactionClosed()
      return this.#run(raw, { text, params })
    }
    return { own: handle === undefined, checks: false, query, leave: () => {} }
  }

  assertAwaited(tx: Tx): void {
    const client = fieldOf(fieldOf(this.#handles.get(tx)?.raw ?? tx, 'session'), 'client')
    if (typeof client === 'object' && client !== null && isBusy(client)) throw leftOpen()
  }

  /** Bytes travel as two hexadecimal digits each, and a JavaScript string holds half a gigabyte at most. */
  mostBytes(): number {
    return 2 ** 28 - 2 ** 16
  }

  query(statement: Statement): Promise<Result> {
    return this.#run(this.#db, statement)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #steps<T>(tx: Tx, run: Run, options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    // The wait for a connection may have outlived the deadline.
    options.signal?.throwIfAborted()
    options.acquired?.()
    const raw = queryable(tx)
    const [session, ...answers] = await this.#runAll(raw, [SESSION, ...work.first])
    run.assertUnchanged(session)
    run.stage = 'body'
    const { value, last, committed } = await this.#body(tx, answers, options, work)
    run.assertFree()
    run.stage = 'ending'
    // Drizzle commits unless the callback throws.
    if (last === undefined) throw new RolledBack(value)
    const written = await beforeCommit(() => this.#runAll(raw, last))
    run.committed = () => committed?.(written)
    run.stage = 'committing'
    return value
  }

  async #body<T>(
    tx: Tx,
    answers: readonly Result[],
    { signal, doomOf }: TransactionOptions,
    work: TransactionWork<Tx, T>,
  ): ReturnType<TransactionWork<Tx, T>['body']> {
    const handle = new Handle(tx)
    this.#handles.set(handle.proxy, handle)
    try {
      return await untilAborted(
        signal,
        () => work.body(handle.proxy, answers),
        () => {},
      )
    } catch (error) {
      const kind = isQueryError(error) ? doomOf(error) : undefined
      throw kind === undefined ? error : doomed(kind, error)
    } finally {
      handle.closed = true
    }
  }

  /** Runs statements in order. Adjacent statements without parameters share a round trip. */
  async #runAll(tx: Queryable, statements: readonly Statement[]): Promise<readonly Result[]> {
    const answers: Result[] = []
    for (const batch of batches(statements)) {
      const [first, second] = batch
      if (first !== undefined && second === undefined) answers.push(await this.#run(tx, first))
      else answers.push(...(await this.#runBatch(tx, batch)))
    }
    return answers
  }

  async #runBatch(tx: Queryable, batch: readonly Statement[]): Promise<readonly Result[]> {
    const answer = await tx.execute(this.#sql.raw(batch.map(({ text }) => text).join(';')))
    if (!Array.isArray(answer)) throw unsupported(answer)
    return answer.map(toResult)
  }

  async #run(target: Queryable, statement: Statement): Promise<Result> {
    return toResult(await target.execute(this.#compile(statement)))
  }

  #compile({ text, params }: Statement): object {
    if (params.length === 0) return this.#sql.raw(text)
    const chunks = text
      .split(/\$(\d+)/)
      .map((part, index) => (index % 2 === 0 ? this.#sql.raw(part) : this.#sql.param(params[Number(part) - 1])))
    return this.#sql.join(chunks)
  }
}

/** One Drizzle transaction, and the client under it, if it can be found. */
class Run {
  stage: 'opening' | 'body' | 'ending' | 'committing' = 'opening'
  /** To be called when Drizzle has committed. */
  committed: () => void = () => {}
  /** The first error, which a failing ROLLBACK would hide. */
  failure: { readonly error: unknown } | undefined
  readonly #options: TransactionOptions
  #client: object | undefined

  constructor(options: TransactionOptions) {
    this.#options = options
  }

  async watch<T>(tx: object, steps: () => Promise<T>): Promise<T> {
    const client = fieldOf(fieldOf(tx, 'session'), 'client')
    this.#client = typeof client === 'object' && client !== null ? client : undefined
    try {
      return await steps()
    } catch (error) {
      const other = this.stage === 'opening' && this.#client !== undefined && hasOtherRole(this.#client, error)
      this.failure = { error: other ? new Changed() : error }
      if (this.#isSpoilt(error)) this.#destroy()
      else if (!(await this.#settled())) {
        this.failure = { error: cutOff(error) }
        this.#destroy()
      }
      throw error
    }
  }

  assertUnchanged(session: Result | undefined): void {
    if (this.#client !== undefined && !isAsBefore(this.#client, session)) throw new Changed()
  }

  assertFree(): void {
    if (this.#client !== undefined && isBusy(this.#client)) throw leftOpen()
  }

  /** Ends the transaction by force. The store terminates the backend as well. */
  abort(reason: unknown): NotSent | undefined {
    this.#destroy()
    if (this.stage !== 'ending') return undefined
    return new NotSent(this.#client === undefined ? leftOpen(reason) : doomed('lost', reason))
  }

  /** Whether the client must not be used again. */
  #isSpoilt(error: unknown): boolean {
    if (this.stage === 'body') return isHapaxError(error, 'transaction-lost')
    const kind = this.#options.classify(error)
    return this.stage === 'opening' ? !isHarmless(kind) : kind === 'lost'
  }

  /** Waits up to a second until ROLLBACK can be sent. False: the client is still busy. */
  async #settled(): Promise<boolean> {
    for (let waits = 0; this.#client !== undefined && isBusy(this.#client); waits++) {
      if (waits === 100) return false
      await pause(systemClock, 10)
    }
    return true
  }

  #destroy(): void {
    if (this.#client !== undefined) destroy(this.#client)
  }
}

/** A Drizzle transaction as a handler sees it: once it has settled, no new statement can begin on it. */
class Handle<Tx extends object> {
  readonly raw: Tx
  readonly proxy: Tx
  closed = false

  constructor(raw: Tx) {
    this.raw = raw
    this.proxy = new Proxy(raw, {
      get: (target, name, receiver) => {
        if (this.closed) throw transactionClosed()
        return Reflect.get(target, name, receiver)
      },
    })
  }
}

/** Thrown to make Drizzle roll back without an error. */
class RolledBack<T> {
  readonly value: T

  constructor(value: T) {
    this.value = value
  }
}

function batches(statements: readonly Statement[]): readonly Statement[][] {
  const result: Statement[][] = []
  for (const statement of statements) {
    const open = result.at(-1)
    if (open !== undefined && statement.params.length === 0 && open[0]?.params.length === 0) open.push(statement)
    else result.push([statement])
  }
  return result
}

/** Whether an error came from a Drizzle statement, perhaps wrapped by the handler. */
function isQueryError(error: unknown): boolean {
  for (let each = error, depth = 0; depth < 5; each = fieldOf(each, 'cause'), depth++) {
    if (typeof fieldOf(each, 'query') === 'string' && Array.isArray(fieldOf(each, 'params'))) return true
  }
  return false
}

function toResult(answer: unknown): Result {
  const result: unknown = Array.isArray(answer) ? answer.at(-1) : answer
  const rows = fieldOf(result, 'rows')
  if (!Array.isArray(rows)) throw unsupported(answer)
  return { rows, affected: Number(fieldOf(result, 'rowCount') ?? 0) }
}

function unsupported(answer: unknown): HapaxError {
  return new HapaxError(
    'invalid-option',
    `expected db to be a Drizzle database on node-postgres, whose answers have rows, got ${describe(answer)}`,
  )
}
