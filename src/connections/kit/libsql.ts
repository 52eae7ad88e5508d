// Transactions by libsql. Its client refuses at once what has to wait, so hapax waits: for its turn in this process, and for the lock of
// the file. A transaction has a connection of its own, and refuses what comes after its end.

import {
  describe,
  expected,
  fieldOf,
  type Interrupt,
  transactionClosed,
  Watched,
  type WriterQueue,
} from '../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  DoomOf,
  EnteredExecutor,
  Executor,
  Param,
  Result,
  Row,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import {
  beforeCommit,
  byTransaction,
  isSqliteBusy,
  notInTransaction,
  OpenedFile,
  Patience,
  queueFor,
  queueOf,
  TransactionWatch,
  unawaited,
  untilAborted,
  untilAcquired,
} from '../../stores/sql/index.ts'

/** The subset of a transaction of libsql that hapax needs. */
export interface LibsqlTransaction {
  readonly closed: boolean
  execute(statement: never): Promise<unknown>
  executeMultiple(sql: string): Promise<unknown>
  commit(): Promise<void>
  rollback(): Promise<void>
  close(): void
}

/** The subset of a client of libsql that hapax needs; `Tx` is its own type of transactions. */
export interface LibsqlClient<Tx extends LibsqlTransaction = LibsqlTransaction> {
  readonly protocol: string
  execute(statement: never): Promise<unknown>
  transaction(mode?: 'write' | 'deferred'): Promise<Tx>
}

/** What handlers receive in place of the transaction itself. */
export interface LibsqlView<Raw, Tx> {
  readonly name: string
  /** Makes the handler's transaction of one that ends with the handler's time. */
  of(transaction: Raw, isClosed: () => boolean): Tx | Promise<Tx>
  /** The transaction of libsql under one of the handler's or of the user's; undefined: there is none. */
  under(tx: unknown): unknown
}

/** Transactions on a client of libsql. */
export class LibsqlConnection<Raw extends LibsqlTransaction, Tx> implements Connection<Tx> {
  readonly features: ConnectionFeatures
  readonly #client: LibsqlClient<Raw>
  readonly #view: LibsqlView<Raw, Tx>
  readonly #handles = new WeakMap<object, Handle<Raw>>()
  #ready: Promise<Prepared> | undefined

