import { HapaxError, type Random, systemRandom } from '../../base/index.ts'
import type {
  Audit,
  AuditSubject,
  Cleanable,
  CleanablePage,
  Cleaned,
  CleanupStep,
  Connection,
  EffectEnd,
  EffectRef,
  EffectRow,
  Entered,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  Finding,
  HeldKey,
  InboxRow,
  Lease,
  Look,
  Migration,
  MigrationState,
  Opening,
  Origin,
  OutboxMessage,
  Result,
  SentFilter,
  SentMessage,
  SentWhere,
  Share,
  Statement,
  Store,
  StoreFeatures,
  StoreStatus,
  Trace,
  Unit,
  UnitEnd,
  UnitOptions,
  WorkerHello,
  WorkerRow,
} from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
import { SqlAside } from './aside.ts'
import { CONTROL, CONTROL_MS, SqlCalls } from './calls.ts'
import { lookAt } from './checkup.ts'
import { assertRecognised } from './connection/recognised.ts'
import { StoreErrors } from './connection/store-errors.ts'
import type { Dialect } from './dialect/dialect.ts'
import { SqlEntered } from './entered.ts'
import { SqlLeases } from './leases.ts'
import { asLooks } from './look.ts'
import { migration, migrationScript, migrationStates, untilFree } from './migrate.ts'
import { SqlOperator } from './operator.ts'
import { SqlOutbox } from './outbox.ts'
import { SqlOverview } from './overview.ts'
import { asWorker } from './rows.ts'
import { intoFailed, SqlUnits } from './units.ts'
import { asBoolean, asSeq, asText } from './values.ts'

/** A store on an SQL database: the logic is here, the statements are the dialect's, the transactions the connection's. */
export class SqlStore<Tx, Own = Tx> implements Store<Tx, Own> {
  readonly features: StoreFeatures
  readonly #connection: Connection<Tx, Own>
  readonly #dialect: Dialect
  readonly #random: Random
  readonly #errors: StoreErrors
  readonly #calls: SqlCalls<Tx, Own>
  readonly #units: SqlUnits<Tx, Own>
  readonly #aside: SqlAside<Tx, Own>
  readonly #leases: SqlLeases<Tx>
  readonly #outbox: SqlOutbox<Tx>
  readonly #operator: SqlOperator
  readonly #overview: SqlOverview
  #ready: readonly Finding[] | undefined

