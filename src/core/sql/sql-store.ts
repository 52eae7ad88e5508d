import { systemClock, within } from '../clock.ts'
import type {
  Connection,
  Executor,
  Result,
  Statement,
  TransactionEnd,
  TransactionOptions,
  TransactionWork,
} from '../connection.ts'
import { HapaxError } from '../errors.ts'
import { type Random, systemRandom } from '../random.ts'
import type {
  DueOptions,
  FailedFilter,
  FailedMessage,
  InboxRow,
  LocalResult,
  LocalRow,
  Migration,
  MigrationState,
  Opening,
  OutboxRow,
  Receipt,
  Store,
  StoreFeatures,
  StoreStatus,
  Trace,
  Unit,
  UnitEnd,
  UnitOptions,
  Writes,
} from '../store.ts'
import type { Backend, Dialect } from './dialect.ts'
import { migration, migrationScript, migrationStates } from './migrate.ts'
import { asFailed, asInboxRow, asReceipt, asStatus, asTrace } from './rows.ts'
import { brokenAtomicity, type Phase, StoreErrors } from './store-errors.ts'
import { asUuid } from './values.ts'

/** A store on an SQL database: the logic is here, the statements are the dialect's, the transactions the connection's. */
export class SqlStore<Tx, Own = Tx> implements Store<Tx, Own> {
  readonly features: StoreFeatures
  readonly #connection: Connection<Tx, Own>
  readonly #dialect: Dialect
  readonly #random: Random
  readonly #errors: StoreErrors
  #ready = false

  constructor(connection: Connection<Tx, Own>, dialect: Dialect, random: Random = systemRandom) {
    this.#connection = connection
    this.#dialect = dialect
    this.#random = random
    this.#errors = new StoreErrors(dialect)
    const { roundTrips, lateUse, unawaited } = connection.features
    const { isolationLevels, parallelWriters, ownTransactions } = dialect
    this.features = Object.freeze({
      name: connection.features.name,
      isolationLevels,
      parallelWriters,
      ownTransactions,
      durable: true,
      roundTrips,
      lateUse,
      unawaited,
    })
  }

