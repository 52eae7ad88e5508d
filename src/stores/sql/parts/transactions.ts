import type { Interrupt, Isolation } from '../../../base/index.ts'
import {
  HapaxError,
  isHapaxError,
  isolationOption,
  pause,
  systemClock,
  unstorable,
  within,
} from '../../../base/index.ts'
import type {
  Connection,
  Entered,
  Executor,
  FinalFailure,
  InboxRow,
  LocalWrites,
  Opening,
  Result,
  Statement,
  StoreTransactions,
  TransactionEnd,
  Unit,
  UnitEnd,
  UnitOptions,
  Writes,
} from '../../../contracts/index.ts'
import { compareSeq } from '../../../message/index.ts'
import { isCutOff } from '../connection/driver.ts'
import { brokenAtomicity, type Fate, type Phase, type StoreErrors } from '../connection/store-errors.ts'
import type { Backend, Dialect, LastLocal } from '../dialect/dialect.ts'
import { assertSchemaFits } from '../migrate.ts'
import { asInboxRow, isFollowed } from '../rows.ts'
import { asSeq } from '../values.ts'
import { bringForward } from './aside.ts'
import type { SqlContext } from './context.ts'
import { SqlEntered } from './entered.ts'
import { existingOf, taking } from './taking.ts'
import { NO_ROWS, NO_SEQS, SqlUnit } from './unit.ts'

/** The transactions of handlers: what they open with, what guards them, what they write last, and how they are ended in time. */
export class SqlTransactions<Tx, Own> implements StoreTransactions<Tx, Own> {
  readonly #context: SqlContext<Tx, Own>
  readonly #connection: Connection<Tx, Own>
  readonly #dialect: Dialect
  readonly #errors: StoreErrors
  /** Whether a transaction has checked the schema: not every process starts a worker, which also checks it. */
  #fits = false

  constructor(context: SqlContext<Tx, Own>) {
    this.#context = context
    this.#connection = context.connection
    this.#dialect = context.dialect
    this.#errors = context.errors
  }

