import { systemClock, within } from '../clock.ts'
import type { Connection, Result, Statement, TransactionOptions, TransactionWork } from '../connection.ts'
import { HapaxError } from '../errors.ts'
import type { StoredMessage } from '../message.ts'
import { type Random, systemRandom } from '../random.ts'
import type {
  EffectEnd,
  EffectRef,
  EffectRow,
  InboxRow,
  Lease,
  LocalResult,
  LocalRow,
  Origin,
  OutboxMessage,
  OutboxRow,
  WorkerRow,
} from '../rows.ts'
import type {
  Look,
  Migration,
  MigrationState,
  Opening,
  Share,
  Store,
  StoreFeatures,
  Unit,
  UnitEnd,
  UnitOptions,
  WorkerHello,
} from '../store.ts'
import type {
  Audit,
  AuditSubject,
  Cleaned,
  CleanupStep,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  Finding,
  HeldKey,
  SentFilter,
  SentMessage,
  SentWhere,
  StoreStatus,
  Trace,
} from '../tools.ts'
import type { Dialect } from './dialect.ts'
import { asLooks } from './look.ts'
import { migration, migrationScript, migrationStates, untilFree } from './migrate.ts'
import { SqlOperator } from './operator.ts'
import { asEffect, asInboxRow, asOutboxMessage, asWorker } from './rows.ts'
import { StoreErrors } from './store-errors.ts'
import { SqlUnits } from './units.ts'
import { asBoolean, asText, asUuid } from './values.ts'

/** A store on an SQL database: the logic is here, the statements are the dialect's, the transactions the connection's. */
export class SqlStore<Tx, Own = Tx> implements Store<Tx, Own> {
  readonly features: StoreFeatures
  readonly #connection: Connection<Tx, Own>
  readonly #dialect: Dialect
  readonly #random: Random
  readonly #errors: StoreErrors
  readonly #units: SqlUnits<Tx, Own>
  readonly #operator: SqlOperator
  #ready = false

