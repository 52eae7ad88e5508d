// Savepoints as marks of a transaction on a connection of `mysql2`, which sends what it is given in that order, one statement at a time.

/** What `mysql2` calls with the outcome of a statement; at once where the connection is closed. */
export type MysqlCallback = (error: Error | null, answer?: unknown) => void

/** A statement in the queue of a connection. `mysql2` itself skips one in this way, whose preparation has failed. */
export interface MysqlQueued {
  start: () => null
}

/** The connection under the promises. */
export interface MysqlQueue {
  query(query: { readonly sql: string; readonly values?: unknown[] }, done: MysqlCallback): MysqlQueued
  /** The statement that is being run, and those behind it. */
  readonly _command?: unknown
  readonly _commands?: { peekBack?(): unknown }
}

/** A savepoint, and how many publishes it is the mark of. */
interface Mark {
  readonly name: string
  readonly set: MysqlQueued
  users: number
}

/** The marks of each connection, in the order in which they were set. */
const marks = new WeakMap<MysqlQueue, Mark[]>()

/** Whether a value is a connection of `mysql2` in callback style. */
export function isMysqlQueue(value: unknown): value is MysqlQueue {
  const { query, _commands }: { query?: unknown; _commands?: { peekBack?: unknown } } = Object(value)
  return typeof query === 'function' && typeof _commands?.peekBack === 'function'
}

/**
 * Marks the transaction that a connection is in at this instant. The savepoint is gone as soon as the transaction ends, or is rolled back to
 * an earlier savepoint, and releasing it then is a harmless error. That check and the statement behind it are put into the queue together,
 * so that nothing comes in between; if the check fails, the statement is not sent.
 *
 * To release a savepoint takes along those that were set after it, also the marks of other publishes on this connection: a check
 * releases these first, the last one first, and sets those again that were there.
 */
export class MysqlMark {
  readonly #queue: MysqlQueue
  readonly #marks: Mark[]
  readonly #mark: Mark
  #left = false

  constructor(queue: MysqlQueue) {
    this.#queue = queue
    this.#marks = marks.get(queue) ?? []
    marks.set(queue, this.#marks)
    const last = this.#marks.at(-1)
    // Many publishes of one instant have one mark.
    this.#mark = last !== undefined && last.set === lastOf(queue) ? last : this.#setMark()
    this.#mark.users += 1
  }

  /** Puts the check and a statement into the queue, and resolves with its answer. `gone`: what a check that failed means. */
  behindCheck(send: (done: MysqlCallback) => MysqlQueued, gone: (error: Error) => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const later = this.#marks.slice(this.#marks.indexOf(this.#mark) + 1)
      const others: MysqlQueued[] = []
      for (const each of later.toReversed()) this.#release(each, (error) => error && skip(others[later.indexOf(each)]))
      const behind: MysqlQueued[] = []
      let failed = false
      this.#release(this.#mark, (error) => {
        if (error === null || error === undefined) return
        failed = true
        for (const each of behind) skip(each)
        reject(gone(error))
      })
      // A connection that is closed has told so at once.
      if (failed) return
      behind.push(this.#put('savepoint', this.#mark.name))
      for (const { name } of later) others.push(this.#put('savepoint', name))
      behind.push(send((error, answer) => (error ? reject(error) : resolve(answer))))
    })
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

  #setMark(): Mark {
    const name = `hapax_${crypto.randomUUID().replaceAll('-', '')}`
    const mark = { name, set: this.#put('savepoint', name), users: 0 }
    this.#marks.push(mark)
    return mark
  }

  /** Whether it works shows when it is released. */
  #put(what: 'savepoint' | 'release savepoint', name: string, done: MysqlCallback = () => {}): MysqlQueued {
    return this.#queue.query({ sql: `${what} ${name}` }, done)
  }

  #release({ name }: Mark, done: MysqlCallback): void {
    this.#put('release savepoint', name, done)
  }
}

function skip(queued: MysqlQueued | undefined): void {
  if (queued !== undefined) queued.start = () => null
}

/** The statement that a connection sends last, as things are; undefined: none, or it does not tell. */
function lastOf({ _command, _commands }: MysqlQueue): unknown {
  return _commands?.peekBack?.() ?? _command
}