  enter(tx: Tx | Own): Entered {
    const connection = this.#connection
    return new SqlEntered(connection.enter(tx), () => connection.mostBytes(tx), this.#context)
  }

  isOnPool(pool: object): boolean {
    return this.#connection.isOnPool?.(pool) === true
  }

  async run<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T> {
    const opened = made(() => this.#opening(options, opening))
    const { signal, acquired } = options
    const isolation = isolationOption(options.isolation)
    // Without receipts or rows to wait for, it is a wait like that for a connection of a pool.
    const lockTimeoutMs = opening.kind === 'plain' ? undefined : options.lockTimeoutMs
    let backend: Backend | undefined
    let phase: Phase = 'opening'
    let ending: Promise<Fate> | undefined
    // A handler that listens to the signal may return at once: what counts is how far it had come by then.
    let endedIn: Phase | undefined
    let mayHaveEnded = (): boolean | undefined => undefined
    const end = (): void => {
      endedIn = phase
      ending = backend && this.#terminate(backend)
    }
    try {
      return await this.#connection.transaction(
        { isolation, signal, acquired, lockTimeoutMs, classify: this.#dialect.classify, doomOf: this.#dialect.doomOf },
        {
          first: opened.statements,
          body: async (tx, answers) => {
            const own = answers.slice(opened.from, opened.to)
            if (opened.looks) {
              assertSchemaFits(this.#dialect, answers[opened.to] ?? NO_ANSWER)
              this.#fits = true
            }
            backend = signal && this.#dialect.transactions.backend(own)
            mayHaveEnded = () => this.#connection.mayHaveEnded?.(tx)
            signal?.addEventListener('abort', end, { once: true })
            const unit = new SqlUnit<Tx>(tx, this.#connection, this.#checking)
            // Awaiting only what has to be waited for: this is the path of every message.
            const filling = this.#fill(unit, opening, own, isolation)
            if (filling instanceof Promise) await filling
            phase = 'body'
            try {
              const result = await body(unit)
              if (!this.#fits && writesRows(result.writes)) await this.#assertFits(unit.executor)
              const settling = result.writes === undefined ? undefined : this.#connection.settle?.(tx)
              if (settling !== undefined) await settling
              const ending = made(() => this.#end(unit, result))
              const last = ending instanceof Promise ? await ending : ending
              // An error up to here is known to come before the commit: no part of that has been sent.
              phase = 'committing'
              return last
            } catch (error) {
              throw await this.#culprit(unit, signal, error)
            }
          },
        },
      )
    } catch (error) {
      // What comes next would wait for the locks of the transaction that is being ended.
      const fate = await ending
      // Its link is destroyed, but the server may not notice before the end of what was left open.
      const cut = backend !== undefined && isCutOff(error) ? await this.#terminate(backend) : undefined
      const thrown = this.#errors.ofTransaction(error, endedIn ?? phase, signal)
      // The COMMIT that is sent after the body is not the handler's.
      const inBody = (endedIn ?? phase) === 'body'
      const doubt = inBody ? mayHaveEnded() : undefined
      if (endedIn === 'body') throw this.#errors.ofFate(thrown, fate, doubt)
      // The guard could not be checked.
      const unseen = isCutOff(error) || isHapaxError(thrown, 'transaction-lost')
      if (!unseen || doubt === false) throw thrown
      if (doubt) throw this.#errors.inDoubt(thrown)
      // The database may tell what the handler did to its transaction.
      const found = backend && inBody && !isCutOff(error) ? await this.#terminate(backend) : cut
      throw found === 'committed' ? brokenAtomicity(thrown) : thrown
    } finally {
      signal?.removeEventListener('abort', end)
    }
  }

  #opening(options: UnitOptions, opening: Opening): Opened {
    const dialect = this.#dialect
    const settings = dialect.transactions.settings(options, opening.kind)
    const own =
      opening.kind === 'take'
        ? taking(dialect, options, opening)
        : opening.kind === 'claim'
          ? this.#claim(options, opening)
          : opening.kind === 'settle'
            ? this.#settle(options, opening)
            : opening.kind === 'fail'
              ? this.#fail(options, opening)
              : []
    // A plain transaction may have nothing to do with the tables: it is checked before it writes to them.
    const looks = !this.#fits && opening.kind !== 'plain'
    const statements = [
      ...settings,
      ...own,
      ...(looks ? [dialect.schema.applied] : []),
      ...dialect.transactions.guard.set,
    ]
    const from = settings.length
    return { statements, from, to: from + own.length, looks }
  }

  /** Waiting comes first, as a statement of its own: the claim's snapshot has to be younger than what was waited for. */
  #claim(
    { lockTimeoutMs, isolation }: UnitOptions,
    { seqs, locked, aged }: Opening & { kind: 'claim' },
  ): readonly Statement[] {
    const claim = this.#dialect.inbox.claim(seqs, isolation, aged)
    return locked === 'skip' ? [claim] : [this.#dialect.inbox.lockAll(seqs, lockTimeoutMs, isolation), claim]
  }

  /** Whether the row is there at all has to be known as well. */
  #settle({ lockTimeoutMs, isolation }: UnitOptions, { lease }: Opening & { kind: 'settle' }): readonly Statement[] {
    return [this.#dialect.inbox.lockAll([lease.seq], lockTimeoutMs, isolation), this.#dialect.leases.settle(lease)]
  }

  /** Waiting comes first, as for a claim. */
  #fail({ lockTimeoutMs, isolation }: UnitOptions, { row }: Opening & { kind: 'fail' }): readonly Statement[] {
    const { seq, leaseToken } = row
    return [this.#dialect.inbox.lockAll([seq], lockTimeoutMs, isolation), this.#dialect.inbox.lock(seq, leaseToken)]
  }

  /** Puts into the unit what its first statements have found. */
  #fill(
    unit: SqlUnit<Tx>,
    opening: Opening,
    answers: readonly Result[],
    isolation: Isolation | undefined,
  ): Promise<unknown> | undefined {
    if (opening.kind === 'plain') return undefined
    if (opening.kind !== 'take') return this.#fillRows(unit, opening, answers, isolation)
    const existing = existingOf(this.#dialect, opening, answers, () => unit.executor)
    if (existing instanceof Promise) return existing.then((found) => unit.with({ existing: found }))
    if (existing !== undefined) unit.with({ existing })
    return undefined
  }

  async #fillRows(
    unit: SqlUnit<Tx>,
    opening: Exclude<Opening, { kind: 'take' | 'plain' }>,
    answers: readonly Result[],
    isolation: Isolation | undefined,
  ): Promise<unknown> {
    const { executor } = unit
    if (opening.kind === 'fail') {
      const moved = await this.#failed(executor, opening.row, answers.at(-1))
      if (moved.size > 0) await unit.border()
      return unit.with({ present: moved })
    }
    const locked = opening.kind === 'settle' || opening.locked === 'wait' ? answers[0]?.rows : undefined
    const present = locked === undefined ? NO_SEQS : new Set(locked.map((row) => asSeq(row['seq'])))
    const claimed =
      opening.kind === 'settle'
        ? await this.#settled(executor, answers.at(-1))
        : await this.#claimed(executor, answers.at(-1), isolation)
    // A handler that rolls back to the guard must not undo what was written after it, or the message would run again and again.
    const wrote = !this.#dialect.inbox.claimDeletes || answers.at(-1)?.rows.some(isFollowed)
    if (wrote && claimed.size > 0) await unit.border()
    return unit.with({ present, claimed })
  }

  /** Moved first, for the same reason as claimed rows. */
  async #failed(executor: Executor, row: FinalFailure, answer: Result | undefined): Promise<ReadonlySet<string>> {
    if (answer?.rows.length !== 1) return NO_SEQS
    for (const { text, params } of intoFailed(this.#dialect, row)) await executor.query(text, params)
    return new Set([row.seq])
  }

  async #settled(executor: Executor, answer: Result | undefined): Promise<ReadonlyMap<string, InboxRow>> {
    const rows = answer?.rows.map(asInboxRow) ?? []
    if (rows.length === 0) return NO_ROWS
    const seqs = rows.map((row) => row.seq)
    const statements = this.#dialect.inbox.claimDeletes ? [] : this.#dialect.inbox.delete(seqs)
    for (const { text, params } of statements) await executor.query(text, params)
    await this.#letNext(executor, answer, rows)
    return new Map(rows.map((row) => [row.seq, row]))
  }

  /** The rows are deleted first, not last: a handler that commits by itself commits their removal too, and they do not run again. */
  async #claimed(
    executor: Executor,
    answer: Result | undefined,
    isolation: Isolation | undefined,
  ): Promise<ReadonlyMap<string, InboxRow>> {
    const rows = answer?.rows.map(asInboxRow) ?? []
    if (rows.length === 0) return NO_ROWS
    const claimed = this.#dialect.inbox.claimDeletes ? rows : await this.#inOrder(executor, rows, isolation)
    await this.#letNext(executor, answer, claimed)
    return new Map(claimed.sort((a, b) => compareSeq(a.seq, b.seq)).map((row) => [row.seq, row]))
  }

  /** Where rows stand aside behind what was deleted, the next one is looked at from now on. */
  async #letNext(executor: Executor, answer: Result | undefined, deleted: readonly InboxRow[]): Promise<void> {
    const followed = new Set(answer?.rows.filter(isFollowed).map((row) => asSeq(row['seq'])))
    const rows = followed.size === 0 ? [] : deleted.filter((row) => followed.has(row.seq))
    if (rows.length > 0) await bringForward(this.#dialect, executor, rows)
  }

  /** What `claimDeletes` stands for, where the database cannot do it in one statement. */
  async #inOrder(executor: Executor, rows: InboxRow[], isolation: Isolation | undefined): Promise<InboxRow[]> {
    const kept = await notBlocked(this.#context, executor, rows, isolation)
    if (kept.length === 0) return kept
    for (const { text, params } of this.#dialect.inbox.delete(kept.map((row) => row.seq))) {
      await executor.query(text, params)
    }
    return kept
  }

  async #assertFits(executor: Executor): Promise<void> {
    const { text, params } = this.#dialect.schema.applied
    const answer = await executor.query(text, params).catch((error: unknown) => {
      throw this.#errors.ofQuery(error)
    })
    assertSchemaFits(this.#dialect, answer)
    this.#fits = true
  }

  readonly #checking = (executor: Executor): Promise<void> => this.#check(executor)

  async #check(executor: Executor): Promise<void> {
    try {
      for (const { text, params } of this.#dialect.transactions.guard.check) await executor.query(text, params)
    } catch (error) {
      throw this.#errors.ofGuard(error)
    }
  }

  /** What a body that failed rejects with: finds out whether the transaction was still ours. */
  async #culprit(unit: SqlUnit<Tx>, signal: Interrupt | undefined, error: unknown): Promise<unknown> {
    // The abort has destroyed the connection already.
    if (signal?.aborted) return error
    try {
      for (const { text, params } of this.#dialect.transactions.guard.rollback) await unit.executor.query(text, params)
    } catch (guardError) {
      const gone = this.#dialect.classify(guardError) === 'gone' || isHapaxError(guardError, 'broken-atomicity')
      if (gone && !this.#dialect.transactions.isEndedBy(error)) return brokenAtomicity(error)
    }
    return error
  }

  #end<T>(unit: SqlUnit<Tx>, { value, writes }: UnitEnd<T>): TransactionEnd<T> | Promise<TransactionEnd<T>> {
    if (writes === undefined) return { value, last: undefined }
    const last = [...this.#dialect.transactions.guard.release, ...this.#writes(writes)]
    const { local } = writes
    if (local === undefined) return { value, last }
    const token = this.#context.random.token()
    const own = this.#dialect.lastLocal(local.rows, token)
    return own === undefined
      ? this.#early(unit.executor, value, last, local, token)
      : withLocal(value, last, local, own)
  }

  #writes({ inbox, failed, outbox, response }: Writes): readonly Statement[] {
    const dialect = this.#dialect
    return [
      ...(inbox?.length ? dialect.inbox.insert(inbox) : []),
      ...(failed?.length ? dialect.failing.insert(failed) : []),
      ...(outbox?.length ? dialect.outbox.insert(outbox) : []),
      ...(response === undefined ? [] : dialect.responses.write(response)),
    ]
  }

  /** Writes local messages before the last statements. */
  async #early<T>(
    executor: Executor,
    value: T,
    last: readonly Statement[],
    local: LocalWrites,
    token: string,
  ): Promise<TransactionEnd<T>> {
    // Checked first: if the handler ended the transaction, these inserts would commit by themselves.
    await this.#check(executor)
    try {
      const results = await this.#dialect.writeLocal(executor, local.rows, token)
      return { value, last, committed: () => local.committed(results) }
    } catch (error) {
      throw this.#errors.inside(error)
    }
  }

  /** Ends a transaction that outlived its time from another connection; its own may be busy with a statement. */
  async #terminate(backend: Backend): Promise<Fate> {
    // A file is never elsewhere: what does not answer there waits for its turn.
    const unreachable = this.#dialect.parallelWriters ? 'elsewhere' : undefined
    const { calls } = this.#context
    const silent = (): Fate => (calls.isSilent(TERMINATE_MS) ? unreachable : undefined)
    let fate = silent()
    const late = new AbortController()
    const asked: Asked = {
      // From now on it is the server that does not answer. Without a connection, all of them may be in use, by what does not get an answer either.
      acquired: () => {
        fate = unreachable
      },
      answered: () => {
        fate = undefined
      },
    }
    try {
      const ended = this.#ended(backend, asked, late.signal)
      const giveUp = (): Fate => {
        late.abort()
        return fate ?? silent()
      }
      return await within(systemClock, TERMINATE_MS, ended, giveUp, 'awake')
    } catch (error) {
      // The link was cut as well; the database ends the transaction by its own timeout at the latest.
      return isHapaxError(error, 'store-unavailable') ? unreachable : undefined
    }
  }

  async #ended(backend: Backend, { acquired, answered }: Asked, late: AbortSignal): Promise<Fate> {
    const { calls } = this.#context
    await calls.run(this.#dialect.transactions.terminate(backend), undefined, acquired).catch((error: unknown) => {
      if (isHapaxError(error, 'store-unavailable')) throw error
    })
    answered()
    const statement = this.#dialect.transactions.fate(backend)
    if (statement === undefined) return undefined
    // Once its server has told that it goes on, nothing but the handler is slow.
    for (let told = false; ; told = true) {
      const answer = await calls.run(statement, undefined, told ? undefined : acquired)
      answered()
      const fate = answer.rows[0]?.['fate']
      if (fate === 'committed' || fate === 'aborted' || fate === 'elsewhere') return fate
      if (fate !== 'in progress' || late.aborted) return undefined
      await pause(systemClock, FATE_MS)
    }
  }
}

