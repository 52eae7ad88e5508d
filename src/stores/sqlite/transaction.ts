import type { DatabaseSync } from 'node:sqlite'
import { transactionClosed, Watched } from '../../base/index.ts'
import type { Executor, Result } from '../../contracts/index.ts'
import { brokenAtomicity, doomed, unawaited } from '../sql/index.ts'
import type { Database } from './database.ts'
import { doomOf } from './errors.ts'
import { nodeSqlite } from './node-sqlite.ts'

/** The result of a statement: its rows, and how many rows it returned or changed. */
export interface SqliteResult<Row = Record<string, unknown>> {
  readonly rows: readonly Row[]
  readonly rowCount: number
}

/** What handlers receive as `ctx.tx`, and `hapax.transaction` as `tx`. It is dead once the transaction has settled. */
export interface SqliteTx {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<SqliteResult<Row>>
  /** The connection of this transaction, for libraries that want one. */
  readonly client: DatabaseSync
}

const NO_PARAMS: readonly unknown[] = []

/** Members of the connection that would reach beyond the transaction. */
const NOT_LENT: ReadonlySet<string | symbol> = new Set([
  'open',
  'close',
  'deserialize',
  'createTagStore',
  Symbol.dispose,
])

/** One transaction on the connection: remembers what dooms it, and dies when it settles. */
export class SqliteTransaction implements SqliteTx {
  readonly database: Database
  #executor: Executor | undefined
  #closed = false
  #client: DatabaseSync | undefined
  #failures: Watched<never>[] | undefined
  #doom: { kind: 'conflict' | 'lost'; error: unknown } | undefined

  constructor(database: Database) {
    this.database = database
  }

  /** For the statements of hapax. */
  get executor(): Executor {
    this.#executor ??= { query: (text, params) => this.#run(text, params) }
    return this.#executor
  }

  #run(text: string, params: readonly unknown[]): Promise<Result> {
    if (this.#closed) return Promise.reject(transactionClosed())
    try {
      this.#assertUsable()
      return Promise.resolve(this.database.run(text, params))
    } catch (error) {
      return this.#failed(error)
    }
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = NO_PARAMS,
  ): Promise<SqliteResult<Row>> {
    if (this.#closed) return Promise.reject(transactionClosed())
    try {
      this.#assertUsable()
      const { rows, affected } = this.database.run(text, params)
      return Promise.resolve({ rows: rows as readonly Row[], rowCount: affected })
    } catch (error) {
      return this.#failed(error)
    }
  }

  get client(): DatabaseSync {
    this.#client ??= this.#lent(this.database.client)
    return this.#client
  }

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  /** Throws what keeps this transaction from committing, if anything does. */
  assertSound(): void {
    this.assertNotDoomed()
    const unseen = this.#failures?.filter((failure) => !failure.seen).length ?? 0
    if (unseen > 0) throw unawaited(unseen)
  }

  assertNotDoomed(): void {
    if (this.#doom !== undefined) throw doomed(this.#doom.kind, this.#doom.error)
  }

  /**
   * SQLite rolls back by itself when the disk is full, and on other errors; a handler may have ended the transaction, too. Whatever
   * comes then would commit by itself.
   */
  #assertUsable(): void {
    this.assertNotDoomed()
    if (!this.database.client.isTransaction) throw brokenAtomicity()
  }

  #failed(error: unknown): Promise<never> {
    this.#note(error)
    // It knows whether it was looked at: a transaction with a failure that was not awaited must not commit.
    const failure = new Watched(Promise.reject<never>(error))
    this.#failures ??= []
    this.#failures.push(failure)
    return failure
  }

  #note(error: unknown): void {
    const kind = doomOf(error)
    if (kind !== undefined) this.#doom ??= { kind, error }
  }

  #lent<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, name) => {
        if (this.#closed) throw transactionClosed()
        if (NOT_LENT.has(name))
          throw new TypeError(`${String(name)} is not for handlers: the connection belongs to hapax`)
        // An open cursor would outlive the transaction.
        const member = target instanceof nodeSqlite.StatementSync && name === 'iterate' ? 'all' : name
        const value: unknown = Reflect.get(target, member, target)
        return typeof value === 'function' ? (...args: unknown[]) => this.#call(target, name, value, args) : value
      },
    })
  }

  // biome-ignore lint/complexity/noBannedTypes: whatever the driver has
  #call(target: object, name: string | symbol, method: Function, args: unknown[]): unknown {
    if (this.#closed) throw transactionClosed()
    this.#assertUsable()
    try {
      const result: unknown = method.apply(target, args)
      if (name === 'iterate' && Array.isArray(result)) return result.values()
      return result instanceof nodeSqlite.StatementSync ? this.#lent(result) : result
    } catch (error) {
      this.#note(error)
      throw error
    }
  }
}
