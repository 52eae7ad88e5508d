import type { Random } from '../../../base/index.ts'
import type { Entered, EnteredExecutor, LocalResult, LocalRow, OutboxRow } from '../../../contracts/index.ts'
import { notInTransaction } from '../connection/driver.ts'
import type { StoreErrors } from '../connection/store-errors.ts'
import type { Dialect } from '../dialect/dialect.ts'
import type { SqlContext } from './context.ts'

/**
 * What is written inside a transaction of the user's. That transaction may end between the call and the write, for example while a
 * schema validates the message, and its client may serve another transaction by then. Nothing is written in that case.
 */
export class SqlEntered implements Entered {
  readonly mostBytes: () => number
  readonly #executor: EnteredExecutor
  readonly #dialect: Dialect
  readonly #errors: StoreErrors
  readonly #random: Random
  /** What the statements have to find; undefined: nothing, or the connection does. */
  #token: string | undefined
  #marked: Promise<unknown> | undefined

  constructor(
    executor: EnteredExecutor,
    mostBytes: () => number,
    { dialect, errors, random }: Pick<SqlContext<never, never>, 'dialect' | 'errors' | 'random'>,
  ) {
    this.#executor = executor
    this.mostBytes = mostBytes
    this.#dialect = dialect
    this.#errors = errors
    this.#random = random
    if (executor.own && !executor.checks) this.#mark()
  }

  async writeOutbox(rows: readonly OutboxRow[]): Promise<void> {
    let written = 0
    const statements = this.#dialect.outbox.insert(rows, this.#token)
    await this.#inside(async () => {
      for (const { text, params } of statements) written += (await this.#executor.query(text, params)).affected
    })
    if (this.#token !== undefined && written < rows.length) throw ended()
  }

  async writeLocal(rows: readonly LocalRow[], followed = false): Promise<readonly LocalResult[]> {
    const results = await this.#inside(
      () => this.#dialect.writeLocal(this.#executor, rows, this.#random.token(), this.#token, followed),
      followed,
    )
    if (this.#token !== undefined && results.length < rows.length) throw ended()
    return results
  }

  leave(): void {
    this.#executor.leave()
  }

  /** Sent at the instant of the call, before whatever the user sends next. */
  #mark(): void {
    // Short, because there may be many of them at once.
    const token = ` ${this.#random.token().slice(-12)}`
    const statement = this.#dialect.transactions.enter(token)
    if (statement === undefined) return
    this.#token = token
    this.#marked = this.#executor.query(statement.text, statement.params)
    // Reported by the write that waits for it.
    this.#marked.catch(() => {})
  }

  async #inside<T>(write: () => Promise<T>, followed = false): Promise<T> {
    try {
      await this.#marked
    } catch (error) {
      throw ended(error)
    }
    try {
      return await write()
    } catch (error) {
      throw this.#errors.inside(error)
    } finally {
      if (!followed) this.leave()
    }
  }
}

function ended(cause?: unknown): Error {
  return notInTransaction('a client that has not begun one, or whose transaction has failed or ended', cause)
}
