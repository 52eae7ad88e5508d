import { transactionClosed, Watched } from '../../../../base/index.ts'
import type { DoomOf, Executor, Result } from '../../../../contracts/index.ts'
import { doomed, unawaited } from '../driver.ts'
import type { Reaching } from '../reach.ts'
import { brokenAtomicity } from '../store-errors.ts'
import type { SyncDatabase } from './sync-database.ts'

/** The savepoint that guards every transaction of a store. */
export const GUARD = 'hapax'

/** How the handler may use the objects of a driver. */
export interface Lending {
  /** Members of the connection that would reach beyond the transaction. */
  readonly notLent: ReadonlySet<string | symbol>
  /** What takes the place of a method. */
  readonly instead?: Readonly<Record<string, (target: object, lent: object) => unknown>>
}

/** One transaction on a synchronous connection: remembers what dooms it, and dies when it settles. */
export abstract class SyncTransaction<Tx> {
  /** What the handler receives. */
  abstract readonly tx: Tx
  readonly database: SyncDatabase
  /** The reach of its handlers; undefined: not all of their statements can be observed. */
  readonly reaching: Reaching | undefined
  readonly #doomOf: DoomOf
  #executor: Executor | undefined
  #closed = false
  #failures: Watched<never>[] | undefined
  #doom: { kind: 'conflict' | 'lost'; error: unknown } | undefined

  constructor(database: SyncDatabase, doomOf: DoomOf, reaching?: Reaching) {
    this.database = database
    this.reaching = reaching
    this.#doomOf = doomOf
  }

  /** For the statements of hapax. */
  get executor(): Executor {
    this.#executor ??= { query: (text, params) => this.answer(text, params, same) }
    return this.#executor
  }

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  /** Whether it has ended, although hapax has not ended it: the guard is gone. What came after the guard is undone. */
  hasEnded(): boolean {
    return !this.database.holds(GUARD)
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

  /** Runs a statement, and resolves with what `read` makes of its result. */
  protected answer<T>(text: string, params: readonly unknown[], read: (result: Result) => T): Promise<T> {
    if (this.#closed) return Promise.reject(transactionClosed())
    try {
      this.#assertUsable()
      return Promise.resolve(read(this.database.run(text, params)))
    } catch (error) {
      return this.#failed(error)
    }
  }

  /** An object of the driver as the handler may have it: it dies with the transaction, and so does what it returns. */
  protected lent<T extends object>(target: T, lending: Lending): T {
    // Not a proxy of the object itself: that could not hide fields which the driver has made read-only.
    const lent: T = new Proxy(Object.create(Object.getPrototypeOf(target)), {
      has: (_, name) => Reflect.has(target, name),
      get: (_, name) => {
        if (this.#closed) throw transactionClosed()
        this.reaching?.add('unseen')
        if (lending.notLent.has(name))
          throw new TypeError(`${String(name)} is not for handlers: the connection belongs to hapax`)
        const instead = typeof name === 'string' ? lending.instead?.[name] : undefined
        const value: unknown = instead?.(target, lent) ?? Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          const result = this.call(() => value.apply(target, args))
          if (result === target) return lent
          return name === 'prepare' && isObject(result) ? this.lent(result, lending) : result
        }
      },
    })
    return lent
  }

  /** Does something in this transaction, if it is still open. */
  protected call<T>(call: () => T): T {
    if (this.#closed) throw transactionClosed()
    this.#assertUsable()
    try {
      return call()
    } catch (error) {
      this.#note(error)
      throw error
    }
  }

  /**
   * SQLite rolls back by itself when the disk is full, and on other errors; a handler may have ended the transaction, too. Whatever
   * comes then would commit by itself.
   */
  #assertUsable(): void {
    this.assertNotDoomed()
    if (!this.database.client.inTransaction) throw brokenAtomicity()
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
    const kind = this.#doomOf(error)
    if (kind !== undefined) this.#doom ??= { kind, error }
  }
}

const same = (result: Result): Result => result

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
