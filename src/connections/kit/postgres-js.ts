// One transaction on one connection of postgres.js. Not by `sql.begin`: after the link of a transaction has broken, the driver itself writes
// ROLLBACK to a socket that is gone, and the error ends the process. Nothing is sent here unless the connection is there and serves
// this transaction.

import { readFile } from 'node:fs/promises'
import { expected, fieldOf, HapaxError, transactionClosed } from '../../base/index.ts'
import { NotSent, notInTransaction } from '../../stores/sql/index.ts'
import type { Track } from './orm.ts'

/** A query of postgres.js: a promise that is sent when somebody waits for it. */
interface Query extends PromiseLike<unknown> {
  /** Sends it. */
  handler: ((query: Query) => void) & { debug?: unknown }
  /** Of the connection on which it was sent. */
  readonly state: object | null
  readonly cancelled: unknown
  strings: readonly string[]
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** `sql` of postgres.js, as it is called here. */
export interface Sql {
  (...args: unknown[]): unknown
  unsafe(text: string, values?: readonly unknown[], options?: object): Query
  file(...args: unknown[]): Query
}

/** A connection of postgres.js, as it shows itself to `onexecute`, and to `sql.begin` by this. */
interface Wire {
  queue: { remove(wire: Wire): unknown }
  /** Called when an answer is complete. Unless it has `release`, the connection goes back to the pool with the end of the transaction. */
  reserved: Reserved | null
  onclose: ((error: unknown) => void) | null
  /** Whether it takes another query before it has answered this one. */
  execute(query: Query): unknown
  terminate(): void
}

type Reserved = (() => void) & { release: boolean }

/** What belongs to one handle of a transaction. */
interface Gate {
  isClosed(): boolean
  readonly track?: Track
  failed?(error: unknown): void
}

/** In none of the driver's queues: it takes no statements of others. */
const ASIDE: Wire['queue'] = { remove: () => null }
const ALWAYS: Gate = { isClosed: () => false }

/** A session at the server, by which it is known whether handlers have left something behind in it. */
export interface PostgresJsLink {
  readonly pid: unknown
  /** Its transaction at the moment. */
  session: PostgresJsSession
}

const links = new WeakMap<Wire, PostgresJsLink>()

export class PostgresJsSession {
  /** For hapax's own statements. */
  readonly own: object
  link: PostgresJsLink
  readonly #sql: Sql
  readonly #wire: Wire
  readonly #reserved: Reserved
  readonly #queue: Query[] = []
  readonly #running = new Set<Query>()
  /** Why nothing is sent any more. */
  #over: unknown
  /** The connection takes nothing until it has answered. At first it answers BEGIN. */
  #isTaken = true
  #savepoints = 0

  constructor(sql: Sql, wire: Wire) {
    this.#sql = sql
    this.#wire = wire
    this.#reserved = Object.assign(() => this.#next(), { release: true })
    this.own = this.handle(ALWAYS)
    this.link = { pid: undefined, session: this }
    wire.queue.remove(wire)
    wire.queue = ASIDE
    wire.reserved = this.#reserved
    wire.onclose = (error) => this.#stop(error)
  }

  static async begin(sql: Sql, text: string): Promise<PostgresJsSession> {
    const begun: { session?: PostgresJsSession } = {}
    const onexecute = (wire: unknown): void => {
      if (isWire(wire)) begun.session = new PostgresJsSession(sql, wire)
    }
    try {
      const answer = await unlessStale(() => sql.unsafe(text, [], { onexecute }))
      begun.session?.linked(fieldOf(fieldOf(answer, 'state'), 'pid'))
    } catch (error) {
      begun.session?.destroy()
      throw error
    }
    return begun.session ?? expected('sql', 'that of postgres.js 3.4.9 or later', sql)
  }

