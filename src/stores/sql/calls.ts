import { ACQUIRE_MS, afterAwake, HapaxError, poolExhausted, systemClock, within } from '../../base/index.ts'
import type { Connection, Result, Statement, TransactionOptions, TransactionWork } from '../../contracts/index.ts'
import { NotSent } from './connection/driver.ts'
import type { StoreErrors } from './connection/store-errors.ts'
import type { Dialect } from './dialect/dialect.ts'
import { assertSchemaFits } from './migrate.ts'

/** Statements and short transactions of hapax's own, without handlers. Each of them ends in time. */
export class SqlCalls<Tx, Own = Tx> {
  readonly #connection: Connection<Tx, Own>
  readonly #dialect: Dialect
  readonly #errors: StoreErrors
  /** What is not answered yet, and when each of these was given its connection. */
  readonly #unanswered = new Set<{ readonly since: number }>()
  #answeredAt = Number.NEGATIVE_INFINITY
  /** Whether the schema was checked: not every process starts a worker, or handles a message. */
  #fits = false

  constructor(connection: Connection<Tx, Own>, dialect: Dialect, errors: StoreErrors) {
    this.#connection = connection
    this.#dialect = dialect
    this.#errors = errors
  }

  /**
   * One statement; again on a new connection if the first one was broken. All of them may be repeated. `acquired` is called when it
   * has a connection.
   */
  async run(statement: Statement, limitMs: number = QUERY_MS, acquired?: () => void): Promise<Result> {
    try {
      return await this.#inTime(statement, limitMs, acquired)
    } catch (error) {
      const stale = this.#dialect.classify(error) === 'lost'
      if (!stale) throw this.#errors.ofQuery(error)
    }
    return this.#inTime(statement, limitMs, acquired).catch((error: unknown) => {
      throw this.#errors.ofQuery(error)
    })
  }

  /** Rejects unless this version can write to the tables; asked once. */
  async assertFits(): Promise<void> {
    if (this.#fits) return
    assertSchemaFits(this.#dialect, await this.run(this.#dialect.schema.applied))
    this.#fits = true
  }

  /** One transaction: a statement, and those that follow from its result; undefined rolls back. Resolves to that result. */
  short(
    first: Statement,
    then: (answer: Result, before: Result | undefined) => readonly Statement[] | undefined,
    where?: CallWhere,
  ): Promise<Result> {
    const body = async (_tx: Tx, answer: Result, before: Result | undefined) => {
      return { value: answer, last: then(answer, before) }
    }
    return this.claiming(first, body, where)
  }

  /** One statement in a transaction with settings of its own, which changes nothing. */
  async look(settings: readonly Statement[], statement: Statement, limitMs: number): Promise<Result> {
    if (settings.length === 0) return this.run(statement, limitMs)
    const limit = new AbortController()
    // The database ends the statement itself, and says so; this is for one that does not respond.
    const cancel = afterAwake(systemClock, limitMs + GRACE_MS, () => limit.abort(late(limitMs)))
    const work: TransactionWork<Tx, Result> = {
      first: [...settings, statement],
      body: async (_tx, answers) => ({ value: answers.at(-1) ?? NO_ANSWER, last: undefined }),
    }
    try {
      return await this.whole(work, { ...CONTROL, signal: limit.signal })
    } finally {
      cancel()
    }
  }

  /** Moves a row between tables if it is still there. */
  async move(lock: Statement, statements: readonly Statement[], where?: CallWhere): Promise<boolean> {
    const there = ({ rows }: Result): boolean => rows.length > 0
    return there(await this.short(lock, (answer) => (there(answer) ? statements : undefined), where))
  }

  /** As `short`, with more to ask in between. */
  async claiming<T>(
    first: Statement,
    body: (
      tx: Tx,
      answer: Result,
      before: Result | undefined,
    ) => Promise<{ readonly value: T; readonly last: readonly Statement[] | undefined }>,
    { before = [], ...where }: CallWhere = {},
  ): Promise<T> {
    await this.assertFits()
    // A process that is paused in here must not keep the rows for long.
    const settings = this.#dialect.transactions.settings(SHORT, 'claim')
    const work: TransactionWork<Tx, T> = {
      first: [...settings, ...before, first],
      body: (tx, answers) => body(tx, answers.at(-1) ?? NO_ANSWER, before.length === 0 ? undefined : answers.at(-2)),
    }
    // The link may be dead although no error was reported.
    const limit = new AbortController()
    let cancel = this.#dialect.parallelWriters
      ? systemClock.after(ACQUIRE_MS, () => limit.abort(poolExhausted(ACQUIRE_MS)))
      : () => {}
    const acquired = (): void => {
      cancel()
      cancel = systemClock.after(SHORT_MS, () => limit.abort(late(SHORT_MS)))
    }
    try {
      return await this.whole(work, { ...where, signal: limit.signal, acquired })
    } finally {
      cancel()
    }
  }

  /** A transaction without a time limit, such as a migration. */
  async whole<T>(work: TransactionWork<Tx, T>, options: CallOptions = {}): Promise<T> {
    try {
      const { classify, doomOf } = this.#dialect
      const open = (acquired: () => void): Promise<T> =>
        this.#connection.transaction({ ...options, acquired, classify, doomOf }, work)
      return await this.#observed(options.acquired, open)
    } catch (error) {
      throw this.#errors.ofQuery(error instanceof NotSent ? error.cause : error)
    }
  }

  /** Whether something has waited so long for its answer, and nothing else got one meanwhile. */
  isSilent(ms: number): boolean {
    const then = systemClock.monotonic() - ms
    return this.#answeredAt < then && [...this.#unanswered].some(({ since }) => since <= then)
  }

  #inTime(statement: Statement, limitMs: number, acquired: (() => void) | undefined): Promise<Result> {
    return this.#observed(acquired, (begun) =>
      within(systemClock, limitMs + GRACE_MS, this.#connection.query(statement, limitMs, begun), () => {
        throw late(limitMs)
      }),
    )
  }

  /** Keeps in mind since when something waits for its answer: from when it has a connection. */
  async #observed<T>(acquired: (() => void) | undefined, ask: (begun: () => void) => Promise<T>): Promise<T> {
    const sent = { since: Number.POSITIVE_INFINITY }
    const begun = (): void => {
      sent.since = systemClock.monotonic()
      acquired?.()
    }
    this.#unanswered.add(sent)
    try {
      const answer = await ask(begun)
      this.#answeredAt = systemClock.monotonic()
      return answer
    } catch (error) {
      if (this.#dialect.answered(error)) this.#answeredAt = systemClock.monotonic()
      throw error
    } finally {
      this.#unanswered.delete(sent)
    }
  }
}

type CallOptions = Omit<TransactionOptions, 'classify' | 'doomOf'>
type CallWhere = Pick<TransactionOptions, 'control'> & {
  /** Statements in front of the first one; they are sent with it. */
  readonly before?: readonly Statement[] | undefined
}

/** What must come through while handlers have all the connections of their pool. */
export const CONTROL: CallWhere = { control: true }

function late(limitMs: number): HapaxError {
  return new HapaxError('store-unavailable', `the database did not answer within ${limitMs} ms`)
}

/** How long heartbeats and looks may take, which others wait for. */
export const CONTROL_MS = 10_000
/** The same for other statements. */
const QUERY_MS = 60_000
/** A connection ends its statement itself; this is for one that does not. */
const GRACE_MS = 1_000
/** The limits of a transaction without handlers. */
const SHORT = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }
/** How long one may take as a whole, once it has a connection. */
const SHORT_MS = 30_000
const NO_ANSWER: Result = { rows: [], affected: 0 }