function writesRows(writes: Writes | undefined): boolean {
  return (
    writes !== undefined &&
    Object.values(writes).some((each) => (Array.isArray(each) ? each.length > 0 : each !== undefined))
  )
}

/** The first statements of a transaction: the position of its opening, and whether a schema check follows. */
interface Opened {
  readonly statements: readonly Statement[]
  readonly from: number
  readonly to: number
  readonly looks: boolean
}

const NO_ANSWER: Result = { rows: [], affected: 0 }

/** How far a question about a transaction has come. */
interface Asked {
  acquired(): void
  answered(): void
}

/** Moves an inbox row that is locked into the failed store; it goes, or stays and holds its key. */
export function intoFailed(dialect: Dialect, row: FinalFailure): readonly Statement[] {
  const then = row.hold
    ? [dialect.inbox.hold(row)]
    : [dialect.aside.inbox.forwardBehind([row.seq]), ...dialect.inbox.delete([row.seq])]
  return [dialect.failing.inbox(row), dialect.held.inbox.keepNumber(row.seq), ...then]
}

/** Those that have no older row of their key outside these. */
export async function notBlocked<Tx, Own>(
  { calls, dialect }: SqlContext<Tx, Own>,
  executor: Executor,
  rows: InboxRow[],
  isolation: Isolation | undefined,
): Promise<InboxRow[]> {
  if (!rows.some((row) => row.ordered)) return rows
  const statement = dialect.inbox.blocked(rows.map((row) => row.seq))
  // Every read inside a serializable transaction locks, and would wait; outside, rows that others have locked are there.
  const outside = isolation === 'serializable'
  const answer = await (outside ? calls.run(statement) : executor.query(statement.text, statement.params))
  const blocked = new Set(answer.rows.map((row) => asSeq(row['seq'])))
  return rows.filter((row) => !blocked.has(row.seq))
}

/** Local messages among the last statements. An answer that cannot be read must not hide that they are committed. */
function withLocal<T>(
  value: T,
  last: readonly Statement[],
  local: LocalWrites,
  { statements, results }: LastLocal,
): TransactionEnd<T> {
  const committed = (answers: readonly Result[]): void => {
    try {
      local.committed(results(answers.slice(last.length)))
    } catch {
      // Workers find the rows by looking.
    }
  }
  return { value, last: [...last, ...statements], committed }
}

/** Statements; the values of a message may be larger than a text can be. */
export function made<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw error instanceof HapaxError ? error : unstorable(error)
  }
}

/** How long to wait for the end of a transaction that outlived its time. */
const TERMINATE_MS = 5_000
const FATE_MS = 10