  async ready(): Promise<void> {
    if (this.#ready) return
    const missing = (await this.migrations()).filter((migration) => !migration.applied)
    if (missing.length > 0) {
      throw new HapaxError(
        'schema-outdated',
        `expected the database to have migration ${missing.map((each) => each.version).join(', ')}: run hapax.migrate() or npx hapax migrate`,
        { fields: { missing: missing.map((each) => each.version) } },
      )
    }
    this.#ready = true
  }

  async migrations(): Promise<readonly MigrationState[]> {
    return migrationStates((statement) => this.#run(statement), this.#dialect)
  }

  migrationScript(versions?: readonly number[]): string {
    return migrationScript(this.#dialect, versions)
  }

  async migrate(): Promise<readonly Migration[]> {
    const applied = await this.#admin(migration(this.#dialect, (tx: Tx) => this.#connection.executor(tx)))
    this.#ready = true
    return applied
  }

  async transaction<T>(
    options: UnitOptions,
    opening: Opening,
    body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>,
  ): Promise<T> {
    const opened = this.#opening(options, opening)
    const { isolation, signal, acquired } = options
    // Without receipts or rows to wait for, it is a wait like that for a connection of a pool.
    const lockTimeoutMs = opening.kind === 'plain' ? undefined : options.lockTimeoutMs
    let backend: Backend | undefined
    let phase: Phase = 'opening'
    let ending: Promise<void> | undefined
    // A handler that listens to the signal may return at once: what counts is how far it had come by then.
    let endedIn: Phase | undefined
    const end = (): void => {
      endedIn = phase
      ending = backend && this.#terminate(backend)
    }
    try {
      return await this.#connection.transaction(
        this.#transactionOptions({ isolation, signal, acquired, lockTimeoutMs }),
        {
          first: opened.statements,
          body: async (tx, answers) => {
            const own = answers.slice(opened.from, opened.to)
            backend = signal && this.#dialect.backend(own)
            if (backend !== undefined) signal?.addEventListener('abort', end, { once: true })
            const executor = this.#connection.executor(tx)
            const unit = await this.#unit(tx, executor, opening, own)
            phase = 'body'
            const result = await this.#guarded(executor, signal, () => body(unit))
            phase = 'committing'
            return this.#end(result)
          },
        },
      )
    } catch (error) {
      // What comes next would wait for the locks of the transaction that is being ended.
      await ending
      throw this.#errors.ofTransaction(error, endedIn ?? phase, signal)
    } finally {
      if (backend !== undefined) signal?.removeEventListener('abort', end)
    }
  }

  #transactionOptions(options: Omit<TransactionOptions, 'classify'> = {}): TransactionOptions {
    return { ...options, classify: this.#dialect.classify }
  }

  #opening(options: UnitOptions, opening: Opening): { statements: readonly Statement[]; from: number; to: number } {
    const dialect = this.#dialect
    const settings = dialect.settings(options, opening.kind)
    const own =
      opening.kind === 'take'
        ? dialect.take(opening.consumer, opening.token, opening.messages, options.lockTimeoutMs)
        : opening.kind === 'claim'
          ? [dialect.claim(opening.seqs, opening.locked, options.lockTimeoutMs, options.isolation)]
          : []
    const from = settings.length
    return { statements: [...settings, ...own, ...dialect.guardSet], from, to: from + own.length }
  }

  async #unit(tx: Tx, executor: Executor, opening: Opening, answers: readonly Result[]): Promise<Unit<Tx>> {
    const check = (): Promise<void> => this.#check(executor)
    const unit = { tx, check, existing: NO_RECEIPTS, claimed: NO_ROWS }
    if (opening.kind === 'take') return { ...unit, existing: await this.#existing(executor, opening, answers) }
    if (opening.kind !== 'claim') return unit
    return { ...unit, claimed: await this.#claimed(executor, answers) }
  }

  /** The rows go first, not last: whoever commits behind our back commits that they are gone, and nobody runs them again. */
  async #claimed(executor: Executor, [answer]: readonly Result[]): Promise<ReadonlySet<string>> {
    const seqs = answer?.rows.map((row) => String(row['seq'])) ?? []
    if (seqs.length > 0 && !this.#dialect.claimDeletes) {
      for (const { text, params } of this.#dialect.deleteInbox(seqs)) await executor.query(text, params)
    }
    return new Set(seqs)
  }

  /** The receipts that were there before, read by a second statement: the first one's snapshot is too old to see them. */
  async #existing(
    executor: Executor,
    opening: Opening & { kind: 'take' },
    answers: readonly Result[],
  ): Promise<ReadonlyMap<string, Receipt>> {
    const { consumer, token, messages } = opening
    const taken = this.#dialect.taken(answers, token, messages)
    if (taken === 'all' || taken.size === messages.length) return NO_RECEIPTS
    const keys = messages.map((message) => message.messageKey).filter((key) => !taken.has(key))
    const statement = this.#dialect.receipts(consumer, keys)
    const { rows } = await executor.query(statement.text, statement.params)
    // Neither ours nor there: whoever had it rolled back or was cleaned up in between. Run again.
    if (rows.length !== keys.length)
      throw new HapaxError('transaction-conflict', 'a receipt vanished while it was read')
    return new Map(rows.map((row) => [asUuid(row['message_key']), asReceipt(row)]))
  }

  async #check(executor: Executor): Promise<void> {
    try {
      for (const { text, params } of this.#dialect.guardCheck) await executor.query(text, params)
    } catch (error) {
      throw this.#errors.ofGuard(error)
    }
  }

  /** Runs the body; when it fails, finds out whether the transaction was still ours. */
  async #guarded<T>(executor: Executor, signal: AbortSignal | undefined, body: () => Promise<T>): Promise<T> {
    try {
      return await body()
    } catch (error) {
      // Whoever aborted has destroyed the connection already.
      if (signal?.aborted) throw error
      try {
        for (const { text, params } of this.#dialect.guardRollback) await executor.query(text, params)
      } catch (guardError) {
        if (this.#dialect.classify(guardError) === 'gone') throw brokenAtomicity(error)
      }
      throw error
    }
  }

  #end<T>({ value, writes }: UnitEnd<T>): TransactionEnd<T> {
    return { value, last: writes && [...this.#dialect.guardRelease, ...this.#writes(writes)] }
  }

  #writes({ inbox, failed, outbox }: Writes): readonly Statement[] {
    const dialect = this.#dialect
    return [
      ...(inbox?.length ? dialect.insertInbox(inbox) : []),
      ...(failed?.length ? dialect.insertFailed(failed) : []),
      ...(outbox?.length ? dialect.insertOutbox(outbox) : []),
    ]
  }

  /** Ends a transaction that outlived its time from another connection; its own may be busy with a statement. */
  async #terminate(backend: Backend): Promise<void> {
    try {
      const ended = this.#run(this.#dialect.terminate(backend))
      await within(systemClock, TERMINATE_MS, ended, () => NO_ANSWER)
    } catch {
      // The link was cut as well; the database ends the transaction by its own timeout at the latest.
    }
  }

  assertTransaction(tx: Tx | Own): Promise<void> {
    return this.#connection.assertTransaction(tx)
  }

  async writeOutbox(tx: Tx | Own, rows: readonly OutboxRow[]): Promise<void> {
    const executor = this.#connection.executor(tx)
    await this.#inside(async () => {
      for (const { text, params } of this.#dialect.insertOutbox(rows)) await executor.query(text, params)
    })
  }