  constructor(connection: Connection<Tx, Own>, dialect: Dialect, random: Random = systemRandom) {
    this.#connection = connection
    this.#dialect = dialect
    this.#random = random
    this.#errors = new StoreErrors(dialect)
    const run = (statement: Statement): Promise<Result> => this.#run(statement)
    this.#units = new SqlUnits(connection, dialect, this.#errors, run)
    this.#operator = new SqlOperator(dialect, { run, short: (first, then) => this.#short(first, then), random })
    const { roundTrips, lateUse, unawaited, pool } = connection.features
    const { isolationLevels, parallelWriters, ownTransactions } = dialect
    this.features = Object.freeze({
      name: connection.features.name,
      isolationLevels,
      parallelWriters,
      ownTransactions,
      durable: true,
      pool,
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
    const work = migration(this.#dialect, (tx: Tx) => this.#connection.executor(tx))
    const applied = await untilFree(() => this.#admin(work), this.#random)
    this.#ready = true
    return applied
  }

  transaction<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T> {
    return this.#units.run(options, opening, body)
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

  async look(shares: readonly Share[]): Promise<readonly Look[]> {
    if (!shares.some((share) => share.lanes.length > 0)) return shares.map(() => NOTHING_THERE)
    return asLooks(shares, (await this.#dialect.look((statement) => this.#run(statement, CONTROL_MS), shares)).rows)
  }

  async reschedule(row: Parameters<Store<Tx>['reschedule']>[0]): Promise<boolean> {
    return (await this.#run(this.#dialect.reschedule(row))).affected > 0
  }

  fail(row: Parameters<Store<Tx>['fail']>[0]): Promise<boolean> {
    const dialect = this.#dialect
    const then = row.hold ? [dialect.holdInbox(row)] : dialect.deleteInbox([row.seq])
    return this.#move(dialect.lockInbox(row.seq, row.leaseToken), [dialect.copyToFailed(row), ...then])
  }

  async lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]> {
    const { leases } = this.#dialect
    return this.#soon({
      first: [...this.#dialect.settings(SHORT, 'claim'), leases.lockDue(seqs, token)],
      body: async (tx, answers) => {
        const found = answers.at(-1)?.rows.map(asInboxRow) ?? []
        const rows = await this.#units.notBlocked(this.#connection.executor(tx), found, undefined)
        const last =
          rows.length === 0
            ? undefined
            : [
                leases.lease(
                  rows.map((row) => row.seq),
                  token,
                  leaseMs,
                ),
              ]
        return { value: rows.map((row) => ({ ...row, leaseToken: token, fence: row.fence + 1 })), last }
      },
    })
  }

  async renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    if (leases.length === 0) return new Set()
    const free = await this.#renewable(leases)
    if (free.length > 0) await this.#run(this.#dialect.leases.renew(free, leaseMs), CONTROL_MS)
    const { rows } = await this.#run(this.#dialect.leases.leased(leases), CONTROL_MS)
    return new Set(rows.map((row) => String(row['seq'])))
  }

  /** What somebody has locked nobody can take either; the others do not wait for it. */
  async #renewable(leases: readonly Lease[]): Promise<readonly Lease[]> {
    const statement = this.#dialect.leases.renewable?.(leases)
    if (statement === undefined) return leases
    const free = new Set((await this.#run(statement, CONTROL_MS)).rows.map((row) => String(row['seq'])))
    return leases.filter(({ seq }) => free.has(seq))
  }

  async beginEffect(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined> {
    const { leases } = this.#dialect
    const beforeOf = ([row]: Result['rows']): EffectRow | undefined =>
      row === undefined || row['state'] == null ? undefined : asEffect(effect, row)
    const { rows } = await this.#short(leases.lockEffect(lease, effect), ({ rows: found }) => {
      if (found.length === 0) return undefined
      const state = beforeOf(found)?.state
      const open = state === undefined || state === 'not-done' || (again && state !== 'done')
      const prolonged = leases.renew([lease], leaseMs)
      return open ? [prolonged, leases.beginEffect(effect, lease.token)] : [prolonged]
    })
    return rows.length === 0 ? undefined : { before: beforeOf(rows) }
  }

  endEffect(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean> {
    const { leases } = this.#dialect
    return this.#move(leases.lockEffect(lease, effect), [leases.endEffect(effect, lease.token, end)])
  }

  async effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    const { rows } = await this.#run(this.#dialect.leases.effects(consumer, messageKey))
    return rows.map((row) => asEffect({ consumer, messageKey }, row))
  }

  async settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    const { leases, operator } = this.#dialect
    const { rows } = await this.#short(leases.lockOpenEffect(effect), ({ rows: [row] }) => {
      if (row === undefined) return undefined
      const about = { consumer: effect.consumer, source: asText(row['source']), id: asText(row['id']) }
      const subject = { origin: 'inbox', ...about, type: asText(row['type']) } as const
      return [leases.endEffect(effect, asUuid(row['token']), end), operator.auditOther(audit, subject)]
    })
    return rows.length > 0
  }

  async inboxSeq(consumer: string, messageKey: string): Promise<string | undefined> {
    const { rows } = await this.#run(this.#dialect.inboxSeq(consumer, messageKey))
    return rows[0] && String(rows[0]['seq'])
  }

  async outboxRows(seqs: readonly string[]): Promise<readonly OutboxMessage[]> {
    return (await this.#run(this.#dialect.outboxRows(seqs))).rows.map(asOutboxMessage)
  }

  async confirm(seqs: readonly string[], keep: boolean): Promise<void> {
    const dialect = this.#dialect
    if (keep) await this.#short(dialect.copyToSent(seqs), () => [dialect.deleteOutbox(seqs)])
    else await this.#run(dialect.deleteConfirmed(seqs))
  }

  async postpone(rows: Parameters<Store<Tx>['postpone']>[0]): Promise<void> {
    for (const statement of this.#dialect.postpone(rows)) await this.#run(statement)
  }

  refuse(row: Parameters<Store<Tx>['refuse']>[0]): Promise<boolean> {
    const dialect = this.#dialect
    const then = row.hold ? dialect.holdOutbox(row) : dialect.deleteOutbox([row.seq])
    return this.#move(dialect.lockOutbox(row.seq), [dialect.refuseToFailed(row), then])
  }

  async recordRelay(name: string, destination: string): Promise<string> {
    await this.#run(this.#dialect.recordRelay(name, destination))
    const { rows } = await this.#run(this.#dialect.relay(name))
    return rows[0] === undefined ? destination : asText(rows[0]['destination'])
  }

  async join(worker: WorkerHello): Promise<void> {
    await this.#run(this.#dialect.join(worker))
  }

  async note(id: string, inHand: readonly string[], alone: boolean): Promise<boolean> {
    return (await this.#run(this.#dialect.note(id, JSON.stringify(inHand), alone, false), CONTROL_MS)).affected > 0
  }

  async beat(id: string, inHand: readonly string[], alone: boolean): Promise<readonly WorkerRow[] | undefined> {
    const { affected } = await this.#run(this.#dialect.note(id, JSON.stringify(inHand), alone, true), CONTROL_MS)
    return affected > 0 ? this.#workers() : undefined
  }

  async #workers(): Promise<readonly WorkerRow[]> {
    return (await this.#run(this.#dialect.workers, CONTROL_MS)).rows.map(asWorker)
  }

  async bury(): Promise<number> {
    const { rows } = await this.#short(this.#dialect.lockDead, ({ rows: dead }) => this.#burial(dead))
    return rows.length
  }

  #burial(dead: Result['rows']): readonly Statement[] | undefined {
    if (dead.length === 0) return undefined
    const inHand = (alone: boolean): string[] =>
      dead.filter((row) => asBoolean(row['alone']) === alone).flatMap((row) => JSON.parse(asText(row['in_hand'])))
    const [among, alone] = [inHand(false), inHand(true)]
    return [
      ...(among.length > 0 ? [this.#dialect.suspect(among)] : []),
      ...(alone.length > 0 ? [this.#dialect.crashed(alone)] : []),
      this.#dialect.leave(dead.map((row) => asText(row['id']))),
    ]
  }

  async leave(id: string): Promise<void> {
    await this.#run(this.#dialect.leave([id]))
  }

  async subscribe(consumer: string, types: readonly string[], ordered: boolean): Promise<void> {
    for (const type of types) {
      const [row] = (await this.#run(this.#dialect.subscription(consumer, type))).rows
      if (row !== undefined && asBoolean(row['ordered']) === ordered) continue
      await this.#run(this.#dialect.subscribe(consumer, type, ordered))
    }
  }

  async isSubscribed(consumer: string, type: string): Promise<boolean> {
    return (await this.#run(this.#dialect.subscription(consumer, type))).rows.length > 0
  }

  subscriptions(): ReturnType<Store<Tx>['subscriptions']> {
    return this.#operator.subscriptions()
  }

  unsubscribe(consumer: string, audit: Audit): Promise<boolean> {
    return this.#operator.unsubscribe(consumer, audit)
  }

  moveRelay(name: string, destination: string, audit: Audit): Promise<void> {
    return this.#operator.moveRelay(name, destination, audit)
  }

  failedList(filter: FailedFilter): Promise<readonly FailedMessage[]> {
    return this.#operator.failedList(filter)
  }

  failedCount(where: FailedWhere): Promise<number> {
    return this.#operator.failedCount(where)
  }

  failedGroups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]> {
    return this.#operator.failedGroups(where, limit)
  }

  failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return this.#operator.failedSeqs(where, after, limit)
  }

  failedGet(seq: string): Promise<FailedMessage | undefined> {
    return this.#operator.failedGet(seq)
  }

  failedRetry(seq: string, audit: Audit): Promise<boolean> {
    return this.#operator.failedRetry(seq, audit)
  }

  failedEdit(seq: string, message: StoredMessage, audit: Audit): Promise<boolean> {
    return this.#operator.failedEdit(seq, message, audit)
  }

  failedDiscard(seq: string, audit: Audit): Promise<boolean> {
    return this.#operator.failedDiscard(seq, audit)
  }

  heldKeys(limit: number): Promise<readonly HeldKey[]> {
    return this.#operator.heldKeys(limit)
  }

  releaseKey(origin: Origin, scope: string, key: string, audit: Audit): Promise<boolean> {
    return this.#operator.releaseKey(origin, scope, key, audit)
  }

  sentList(filter: SentFilter): Promise<readonly SentMessage[]> {
    return this.#operator.sentList(filter)
  }

  sentSeqs(where: SentWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return this.#operator.sentSeqs(where, after, limit)
  }

  sentRepublish(seq: string, audit: Audit): Promise<boolean> {
    return this.#operator.sentRepublish(seq, audit)
  }

  cleanup(step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned> {
    return this.#operator.cleanup(step, olderThanMs, limit)
  }

  cleanable(consumer: string, olderThanMs: number): Promise<number> {
    return this.#operator.cleanable(consumer, olderThanMs)
  }

  audit(audit: Audit, about: AuditSubject): Promise<void> {
    return this.#operator.audit(audit, about)
  }

  checkup(): Promise<readonly Finding[]> {
    return this.#operator.checkup()
  }

  async status(): Promise<StoreStatus> {
    return this.#operator.status(await this.#workers())
  }

  trace(id: string, source?: string): Promise<readonly Trace[]> {
    return this.#operator.trace(id, source)
  }

  /** Moves a row between tables if it is still there. */
  async #move(lock: Statement, statements: readonly Statement[]): Promise<boolean> {
    const there = ({ rows }: Result): boolean => rows.length > 0
    return there(await this.#short(lock, (answer) => (there(answer) ? statements : undefined)))
  }

  #short(first: Statement, then: (answer: Result) => readonly Statement[] | undefined): Promise<Result> {
    // A process that is paused in here must not keep the rows for long.
    const settings = this.#dialect.settings(SHORT, 'claim')
    return this.#soon({
      first: [...settings, first],
      body: async (_tx, answers) => {
        const answer = answers.at(-1) ?? NO_ANSWER
        return { value: answer, last: then(answer) }
      },
    })
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  /** A short transaction, in time: its link may be dead without anybody saying so. */
  async #soon<T>(work: TransactionWork<Tx, T>): Promise<T> {
    const limit = new AbortController()
    let cancel = (): void => {}
    const acquired = (): void => {
      cancel = systemClock.after(SHORT_MS, () => limit.abort(late(SHORT_MS)))
    }
    try {
      return await this.#admin(work, { signal: limit.signal, acquired })
    } finally {
      cancel()
    }
  }

  async #admin<T>(work: TransactionWork<Tx, T>, options: Omit<TransactionOptions, 'classify'> = {}): Promise<T> {
    try {
      return await this.#connection.transaction({ ...options, classify: this.#dialect.classify }, work)
    } catch (error) {
      throw this.#errors.ofQuery(error)
    }
  }

  /** One statement; again on a new connection if the first one was broken. All of them may be repeated. */
  async #run(statement: Statement, limitMs: number = QUERY_MS): Promise<Result> {
    try {
      return await this.#inTime(statement, limitMs)
    } catch (error) {
      const stale = this.#dialect.classify(error) === 'lost'
      if (!stale) throw this.#errors.ofQuery(error)
    }
    return this.#inTime(statement, limitMs).catch((error: unknown) => {
      throw this.#errors.ofQuery(error)
    })
  }

  #inTime({ text, params }: Statement, limitMs: number): Promise<Result> {
    return within(systemClock, limitMs + GRACE_MS, this.#connection.query(text, params, limitMs), () => {
      throw late(limitMs)
    })
  }
}

function late(limitMs: number): HapaxError {
  return new HapaxError('store-unavailable', `the database did not answer within ${limitMs} ms`)
}

const NOTHING_THERE: Look = { entries: [], nextMs: undefined, after: new Map() }
/** The limits of a transaction without handlers. */
const SHORT = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }
/** How long one may take as a whole, once it has a connection. */
const SHORT_MS = 30_000
const NO_ANSWER: Result = { rows: [], affected: 0 }
/** How long a statement outside a transaction may take. */
const QUERY_MS = 60_000
/** The same for heartbeats and looks, which others wait for. */
const CONTROL_MS = 10_000
const GRACE_MS = 1_000
