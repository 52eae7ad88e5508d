import { fieldOf } from '../../base/index.ts'
import type { EnteredExecutor, Param, Result, Statement } from '../../contracts/index.ts'
import {
  type MysqlCallback,
  MysqlMark,
  type MysqlQueue,
  type MysqlQueued,
  notInTransaction,
} from '../../stores/sql/index.ts'

/**
 * A transaction of the user's own whose connection of `mysql2` can be reached: hapax's statements go into its queue, past the ORM, each together
 * with the check that the transaction is still there. Through the ORM, a ROLLBACK could come between the two.
 */
export class QueuedTransaction implements EnteredExecutor {
  readonly own = true
  readonly checks = true
  readonly #queue: MysqlQueue
  readonly #mark: MysqlMark
  readonly #form: (statement: Statement) => Statement | undefined

  constructor(queue: MysqlQueue, form: (statement: Statement) => Statement | undefined) {
    this.#queue = queue
    this.#mark = new MysqlMark(queue)
    this.#form = form
  }

  async query(text: string, params: readonly Param[]): Promise<Result> {
    const statement = this.#form({ text, params })
    if (statement === undefined) return { rows: [], affected: 0 }
    const query = { sql: statement.text, values: statement.params.map(asValue), rowsAsArray: false, nestTables: false }
    const send = (done: MysqlCallback): MysqlQueued => this.#queue.query(query, done)
    return toResult(await this.#mark.behindCheck(send, gone))
  }

  leave(): void {
    this.#mark.leave()
  }
}

const NO_SUCH_SAVEPOINT = 1305

function gone(error: Error): Error {
  const ended = fieldOf(error, 'errno') === NO_SUCH_SAVEPOINT
  return ended ? notInTransaction('one that has not been begun, or has ended', error) : error
}

function asValue(param: Param): unknown {
  return param instanceof Uint8Array ? Buffer.from(param.buffer, param.byteOffset, param.byteLength) : param
}

function toResult(answer: unknown): Result {
  if (Array.isArray(answer)) return { rows: answer, affected: answer.length }
  return { rows: [], affected: Number(fieldOf(answer, 'affectedRows') ?? 0) }
}