  writeLocal(tx: Tx | Own, rows: readonly LocalRow[]): Promise<readonly LocalResult[]> {
    const executor = this.#connection.executor(tx)
    return this.#inside(() => this.#dialect.writeLocal(executor, rows, this.#random.token()))
  }

  /** Runs our own statements inside somebody's transaction. */
  async #inside<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      throw this.#errors.inside(error)
    }
  }

  async due(types: ReadonlyMap<string, readonly string[]>, options: DueOptions): Promise<readonly InboxRow[]> {
    if (types.size === 0) return []
    const { rows } = await this.#dialect.due(this.#run.bind(this), types, options, this.#short.bind(this))
    // An UPDATE answers in no particular order.
    return rows.map(asInboxRow).sort((a, b) => (BigInt(a.seq) < BigInt(b.seq) ? -1 : 1))
  }

  async nextDueMs(types: ReadonlyMap<string, readonly string[]>): Promise<number | undefined> {
    let next: number | undefined
    for (const [consumer, names] of types) {
      const ms = (await this.#run(this.#dialect.nextDue(consumer, names))).rows[0]?.['ms']
      if (ms !== null && ms !== undefined) next = Math.min(next ?? Number.POSITIVE_INFINITY, Math.max(0, Number(ms)))
    }
    return next
  }

  async inFlight(types: ReadonlyMap<string, readonly string[]>): Promise<boolean> {
    for (const [consumer, names] of types) {
      if ((await this.#run(this.#dialect.inFlight(consumer, names))).rows.length > 0) return true
    }
    return false
  }

  async reschedule(row: Parameters<Store<Tx>['reschedule']>[0]): Promise<boolean> {
    return (await this.#run(this.#dialect.reschedule(row))).affected > 0
  }

  fail(row: Parameters<Store<Tx>['fail']>[0]): Promise<boolean> {
    const dialect = this.#dialect
    return this.#move(dialect.lock([row.seq], 'wait', MOVE_LOCK_MS), [
      dialect.copyToFailed(row),
      ...dialect.deleteInbox([row.seq]),
    ])
  }

  async inboxRow(consumer: string, messageKey: string): Promise<InboxRow | undefined> {
    const { rows } = await this.#run(this.#dialect.inboxRow(consumer, messageKey))
    return rows[0] && asInboxRow(rows[0])
  }

  async subscribe(consumer: string, types: readonly string[]): Promise<void> {
    for (const type of types) {
      if (!(await this.isSubscribed(consumer, type))) await this.#run(this.#dialect.subscribe(consumer, type))
    }
  }

  async isSubscribed(consumer: string, type: string): Promise<boolean> {
    return (await this.#run(this.#dialect.subscription(consumer, type))).rows.length > 0
  }

  async failedList(filter: FailedFilter): Promise<readonly FailedMessage[]> {
    return (await this.#run(this.#dialect.failedList(filter))).rows.map(asFailed)
  }

  async failedGet(seq: string): Promise<FailedMessage | undefined> {
    const { rows } = await this.#run(this.#dialect.failedGet(seq))
    return rows[0] && asFailed(rows[0])
  }

  failedRetry(seq: string): Promise<boolean> {
    const dialect = this.#dialect
    return this.#move(dialect.failedLock(seq), [dialect.copyToInbox(seq), dialect.deleteFailed(seq)])
  }

  failedDiscard(seq: string): Promise<boolean> {
    return this.#move(this.#dialect.failedLock(seq), [this.#dialect.deleteFailed(seq)])
  }

  /** Moves a row between tables if it is still there. */
  async #move(lock: Statement, statements: readonly Statement[]): Promise<boolean> {
    const there = ({ rows }: Result): boolean => rows.length > 0
    return there(await this.#short(lock, (answer) => (there(answer) ? statements : undefined)))
  }

  #short(first: Statement, then: (answer: Result) => readonly Statement[] | undefined): Promise<Result> {
    return this.#admin({
      first: [first],
      body: async (_tx, [answer = NO_ANSWER]) => ({ value: answer, last: then(answer) }),
    })
  }

  async status(): Promise<StoreStatus> {
    const consumers = await this.#run(this.#dialect.statusConsumers)
    const outbox = await this.#run(this.#dialect.statusOutbox)
    return asStatus(consumers.rows, outbox.rows[0])
  }

  async trace(id: string, source?: string): Promise<readonly Trace[]> {
    const traces: Trace[] = []
    for (const statement of this.#dialect.trace(id)) {
      traces.push(...(await this.#run(statement)).rows.map(asTrace))
    }
    return traces
      .filter((trace) => source === undefined || trace.source === source)
      .sort((a, b) => a.at.getTime() - b.at.getTime())
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #admin<T>(work: TransactionWork<Tx, T>): Promise<T> {
    try {
      return await this.#connection.transaction(this.#transactionOptions(), work)
    } catch (error) {
      throw this.#errors.ofQuery(error)
    }
  }

  /** One statement; again on a new connection if the first one was broken. All of them may be repeated. */
  async #run(statement: Statement): Promise<Result> {
    try {
      return await this.#inTime(statement)
    } catch (error) {
      const stale = this.#dialect.classify(error) === 'lost'
      if (!stale) throw this.#errors.ofQuery(error)
    }
    return this.#inTime(statement).catch((error: unknown) => {
      throw this.#errors.ofQuery(error)
    })
  }

  #inTime({ text, params }: Statement): Promise<Result> {
    return within(systemClock, QUERY_MS, this.#connection.query(text, params), () => {
      throw new HapaxError('store-unavailable', `the database did not answer within ${QUERY_MS} ms`)
    })
  }
}

const NO_RECEIPTS: ReadonlyMap<string, Receipt> = new Map()
const NO_ROWS: ReadonlySet<string> = new Set()
const NO_ANSWER: Result = { rows: [], affected: 0 }
const MOVE_LOCK_MS = 5_000
/** How long a statement outside a transaction may take. */
const QUERY_MS = 60_000
/** How long to wait for the end of a transaction that outlived its time. */
const TERMINATE_MS = 5_000
