import type { EnteredExecutor, Param, Result } from '../../contracts/index.ts'
import { notInTransaction } from '../sql/index.ts'
import { canPrepare } from './client.ts'
import { classify } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'
import { asResult, assertFits, isLarge, queryOf, sizeOfAll } from './send.ts'
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
  /** The statement that is being run, and those behind it. */
  readonly _command?: unknown
  readonly _commands?: { peekBack?(): unknown }
}

/** A savepoint, and how many publishes it is the mark of. */
interface Mark {
  readonly name: string
  readonly set: Queued
  users: number
}

/** The marks of each connection, in the order in which they were set. */
const marks = new WeakMap<Raw, Mark[]>()

/**
 * A transaction of the user's own, from the instant in which it was entered. A savepoint marks it: it is gone as soon as the
 * transaction ends, or is rolled back to an earlier savepoint, and releasing it then is a harmless error. That check and the
 * statement behind it are put into the queue together, so that nothing comes in between; if the check fails, the statement is not sent.
 *
 * To release a savepoint takes along those that were set after it, also the marks of other publishes on this connection: a check
 * releases these first, the last one first, and sets those again that were there.
 */
export class OwnTransaction implements EnteredExecutor {
  readonly own = true
  readonly checks = true
  readonly #client: MysqlClient
  readonly #raw: Raw
  readonly #marks: Mark[]
  readonly #mark: Mark
  #left = false

  constructor(client: MysqlClient) {
    this.#client = client
    this.#raw = rawOf(client)
    this.#marks = marks.get(this.#raw) ?? []
    marks.set(this.#raw, this.#marks)
    const last = this.#marks.at(-1)
    // Many publishes of one instant have one mark.
    this.#mark = last !== undefined && last.set === lastOf(this.#raw) ? last : this.#setMark()
    this.#mark.users += 1
  }

  async query(text: string, params: readonly Param[]): Promise<Result> {
    const statement = { text, params }
    const large = isLarge(this.#client, statement)
    if (large) {
      await sessionOf(this.#client)
      assertFits(this.#client, sizeOfAll(this.#client, statement))
    }
    return asResult(this.#client, await this.#behindCheck(queryOf(this.#client, statement), large))
  }

  leave(): void {
    if (this.#left) return
    this.#left = true
    this.#mark.users -= 1
    // Not while a later one is needed, which would go with it.
    for (let last = this.#marks.at(-1); last?.users === 0; last = this.#marks.at(-1)) {
      this.#marks.pop()
      this.#release(last, () => {})
    }
  }

  #behindCheck(query: MysqlQuery, large: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const later = this.#marks.slice(this.#marks.indexOf(this.#mark) + 1)
      for (const each of later.toReversed()) this.#release(each, (error) => error && skip(others[later.indexOf(each)]))
      this.#release(this.#mark, (error) => {
        if (error === null || error === undefined) return
        for (const each of [again, statement]) skip(each)
        reject(
          classify(error) === 'gone' ? notInTransaction('one that has not been begun, or has ended', error) : error,
        )
      })
      const again = this.#put('savepoint', this.#mark.name)
      const others = later.map(({ name }) => this.#put('savepoint', name))
      const done: Callback = (error, answer) => (error ? reject(error) : resolve(answer))
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

  #setMark(): Mark {
    const name = `hapax_${crypto.randomUUID().replaceAll('-', '')}`
    const mark = { name, set: this.#put('savepoint', name), users: 0 }
    this.#marks.push(mark)
    return mark
  }

  /** Whether it works shows when it is released. */
  #put(what: 'savepoint' | 'release savepoint', name: string, done: Callback = () => {}): Queued {
    return this.#raw.query({ sql: `${what} ${name}` }, done)
  }

  #release({ name }: Mark, done: Callback): void {
    this.#put('release savepoint', name, done)
  }
}

function rawOf(client: object): Raw {
  const { connection }: { connection?: Raw } = client
  if (typeof connection?.query !== 'function') throw notInTransaction('something that is no connection')
  return connection
}

function skip(queued: Queued | undefined): void {
  if (queued !== undefined) queued.start = () => null
}

/** The statement that a connection sends last, as things are; undefined: none, or it does not tell. */
function lastOf({ _command, _commands }: Raw): unknown {
  return _commands?.peekBack?.() ?? _command
}