  constructor(client: LibsqlClient<Raw>, view: LibsqlView<Raw, Tx>) {
    this.#client = client
    this.#view = view
    this.features = {
      name: view.name,
      roundTrips: 4,
      lateUse: 'refused',
      unawaited: 'not detectable',
      ownTransactions: true,
      pool: undefined,
    }
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    const { signal, lockTimeoutMs } = options
    const patience = new Patience(lockTimeoutMs, signal)
    const turn = await patience.turn(await this.#queue())
    try {
      options.acquired?.()
      const raw = await new Beginning(this.#client, signal).begun(patience)
      const handle = new Handle(raw, options.doomOf)
      return await turn.run(() =>
        untilAborted(
          signal,
          () => this.#steps(handle, work),
          () => handle.abort(),
        ),
      )
    } finally {
      turn.end()
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: Tx): Executor {
    const { query } = this.enter(tx)
    return { query }
  }

  /** A transaction of the user's own is the object itself: once it has ended, it takes no statement any more. */
  enter(tx: Tx): EnteredExecutor {
    const under = this.#view.under(tx)
    if (!isTransaction(under)) throw notInTransaction(describe(tx))
    const handle = this.#handles.get(under)
    const raw = handle?.raw ?? under
    if (handle?.watch.closed) throw transactionClosed()
    if (raw.closed && handle === undefined) throw notInTransaction('one that has ended')
    const query = async (text: string, params: readonly Param[]): Promise<Result> => {
      handle?.watch.assertOpen()
      if (raw.closed && handle === undefined) throw notInTransaction('one that has ended')
      return run(raw, { text, params })
    }
    return { own: handle === undefined, checks: true, query, leave: () => {} }
  }

  /** What SQLite takes as one value or row, unless it was built otherwise. */
  mostBytes(): number {
    return 1_000_000_000
  }

  async query(statement: Statement): Promise<Result> {
    const patience = new Patience()
    const turn = await patience.turn(await this.#queue())
    try {
      if (!isWrite(statement.text)) return await patience.untilDone(() => run(this.#client, statement))
      const raw = await new Beginning(this.#client, undefined).begun(patience)
      try {
        const result = await run(raw, statement)
        await raw.commit()
        return result
      } finally {
        raw.close()
      }
    } finally {
      turn.end()
    }
  }

  /** The client is the user's. */
  close(): Promise<void> {
    return Promise.resolve()
  }

  async #queue(): Promise<WriterQueue> {
    this.#ready ??= new Patience()
      .untilDone(() => prepared(this.#client))
      .catch((error: unknown) => {
        this.#ready = undefined
        throw error
      })
    const { queue, file } = await this.#ready
    file?.assertThere()
    return queue
  }

  async #steps<T>(handle: Handle<Raw>, work: TransactionWork<Tx, T>): Promise<T> {
    const { raw, watch } = handle
    try {
      const answers = await runAll(raw, work.first)
      const tx = await this.#view.of(handle.lent, () => watch.closed)
      const under = this.#view.under(tx)
      if (typeof under === 'object' && under !== null) this.#handles.set(under, handle)
      const { value, last, committed } = await watch.during(() => work.body(tx, answers))
      handle.assertSeen()
      if (last === undefined) {
        await raw.rollback()
        return value
      }
      const written = await beforeCommit(() => runAll(raw, last))
      await raw.commit()
      committed?.(written)
      return value
    } catch (error) {
      handle.abort()
      throw error
    }
  }
}

/**
 * Begins one transaction. The driver does not finish a statement that met a lock. Until it is collected as garbage, its connection opens no
 * savepoint, commits nothing, and may not even begin. So BEGIN goes as a script, which is finished in any case; and since statements of the
 * application may have met locks as well, a connection that refuses is kept aside for a while: the client takes another one then.
 */
class Beginning<Raw extends LibsqlTransaction> {
  readonly #client: LibsqlClient<Raw>
  readonly #signal: Interrupt | undefined
  readonly #aside: Raw[] = []

  constructor(client: LibsqlClient<Raw>, signal: Interrupt | undefined) {
    this.#client = client
    this.#signal = signal
  }

  async begun(patience: Patience): Promise<Raw> {
    try {
      return await patience.untilDone(() => this.#attempt())
    } finally {
      this.#giveBack()
    }
  }

  async #attempt(): Promise<Raw> {
    if (this.#client.protocol !== 'file') return this.#acquired('write')
    const raw = await this.#acquired('deferred')
    try {
      await raw.executeMultiple(BEGIN)
      return raw
    } catch (error) {
      if (isSqliteBusy(error)) await this.#keepAside(raw)
      else raw.close()
      throw error
    }
  }

  /** What an abort does not wait for any longer is ended as soon as it is there. */
  async #acquired(mode: 'write' | 'deferred'): Promise<Raw> {
    try {
      return await untilAcquired(this.#client.transaction(mode), this.#signal, (raw) => raw.close())
    } catch (error) {
      // It has no further connection.
      this.#giveBack()
      throw error
    }
  }

  /** Without a lock, but in use. */
  async #keepAside(raw: Raw): Promise<void> {
    this.#aside.push(raw)
    if (this.#aside.length > MOST_ASIDE) this.#aside.shift()?.close()
    if (!raw.closed) await raw.executeMultiple('rollback')
  }

  #giveBack(): void {
    for (const raw of this.#aside.splice(0)) raw.close()
  }
}

const BEGIN = 'rollback; begin immediate; savepoint hapax; release savepoint hapax'

/** Statements of the application use one connection again and again, so there is hardly more than one of them. */
const MOST_ASIDE = 3

/** Members that would end the transaction. */
const NOT_LENT: ReadonlySet<string | symbol> = new Set(['commit', 'rollback', 'close', Symbol.dispose])

/** A transaction, and how its handler has it. */
class Handle<Raw extends LibsqlTransaction> {
  readonly raw: Raw
  readonly watch: TransactionWatch
  readonly lent: Raw
  readonly #failed: Watched<unknown>[] = []

  constructor(raw: Raw, doomOf: DoomOf) {
    this.raw = raw
    this.watch = new TransactionWatch(doomOf, () => false)
    this.lent = new Proxy(raw, {
      get: (target, name) => {
        if (NOT_LENT.has(name)) throw new TypeError(`${String(name)} is not for handlers: hapax ends the transaction`)
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value === 'function') return (...args: unknown[]) => this.#call(() => value.apply(target, args))
        return name === 'closed' ? value === true || this.watch.closed : value
      },
    })
  }

  /** Throws if a statement has failed whose result nobody has looked at. */
  assertSeen(): void {
    const unseen = this.#failed.filter(({ seen }) => !seen).length
    if (unseen > 0) throw unawaited(unseen)
  }

  /** Ends the transaction, if it has not ended. */
  abort(): void {
    this.watch.close()
    try {
      this.raw.close()
    } catch {
      // Its connection is gone.
    }
  }

  /** As the driver does, it rejects rather than throws. */
  #call(call: () => unknown): unknown {
    const result = this.#called(call)
    if (!(result instanceof Promise)) return result
    const watched = new Watched(this.watch.track(result))
    result.catch(() => this.#failed.push(watched))
    return watched
  }

  #called(call: () => unknown): unknown {
    try {
      this.watch.assertOpen()
      this.watch.assertNotDoomed()
      return call()
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/** Makes the file one that hapax can use, and finds the queue of its writers. */
async function prepared(client: LibsqlClient): Promise<Prepared> {
  // What a server does is the server's.
  if (client.protocol !== 'file') return { queue: queueFor(client), file: undefined }
  const one = async (text: string, name: string): Promise<unknown> =>
    (await run(client, { text, params: [] })).rows[0]?.[name]
  const file = await one(`select file from pragma_database_list where name = 'main'`, 'file')
  const mode = await one('pragma journal_mode = wal', 'journal_mode')
  if (mode !== 'wal' && mode !== 'memory') expected('client', 'on a disk where SQLite can use WAL', file)
  const level = await one('pragma synchronous', 'synchronous')
  if (Number(level) < 2) expected('client', 'one whose connections have synchronous = full', `synchronous = ${level}`)
  if (typeof file !== 'string' || file === '') return { queue: queueFor(client), file: undefined }
  return { queue: queueOf(file), file: new OpenedFile(file) }
}

/** The writer queue of a client, and its file if that is on this host. */
interface Prepared {
  readonly queue: WriterQueue
  readonly file: OpenedFile | undefined
}

interface Queryable {
  execute(statement: { readonly sql: string; readonly args: readonly unknown[] }): Promise<unknown>
}

function isQueryable(target: object): target is Queryable {
  return typeof fieldOf(target, 'execute') === 'function'
}

export function isClient(client: unknown): client is LibsqlClient {
  const methods = ['execute', 'transaction', 'batch'].every((method) => typeof fieldOf(client, method) === 'function')
  return methods && typeof fieldOf(client, 'protocol') === 'string'
}

function isTransaction(tx: unknown): tx is LibsqlTransaction {
  const methods = ['execute', 'commit', 'rollback', 'close'].every((method) => method in Object(tx))
  return methods && 'closed' in Object(tx)
}

async function runAll(target: object, statements: readonly Statement[]): Promise<readonly Result[]> {
  const answers: Result[] = []
  for (const statement of statements) answers.push(await run(target, statement))
  return answers
}

async function run(target: object, { text, params }: Statement): Promise<Result> {
  if (!isQueryable(target)) return expected('client', 'a client of libsql', target)
  return toResult(await target.execute({ sql: text, args: params.map(whole) }), text)
}

/** The driver binds every number as a floating-point one: 1 would be written as 1.0 into a text. */
function whole(value: Param): unknown {
  return Number.isSafeInteger(value) ? BigInt(Number(value)) : value
}

/** A statement that returns rows reports that none were affected, whatever it has written. */
function toResult(answer: unknown, text: string): Result {
  const [columns, rows] = [fieldOf(answer, 'columns'), fieldOf(answer, 'rows')]
  if (!Array.isArray(columns) || !Array.isArray(rows)) return expected('client', 'a client of libsql', answer)
  if (columns.length > 0) return { rows: rows.map(toRow), affected: rows.length }
  // SQLite repeats the last count for statements that are no writes.
  return { rows: [], affected: isWrite(text) ? Number(fieldOf(answer, 'rowsAffected')) : 0 }
}

function isWrite(text: string): boolean {
  return /^\s*(insert|update|delete|replace|with)\b/i.test(text)
}

function toRow(row: object): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value instanceof ArrayBuffer ? new Uint8Array(value) : value]),
  )
}
