import { randomUUID } from 'node:crypto'
import type { EnteredExecutor, Param, Result } from '../../contracts/index.ts'
import { notInTransaction } from '../../stores/sql/index.ts'
import type { Send } from './ground.ts'

/** The mark of a transaction, and what was done last about it: publishes at the same time take turns. */
interface Mark {
  readonly name: string
  last: Promise<unknown>
}

const marks = new WeakMap<object, Mark>()

/** What the ORM of a marked transaction does by itself. */
interface Marking {
  /** Whether it has to be tried out that a transaction was begun. */
  readonly tries: boolean
  /** Whether the ORM sends nothing any more once it has begun to end the transaction. */
  readonly ordered: boolean
  /** Whether the ORM has refused a statement because the transaction was committed. */
  isCommitted(error: unknown): boolean
}

/**
 * A transaction of the user's own on a database that knows no settings of a transaction. A savepoint marks it: it is gone as soon as the
 * transaction ends, and releasing it then is an error. It is released and set again before every statement; and once more after it, where the
 * ORM could have ended the transaction in between: whoever does so is told.
 */
export class MarkedTransaction implements EnteredExecutor {
  readonly own = true
  readonly checks = true
  readonly #send: Send
  readonly #mark: Mark
  readonly #marking: Marking

  /** `transaction`: what stands for it, and for no other one. */
  constructor(marking: Marking, transaction: object, send: Send) {
    this.#send = send
    this.#marking = marking
    this.#mark = marks.get(transaction) ?? {
      name: `hapax_${randomUUID().replaceAll('-', '')}`,
      last: Promise.resolve(),
    }
    marks.set(transaction, this.#mark)
    // Reported by the statement that waits for it: it finds no mark.
    this.#inTurn(async () => {
      if (marking.tries) await this.#assertBegun()
      await this.#put('savepoint')
    }).catch(() => {})
  }

  query(text: string, params: readonly Param[]): Promise<Result> {
    return this.#inTurn(async () => {
      await this.#check()
      const result = await this.#send({ text, params })
      if (!this.#marking.ordered) await this.#checkAfter()
      return result
    })
  }

  leave(): void {
    // The mark costs nothing, and ends with the transaction.
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#mark.last.then(work, work)
    this.#mark.last = done.catch(() => {})
    return done
  }

  async #check(): Promise<void> {
    try {
      await this.#again()
    } catch (error) {
      throw ended(error)
    }
  }

  async #checkAfter(): Promise<void> {
    try {
      await this.#again()
    } catch (error) {
      if (!this.#marking.isCommitted(error)) throw ended(error)
    }
  }

  async #again(): Promise<void> {
    await this.#put('release savepoint')
    await this.#put('savepoint')
  }

  #put(what: 'savepoint' | 'release savepoint'): Promise<Result> {
    return this.#send({ text: `${what} ${this.#mark.name}`, params: [] })
  }

  /** On SQLite a savepoint would begin a transaction by itself, and so does BEGIN, unless there is one. */
  async #assertBegun(): Promise<void> {
    const begun = await this.#send({ text: 'begin', params: [] }).then(
      () => false,
      () => true,
    )
    if (begun) return
    await this.#send({ text: 'rollback', params: [] })
    throw ended()
  }
}

function ended(cause?: unknown): Error {
  return notInTransaction('one that has not been begun, or has ended', cause)
}
