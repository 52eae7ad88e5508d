import type { EnteredExecutor, Param, Result } from '../../core/connection.ts'
import { notInTransaction } from '../../core/driver.ts'
import { classify } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'
import { canPrepare } from './prepared.ts'
import { asResult, assertFits, type Header, isLarge, queryOf, sizeOfAll } from './send.ts'
import { sessionOf } from './session.ts'

type Callback = (error: Error | null, answer?: unknown) => void

/** A statement in the queue of a connection. `mysql2` itself skips one in this way, whose preparation has failed. */
interface Queued {
  start: () => null
}

/** The connection under the promises: it sends what it is given in that order, one statement at a time. */
interface Raw {
  query(query: MysqlQuery, done: Callback): Queued
  execute(query: MysqlQuery, done: Callback): Queued
  unprepare?(query: MysqlQuery): unknown
}

/**
 * A transaction of the user's own, from the instant in which it was entered. A savepoint marks it: it is gone as soon as the
 * transaction ends, or is rolled back to an earlier savepoint, and releasing it then is an error that harms nobody. That check and the
 * statement behind it are put into the queue together, so that nothing comes in between; if the check fails, the statement is not sent.
 */
export class OwnTransaction implements EnteredExecutor {
  readonly own = true
  readonly checks = true
  readonly #client: MysqlClient
  readonly #raw: Raw
  readonly #name = `hapax_${crypto.randomUUID().replaceAll('-', '')}`
  #left = false

  constructor(client: MysqlClient) {
    const { connection: raw } = client as { connection?: Partial<Raw> }
    if (typeof raw?.query !== 'function') throw notInTransaction('something that is no connection')
    this.#client = client
    this.#raw = raw as Raw
    this.#put('savepoint')
  }

  async query(text: string, params: readonly Param[]): Promise<Result> {
    const statement = { text, params }
    const large = isLarge(this.#client, statement)
    if (large) {
      await sessionOf(this.#client)
      assertFits(this.#client, sizeOfAll(this.#client, statement))
    }
    return asResult(this.#client, (await this.#behindCheck(queryOf(statement), large)) as Header | unknown[])
  }

  leave(): void {
    if (this.#left) return
    this.#left = true
    this.#put('release savepoint')
  }

  #behindCheck(query: MysqlQuery, large: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const checked: Callback = (error) => {
        if (error === null || error === undefined) return
        for (const each of [again, statement]) each.start = () => null
        reject(
          classify(error) === 'gone' ? notInTransaction('one that has not been begun, or has ended', error) : error,
        )
      }
      const done: Callback = (error, answer) => (error ? reject(error) : resolve(answer))
      this.#raw.query({ sql: `release savepoint ${this.#name}` }, checked)
      const again = this.#put('savepoint')
      const statement = large && canPrepare(this.#client) ? this.#execute(query, done) : this.#raw.query(query, done)
    })
  }

  /** Prepared, because there bytes travel as they are; and not for long. */
  #execute(query: MysqlQuery, done: Callback): Queued {
    return this.#raw.execute(query, (error, answer) => {
      done(error, answer)
      if (!error || classify(error) !== 'lost') this.#raw.unprepare?.(query)
    })
  }

  /** Whether it works shows when it is released. */
  #put(what: 'savepoint' | 'release savepoint'): Queued {
    return this.#raw.query({ sql: `${what} ${this.#name}` }, () => {})
  }
}
