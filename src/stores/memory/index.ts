import { type Clock, clockOption, HapaxError, isolationOption, noOthers, Queue, type Turn } from '../../base/index.ts'
import type {
  Audit,
  AuditSubject,
  Cleanable,
  CleanablePage,
  Cleaned,
  CleanupStep,
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
  Opening,
  Origin,
  OutboxMessage,
  SentFilter,
  SentMessage,
  SentWhere,
  Share,
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
import { cleanable, cleanup } from './cleanup.ts'
import { Data } from './data.ts'
import { failedDiscard, failedEdit, failedGet, failedGroups, failedList, failedRetry, failedRows } from './failed.ts'
import { deliver, fail, reschedule, seqOf } from './inbox.ts'
import { heldKeys, releaseKey } from './keys.ts'
import { beginEffect, effectsOf, endEffect, lease, renew, settleEffect } from './leases.ts'
import { look } from './look.ts'
import { confirm, outboxRows, postpone, recordRelay, refuse } from './outbox.ts'
import { pageAfter } from './rows.ts'
import { republish, sentList, sentRows } from './sent.ts'
import { FINDINGS, status, trace } from './status.ts'
import { isSubscribed, subscribe, unsubscribe } from './subscriptions.ts'
import { type MemoryTx, openTransaction, Transaction, unlessAborted } from './transaction.ts'
import { open, write } from './unit.ts'
import { Workers } from './workers.ts'

export type { MemoryTx } from './transaction.ts'

/** Settings of the memory store. */
export interface MemoryOptions {
  /** Says when messages are due. @default the clock of this process */
  readonly clock?: Clock
}

/** A store in the memory of this process: for tests, for trying hapax out, and as the example of how to write a store. */
export interface MemoryStore extends Store<MemoryTx> {
  /** The committed rows of a table: one of yours, or one of hapax's, such as `hapax_receipts` or `hapax_inbox`. */
  rows(table: string): readonly object[]
}

/** A store that forgets everything when the process ends. */
export function memory(options: MemoryOptions = {}): MemoryStore {
  noOthers('options', options, ['clock'])
  return new Memory(clockOption(options.clock))
}

/** How long to wait where nobody said. */
const WAIT_MS = 60_000

/** Whose turn it is, and what a transaction is; what happens to rows is in `memory/`, by topic. */
class Memory implements MemoryStore {
  readonly features: StoreFeatures = Object.freeze({
    name: 'memory',
    isolationLevels: ['serializable'],
    ownTransactions: false,
    parallelWriters: false,
    durable: false,
    pool: undefined,
    lateUse: 'refused',
    unawaited: 'not detectable',
    roundTrips: 0,
  } as const)

  readonly #data: Data
  readonly #workers: Workers
  readonly #queue: Queue
  #closed = false

  constructor(clock: Clock) {
    this.#data = new Data(clock)
    this.#workers = new Workers(clock)
    this.#queue = new Queue(clock)
  }

  async ready(): Promise<readonly []> {
    return []
  }

  mostBytes(): number {
    return Number.POSITIVE_INFINITY
  }

  async migrations(): Promise<readonly []> {
    return []
  }

  migrationScript(): string {
    return ''
  }

  async migrate(): Promise<readonly []> {
    return []
  }

  async transaction<T>(
    options: UnitOptions,
    opening: Opening,
    body: (unit: Unit<MemoryTx>) => Promise<UnitEnd<T>>,
  ): Promise<T> {
    const { signal, acquired, lockTimeoutMs } = options
    const { tables } = this.#data
    isolationOption(options.isolation)
    const turn = await this.#turn(opening.kind === 'plain' ? WAIT_MS : lockTimeoutMs, signal)
    const tx = new Transaction(tables)
    try {
      acquired?.()
      const unit = open(this.#data, tx, opening)
      const { value, writes } = await unlessAborted(signal, () => turn.run(() => body(unit)))
      if (writes === undefined) tables.rollback()
      else write(this.#data, writes)
      return value
    } catch (error) {
      tables.rollback()
      throw error
    } finally {
      tables.commit()
      tx.closed = true
      turn.end()
    }
  }

  enter(tx: MemoryTx): Entered {
    const data = this.#data
    openTransaction(tx, data.tables)
    return {
      writeOutbox: async (rows) => {
        openTransaction(tx, data.tables)
        write(data, { outbox: rows })
      },
      writeLocal: async (rows) => {
        openTransaction(tx, data.tables)
        const token = crypto.randomUUID()
        return rows.map((row) => deliver(data, row, token))
      },
      leave: () => {},
    }
  }

  look(shares: readonly Share[]): Promise<readonly Look[]> {
    return this.#alone((data) => shares.map((share) => look(data, share)))
  }

  reschedule(row: Parameters<Store<MemoryTx>['reschedule']>[0]): Promise<boolean> {
    return this.#alone((data) => reschedule(data, row))
  }

  fail(row: Parameters<Store<MemoryTx>['fail']>[0]): Promise<boolean> {
    return this.#alone((data) => fail(data, row))
  }

  inboxSeq(consumer: string, messageKey: string): Promise<string | undefined> {
    return this.#alone((data) => seqOf(data, consumer, messageKey))
  }

  lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]> {
    return this.#alone((data) => lease(data, seqs, token, leaseMs))
  }

  renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    return this.#alone((data) => renew(data, leases, leaseMs))
  }

  beginEffect(
    held: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): ReturnType<Store<MemoryTx>['beginEffect']> {
    return this.#alone((data) => beginEffect(data, held, leaseMs, effect, again))
  }

  endEffect(held: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean> {
    return this.#alone((data) => endEffect(data, held, effect, end))
  }

  effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    return this.#alone((data) => effectsOf(data, consumer, messageKey))
  }

  settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    return this.#alone((data) => settleEffect(data, effect, end, audit))
  }

  outboxRows(seqs: readonly string[]): Promise<readonly OutboxMessage[]> {
    return this.#alone((data) => outboxRows(data, seqs))
  }

  async confirm(seqs: readonly string[], keep: boolean): Promise<readonly string[]> {
    await this.#alone((data) => confirm(data, seqs, keep))
    return []
  }

  postpone(rows: Parameters<Store<MemoryTx>['postpone']>[0]): Promise<void> {
    return this.#alone((data) => postpone(data, rows))
  }

  refuse(row: Parameters<Store<MemoryTx>['refuse']>[0]): Promise<boolean> {
    return this.#alone((data) => refuse(data, row))
  }

  recordRelay(name: string, destination: string): Promise<string> {
    return this.#alone((data) => recordRelay(data, name, destination))
  }

  moveRelay(name: string, destination: string, audit: Audit): Promise<void> {
    return this.#alone((data) => {
      data.relays.set(name, { name, destination })
      data.note(audit, { origin: 'outbox', consumer: name })
    })
  }

  async join(worker: WorkerHello): Promise<void> {
    this.#assertOpen()
    this.#workers.join(worker)
  }

  async note(id: string, inHand: readonly string[], alone: boolean): Promise<boolean> {
    this.#assertOpen()
    return this.#workers.note(id, inHand, alone, false)
  }

  async beat(id: string, inHand: readonly string[], alone: boolean): Promise<readonly WorkerRow[] | undefined> {
    this.#assertOpen()
    return this.#workers.note(id, inHand, alone, true) ? this.#workers.list() : undefined
  }

  async workers(): Promise<readonly WorkerRow[]> {
    return this.#workers.list()
  }

  bury(): Promise<number> {
    return this.#alone((data) => this.#workers.bury(data))
  }

  async leave(id: string): Promise<void> {
    this.#assertOpen()
    this.#workers.leave(id)
  }

  subscribe(consumer: string, types: readonly string[], ordered: boolean): Promise<void> {
    return this.#alone((data) => subscribe(data, consumer, types, ordered))
  }

  isSubscribed(consumer: string, type: string): Promise<boolean> {
    return this.#alone((data) => isSubscribed(data, consumer, type))
  }

  subscriptions(): ReturnType<Store<MemoryTx>['subscriptions']> {
    return this.#alone((data) => data.subscriptions.all())
  }

  unsubscribe(consumer: string, audit: Audit): Promise<boolean> {
    return this.#alone((data) => unsubscribe(data, consumer, audit))
  }

  failedList(filter: FailedFilter): Promise<readonly FailedMessage[]> {
    return this.#alone((data) => failedList(data, filter))
  }

  failedCount(where: FailedWhere): Promise<number> {
    return this.#alone((data) => failedRows(data, where).length)
  }

  failedGroups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]> {
    return this.#alone((data) => failedGroups(data, where, limit))
  }

  failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return this.#alone((data) => pageAfter(failedRows(data, where), after, limit))
  }

  failedGet(seq: string): Promise<FailedMessage | undefined> {
    return this.#alone((data) => failedGet(data, seq))
  }

  failedRetry(seq: string, audit: Audit): Promise<boolean> {
    return this.#alone((data) => failedRetry(data, seq, audit))
  }

  failedEdit(seq: string, message: StoredMessage, audit: Audit): Promise<boolean> {
    return this.#alone((data) => failedEdit(data, seq, message, audit))
  }

  failedDiscard(seq: string, audit: Audit): Promise<boolean> {
    return this.#alone((data) => failedDiscard(data, seq, audit))
  }

  heldKeys(limit: number): Promise<readonly HeldKey[]> {
    return this.#alone((data) => heldKeys(data, limit))
  }

  releaseKey(origin: Origin, scope: string, key: string, audit: Audit): Promise<boolean> {
    return this.#alone((data) => releaseKey(data, origin, scope, key, audit))
  }

  sentList(filter: SentFilter): Promise<readonly SentMessage[]> {
    return this.#alone((data) => sentList(data, filter))
  }

  sentSeqs(where: SentWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return this.#alone((data) => pageAfter(sentRows(data, where), after, limit))
  }

  sentRepublish(seq: string, audit: Audit): Promise<boolean> {
    return this.#alone((data) => republish(data, seq, audit))
  }

  cleanup(step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned> {
    return this.#alone((data) => cleanup(data, step, olderThanMs, limit))
  }

  cleanable(consumer: string, olderThanMs: number, page: CleanablePage): Promise<Cleanable> {
    return this.#alone((data) => cleanable(data, consumer, olderThanMs, page))
  }

  audit(audit: Audit, about: AuditSubject): Promise<void> {
    return this.#alone((data) => data.note(audit, about))
  }

  async checkup(): Promise<readonly Finding[]> {
    return FINDINGS
  }

  status(): Promise<StoreStatus> {
    return this.#alone((data) => status(data, this.#workers.list()))
  }

  trace(id: string, source?: string): Promise<readonly Trace[]> {
    return this.#alone((data) => trace(data, id, source))
  }

  rows(table: string): readonly object[] {
    return (table === 'hapax_workers' ? this.#workers : this.#data).tables.committed(table)
  }

  async close(): Promise<void> {
    await this.#alone(() => {})
    this.#closed = true
  }

  /** Runs a small step between the transactions of others. */
  async #alone<T>(step: (data: Data) => T): Promise<T> {
    const turn = await this.#turn(WAIT_MS)
    try {
      return step(this.#data)
    } finally {
      this.#data.tables.commit()
      turn.end()
    }
  }

  async #turn(waitMs: number, signal?: AbortSignal): Promise<Turn> {
    this.#assertOpen()
    const turn = await this.#queue.take(waitMs, signal)
    if (turn === undefined) throw new HapaxError('busy', 'another transaction is running')
    return turn
  }

  #assertOpen(): void {
    if (this.#closed) throw new HapaxError('closed', 'this store has been closed')
  }
}