  constructor(connection: Connection<Tx, Own>, dialect: Dialect, random: Random = systemRandom) {
    this.#connection = connection
    this.#dialect = dialect
    this.#random = random
    this.#errors = new StoreErrors(dialect)
    const calls = new SqlCalls(connection, dialect, this.#errors)
    const run = (statement: Statement): Promise<Result> => calls.run(statement)
    const units = new SqlUnits(connection, dialect, this.#errors, run)
    this.#calls = calls
    this.#units = units
    this.#aside = new SqlAside(calls, connection, dialect)
    this.#leases = new SqlLeases(calls, dialect, (tx, rows) =>
      units.notBlocked(connection.executor(tx), rows, undefined),
    )
    this.#outbox = new SqlOutbox(calls, dialect)
    this.#operator = new SqlOperator(dialect, { run, short: (first, then) => calls.short(first, then), random })
    this.#overview = new SqlOverview(dialect, run)
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

  async ready(): Promise<readonly Finding[]> {
    if (this.#ready !== undefined) return this.#ready
    const missing = (await this.migrations()).filter((migration) => !migration.applied)
    if (missing.length > 0) {
      throw new HapaxError(
        'schema-outdated',
        `expected the database to have migration ${missing.map((each) => each.version).join(', ')}: run hapax.migrate() or npx hapax migrate`,
        { fields: { missing: missing.map((each) => each.version) } },
      )
    }
    await this.#probe()
    const findings = await lookAt((statement) => this.#calls.run(statement), this.#dialect.startChecks)
    this.#ready = findings.filter(({ level }) => level !== 'ok')
    return this.#ready
  }

  /** On a connection for control work and on one of the handlers': they may be of different pools. */
  async #probe(): Promise<void> {
    assertRecognised(await this.#calls.run(this.#dialect.probe))
    assertRecognised(await this.#calls.short(this.#dialect.probe, () => undefined))
  }

  async migrations(): Promise<readonly MigrationState[]> {
    return migrationStates((statement) => this.#calls.run(statement), this.#dialect)
  }

  migrationScript(versions?: readonly number[]): string {
    return migrationScript(this.#dialect, versions)
  }

  async migrate(): Promise<readonly Migration[]> {
    // A look first: it needs no more than the right to read, which is all that many an application has.
    const missing = (await this.migrations()).some(({ applied }) => !applied)
    return missing ? this.#applyMissing() : []
  }

  #applyMissing(): Promise<readonly Migration[]> {
    const work = migration(this.#dialect, (tx: Tx) => this.#connection.executor(tx))
    return untilFree(() => this.#calls.whole(work), this.#random)
  }

  transaction<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T> {
    return this.#units.run(options, opening, body)
  }

  mostBytes(tx: Tx | Own): number {
    return this.#connection.mostBytes(tx)
  }

  enter(tx: Tx | Own): Entered {
    return new SqlEntered(this.#connection.enter(tx), this.#dialect, this.#errors, this.#random)
  }

  async look(shares: readonly Share[]): Promise<readonly Look[]> {
    if (!shares.some((share) => share.lanes.length > 0)) return shares.map(() => NOTHING_THERE)
    const { rows } = await this.#dialect.look((statement) => this.#calls.run(statement, CONTROL_MS), shares)
    const looks = asLooks(shares, rows)
    await this.#aside.putStuck(shares, looks)
    return looks
  }

  async reschedule(row: Parameters<Store<Tx>['reschedule']>[0]): Promise<boolean> {
    return (await this.#calls.run(this.#dialect.reschedule(row))).affected > 0
  }

  fail(row: Parameters<Store<Tx>['fail']>[0]): Promise<boolean> {
    return this.#calls.move(this.#dialect.lockInbox(row.seq, row.leaseToken), intoFailed(this.#dialect, row))
  }

  lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]> {
    return this.#leases.lease(seqs, token, leaseMs)
  }

  renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    return this.#leases.renew(leases, leaseMs)
  }

  beginEffect(...args: Parameters<Store<Tx>['beginEffect']>): ReturnType<Store<Tx>['beginEffect']> {
    return this.#leases.beginEffect(...args)
  }

  endEffect(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean> {
    return this.#leases.endEffect(lease, effect, end)
  }

  effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    return this.#leases.effects(consumer, messageKey)
  }

  settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    return this.#leases.settleEffect(effect, end, audit)
  }

  async inboxSeq(consumer: string, messageKey: string): Promise<string | undefined> {
    const { rows } = await this.#calls.run(this.#dialect.inboxSeq(consumer, messageKey))
    return rows[0] && asSeq(rows[0]['seq'])
  }

  outboxRows(seqs: readonly string[]): Promise<readonly OutboxMessage[]> {
    return this.#outbox.outboxRows(seqs)
  }

  confirm(seqs: readonly string[], keep: boolean): Promise<readonly string[]> {
    return this.#outbox.confirm(seqs, keep)
  }

  postpone(rows: Parameters<Store<Tx>['postpone']>[0]): Promise<void> {
    return this.#outbox.postpone(rows)
  }

  refuse(row: Parameters<Store<Tx>['refuse']>[0]): Promise<boolean> {
    return this.#outbox.refuse(row)
  }

  recordRelay(name: string, destination: string): Promise<string> {
    return this.#outbox.recordRelay(name, destination)
  }

  async join(worker: WorkerHello): Promise<void> {
    await this.#calls.run(this.#dialect.join(worker))
  }

  async note(id: string, inHand: readonly string[], alone: boolean): Promise<boolean> {
    return (
      (await this.#calls.run(this.#dialect.note(id, JSON.stringify(inHand), alone, false), CONTROL_MS)).affected > 0
    )
  }

  async beat(id: string, inHand: readonly string[], alone: boolean): Promise<readonly WorkerRow[] | undefined> {
    const { affected } = await this.#calls.run(this.#dialect.note(id, JSON.stringify(inHand), alone, true), CONTROL_MS)
    return affected > 0 ? this.workers() : undefined
  }

  async workers(): Promise<readonly WorkerRow[]> {
    return (await this.#calls.run(this.#dialect.workers, CONTROL_MS)).rows.map(asWorker)
  }

  async bury(): Promise<number> {
    const { rows } = await this.#calls.short(this.#dialect.lockDead, ({ rows: dead }) => this.#burial(dead), CONTROL)
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
    await this.#calls.run(this.#dialect.leave([id]))
  }

  async subscribe(consumer: string, types: readonly string[], ordered: boolean): Promise<void> {
    for (const type of types) {
      const [row] = (await this.#calls.run(this.#dialect.subscription(consumer, type))).rows
      if (row !== undefined && (asBoolean(row['ordered']) || !ordered)) continue
      await this.#calls.run(this.#dialect.subscribe(consumer, type, ordered))
    }
  }

  async isSubscribed(consumer: string, type: string): Promise<boolean> {
    return (await this.#calls.run(this.#dialect.subscription(consumer, type))).rows.length > 0
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

  cleanable(consumer: string, olderThanMs: number, page: CleanablePage): Promise<Cleanable> {
    return this.#operator.cleanable(consumer, olderThanMs, page)
  }

  audit(audit: Audit, about: AuditSubject): Promise<void> {
    return this.#operator.audit(audit, about)
  }

  checkup(): Promise<readonly Finding[]> {
    return this.#operator.checkup()
  }

  async status(): Promise<StoreStatus> {
    return this.#overview.status(await this.workers())
  }

  trace(id: string, source?: string, scan?: boolean): Promise<readonly Trace[]> {
    return this.#overview.trace(id, source, scan)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}

const NOTHING_THERE: Look = { entries: [], nextMs: undefined, after: new Map() }