  /** A connection that the driver has closed and opened again is another session. */
  linked(pid: unknown): void {
    const known = links.get(this.#wire)
    this.link = known !== undefined && known.pid === pid ? known : { pid, session: this }
    this.link.session = this
    links.set(this.#wire, this.link)
  }

  /** A handle as `sql.begin` gives it to its callback. */
  handle(gate: Gate): object {
    const sql = this.#sql
    const mine = <T>(made: T): T => {
      if (isQuery(made)) through(made, (query) => this.#send(query, gate))
      return made
    }
    const unsafe = (...args: Parameters<Sql['unsafe']>): Query => mine(sql.unsafe(...args))
    return Object.assign((...args: unknown[]) => mine(sql(...args)), {
      types: fieldOf(sql, 'types'),
      typed: fieldOf(sql, 'typed'),
      json: fieldOf(sql, 'json'),
      array: fieldOf(sql, 'array'),
      unsafe,
      file: (...args: unknown[]) => through(sql.file(...args), (query) => this.#sendFile(String(args[0]), query, gate)),
      // That of the driver is sent at once, on another connection.
      notify: (channel: string, payload: unknown) => unsafe('select pg_notify($1, $2)', [channel, String(payload)]),
      savepoint: (...args: unknown[]) => this.#savepoint(gate, args),
      prepare: () => expected('the transaction', 'committed by hapax', 'PREPARE TRANSACTION'),
    })
  }

  get isBusy(): boolean {
    return this.#running.size > 0
  }

  async commit(): Promise<void> {
    if (this.#over !== undefined) throw new NotSent(this.#over)
    const answer = await this.#end('commit')
    if (fieldOf(answer, 'command') === 'COMMIT') return
    throw new HapaxError('transaction-aborted', 'the database rolled the transaction back at COMMIT')
  }

  /** Without the link there is nothing to roll back. */
  async rollback(): Promise<void> {
    if (this.#over === undefined) await this.#end('rollback').catch(() => {})
  }

  /** Ends the connection without waiting for what is under way. */
  destroy(): void {
    this.#stop(Object.assign(new Error('the connection was ended'), { code: 'CONNECTION_DESTROYED' }))
    // After what the driver writes in this turn of the event loop: it would never connect again with a write that was called off.
    setImmediate(() => {
      if (this.#isOurs) this.#wire.terminate()
    })
  }

  /** False: it is closed, or has gone back to the pool. */
  get #isOurs(): boolean {
    return this.#wire.reserved === this.#reserved
  }

  async #end(text: 'commit' | 'rollback'): Promise<unknown> {
    const query = this.#sql.unsafe(text)
    through(query, () => this.#submit(query))
    this.#over = transactionClosed()
    this.#reserved.release = false
    try {
      return await query
    } catch (error) {
      this.destroy()
      throw error
    }
  }

  #send(query: Query, { isClosed, track, failed }: Gate): void {
    if (this.#over !== undefined || isClosed()) {
      query.reject(this.#over ?? transactionClosed())
      return
    }
    const outcome = this.#submit(query)
    track?.(outcome)
    outcome.catch((error: unknown) => failed?.(error))
  }

  async #sendFile(path: string, query: Query, gate: Gate): Promise<void> {
    try {
      query.strings = [await readFile(path, 'utf8')]
    } catch (error) {
      return query.reject(error)
    }
    this.#send(query, gate)
  }

  #submit(query: Query): Promise<unknown> {
    this.#running.add(query)
    const outcome = settling(query, () => this.#running.delete(query))
    // Whoever waits for the query itself is told.
    outcome.catch(() => {})
    if (this.#isTaken) this.#queue.push(query)
    else this.#execute(query)
    return outcome
  }

  #execute(query: Query): void {
    try {
      this.#isTaken = !this.#wire.execute(query)
    } catch (error) {
      query.reject(error)
    }
  }

  #next(): void {
    this.#isTaken = false
    while (!this.#isTaken) {
      const query = this.#queue.shift()
      if (query === undefined) return
      // The driver has rejected those that were cancelled before they were sent.
      if (query.cancelled) continue
      this.#execute(query)
    }
  }

  #stop(error: unknown): void {
    this.#over ??= error
    this.#queue.length = 0
    // The driver forgets those that it has not sent.
    for (const query of [...this.#running]) query.reject(error)
  }

  /** As that of `sql.begin`: rolled back if the callback rejects, or if one of its statements has failed. */
  async #savepoint(gate: Gate, args: unknown[]): Promise<unknown> {
    const work = args.at(-1)
    if (typeof work !== 'function') return expected('fn', 'a function', work)
    const name = args.length > 1 && args[0] ? `_${String(args[0])}` : ''
    const point = `"s${this.#savepoints++}${name.replaceAll('"', '""')}"`
    const failures: unknown[] = []
    const inner = this.handle({ ...gate, failed: (error) => failures.push(error) })
    const put = (text: string): Query => through(this.#sql.unsafe(text), (query) => this.#send(query, gate))
    await put(`savepoint ${point}`)
    try {
      const made: unknown = work(inner)
      const value = await (Array.isArray(made) ? Promise.all(made) : made)
      if (failures.length > 0) throw failures[0]
      return value
    } catch (error) {
      await put(`rollback to ${point}`)
      throw fieldOf(error, 'code') === '25P02' && failures.length > 0 ? failures[0] : error
    }
  }
}

/**
 * A connection that was ended in the middle of a query keeps the error of the server, and rejects the next query that connects it again,
 * without sending it. One of them for each connection, at most.
 */
export async function unlessStale(make: () => Query): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const query = make()
    try {
      return await query
    } catch (error) {
      if (query.state !== null || tries === MOST_TRIES || !/^57P0[12]$/.test(String(fieldOf(error, 'code'))))
        throw error
    }
  }
}

const MOST_TRIES = 100

/** The connection of a transaction that `sql.begin` has opened, and whether it still serves it. */
interface Owned {
  isOver?: () => boolean
}

const owned = new WeakMap<object, Owned>()
const LOOK_MS = 50

/** In a transaction of the user's own: the driver forgets what still waits there when it ends, and never settles it. */
export async function inOwn(tx: Pick<Sql, 'unsafe'>, text: string, params: readonly unknown[]): Promise<unknown> {
  const known = owned.get(tx) ?? lookedUp(tx)
  // Sent nevertheless, it would end the process: the driver writes to a socket that is gone.
  if (known.isOver?.()) throw notInTransaction('one that has ended')
  const query = tx.unsafe(text, params)
  const looking = setInterval(() => {
    if (query.state === null && known.isOver?.()) query.reject(notInTransaction('one that has ended'))
  }, LOOK_MS)
  try {
    return await query
  } finally {
    clearInterval(looking)
  }
}

/** Travels together with the statement behind it. */
function lookedUp(tx: Pick<Sql, 'unsafe'>): Owned {
  const found: Owned = {}
  owned.set(tx, found)
  const onexecute = (wire: unknown): true => {
    const reserved = fieldOf(wire, 'reserved')
    found.isOver = () => fieldOf(wire, 'reserved') !== reserved
    return true
  }
  const ignored = (): void => {}
  tx.unsafe('select 1', [], { onexecute }).then(ignored, ignored)
  return found
}

function through(query: Query, send: (query: Query) => unknown): Query {
  query.handler = Object.assign(() => void send(query), { debug: query.handler.debug })
  return query
}

/** Settles with a query. Not by its promise: that of a cursor never settles, and `next` replaces these methods. */
function settling(query: Query, done: () => void): Promise<unknown> {
  const { promise, ...settle } = Promise.withResolvers<unknown>()
  for (const name of ['resolve', 'reject'] as const) {
    let its = query[name]
    const both = (value: unknown): void => {
      done()
      settle[name](value)
      its(value)
    }
    Object.defineProperty(query, name, {
      get: () => both,
      set: (next: typeof its) => {
        its = next
      },
    })
  }
  return promise
}

function isQuery(value: unknown): value is Query {
  return typeof fieldOf(value, 'handler') === 'function' && typeof fieldOf(value, 'reject') === 'function'
}

function isWire(value: unknown): value is Wire {
  const methods = ['execute', 'terminate'].every((name) => typeof fieldOf(value, name) === 'function')
  return methods && typeof fieldOf(fieldOf(value, 'queue'), 'remove') === 'function'
}
