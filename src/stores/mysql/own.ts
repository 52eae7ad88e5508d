import type { EnteredExecutor, Param, Result } from '../../contracts/index.ts'
import { type MysqlCallback, MysqlMark, type MysqlQueue, type MysqlQueued, notInTransaction } from '../sql/index.ts'
import { canPrepare } from './client.ts'
import { classify } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'
import { asResult, assertFits, isLarge, queryOf, sizeOfAll } from './send.ts'
import { sessionOf } from './session.ts'

/** The connection under the promises. */
interface Raw extends MysqlQueue {
  execute(query: MysqlQuery, done: MysqlCallback): MysqlQueued
  unprepare?(query: MysqlQuery): unknown
}

/** A transaction of the user's own, from the instant in which it was entered. */
export class OwnTransaction implements EnteredExecutor {
  readonly own = true
  readonly checks = true
  readonly #client: MysqlClient
  readonly #raw: Raw
  readonly #mark: MysqlMark

  constructor(client: MysqlClient) {
    this.#client = client
    this.#raw = rawOf(client)
    this.#mark = new MysqlMark(this.#raw)
  }

  async query(text: string, params: readonly Param[]): Promise<Result> {
    const statement = { text, params }
    const large = isLarge(this.#client, statement)
    if (large) {
      await sessionOf(this.#client)
      assertFits(this.#client, sizeOfAll(this.#client, statement))
    }
    const query = queryOf(this.#client, statement)
    const send = (done: MysqlCallback): MysqlQueued =>
      large && canPrepare(this.#client) ? this.#execute(query, done) : this.#raw.query(query, done)
    return asResult(this.#client, await this.#mark.behindCheck(send, gone))
  }

  leave(): void {
    this.#mark.leave()
  }

  /** Prepared, because there bytes travel as they are; and not for long. */
  #execute(query: MysqlQuery, done: MysqlCallback): MysqlQueued {
    return this.#raw.execute(query, (error, answer) => {
      done(error, answer)
      if (!error || classify(error) !== 'lost') this.#raw.unprepare?.(query)
    })
  }
}

function gone(error: Error): Error {
  return classify(error) === 'gone' ? notInTransaction('one that has not been begun, or has ended', error) : error
}

function rawOf(client: object): Raw {
  const { connection }: { connection?: Raw } = client
  if (typeof connection?.query !== 'function') throw notInTransaction('something that is no connection')
  return connection
}
