import {
  type Clock,
  clockOption,
  HapaxError,
  type Interrupt,
  isolationOption,
  noOthers,
  storeClosed,
  type Turn,
  WriterQueue,
} from '../../base/index.ts'
import type {
  Entered,
  Opening,
  Store,
  StoreAdmin,
  StoreClock,
  StoreEndpoints,
  StoreFailed,
  StoreFeatures,
  StoreInbox,
  StoreJournal,
  StoreKeys,
  StoreOperations,
  StoreOutbox,
  StorePauses,
  StoreResponses,
  StoreSamples,
  StoreSchema,
  StoreSent,
  StoreSubscriptions,
  StoreTransactions,
  StoreWorkers,
  Unit,
  UnitEnd,
  UnitOptions,
} from '../../contracts/index.ts'
import { untilAborted } from '../sql/index.ts'
import { clean } from './cleanup.ts'
import { aheadMs, recount } from './clock.ts'
import { Data } from './data.ts'
import { addEndpoint, changeEndpoint, listEndpoints, removeEndpoint } from './endpoints.ts'
import { failedDiscard, failedEdit, failedGet, failedGroups, failedList, failedRetry, failedRows } from './failed.ts'
import { addKey, addOrder, fail, reschedule, seqOf, store } from './inbox.ts'
import { heldKeys, releaseKey } from './keys.ts'
import { beginEffect, effectsOf, endEffect, lease, release, renew, settleEffect } from './leases.ts'
import { listEffects, listReceipts } from './lists.ts'
import { look } from './look.ts'
import {
  advanceOperation,
  beginOperation,
  changeOperation,
  counted,
  getOperation,
  leaseOperation,
  listOperations,
  releaseOperation,
} from './operations.ts'
import { confirm, outboxRows, postpone, purge, recordRelay, refuse, republish, sentList, sentRows } from './outbox.ts'
import { listPauses, pause, resume } from './pauses.ts'
import { expireResponses, forgetResponse, readResponse } from './responses.ts'
import { pageAfter } from './rows.ts'
import { addSamples, listSamples } from './samples.ts'
import { FINDINGS, status, trace } from './status.ts'
import { subscribe, unsubscribe } from './subscriptions.ts'
import { deliverAll, type MemoryTx, open, openTransaction, Transaction, write } from './transaction.ts'
import { aheadOf, hastenRow, listAudited, listRetries, listWaiting, oneWaiting } from './waiting.ts'
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

/** How long to wait for the turn, in milliseconds, unless the caller says. */
const WAIT_MS = 60_000

/**
 * Whose turn it is, and what a transaction is; what happens to rows is in the other files of this folder, by topic. One transaction
 * runs at a time, so every one of them is serializable, and no row is ever locked.
 */
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
  readonly #queue: WriterQueue
  #closed = false

  constructor(clock: Clock) {
    this.#data = new Data(clock)
    this.#workers = new Workers(clock)
    this.#queue = new WriterQueue(clock)
  }

  readonly schema: StoreSchema = {
    ready: async () => [],
    migrations: async () => [],
    sql: () => ({ statements: [], before: [], after: [], checksums: [], undo: [], delimiter: undefined }),
    migrate: async () => [],
  }

  readonly transactions: StoreTransactions<MemoryTx> = {
    run: (options, opening, body) => this.#run(options, opening, body),
    enter: (tx) => this.#enter(tx),
  }

  readonly inbox: StoreInbox = {
    store: (options, deliveries) => this.#alone((data) => store(data, deliveries), options),
    find: (consumer, messageKey) => this.#alone((data) => seqOf(data, consumer, messageKey)),
    reschedule: (row) => this.#alone((data) => reschedule(data, row)),
    fail: (row) => this.#alone((data) => fail(data, row)),
    lease: (seqs, token, leaseMs) => this.#alone((data) => lease(data, seqs, token, leaseMs)),
    renew: (leases, leaseMs) => this.#alone((data) => renew(data, leases, leaseMs)),
    addOrder: (consumer) => this.#alone((data) => addOrder(data, consumer)),
    addKey: (seq, key) => this.#alone((data) => addKey(data, seq, key)),
    release: (held, delayMs) => this.#alone((data) => release(data, held, delayMs)),
  }

  readonly outbox: StoreOutbox = {
    read: (seqs, aged = false) => this.#alone((data) => outboxRows(data, seqs, aged)),
    confirm: (seqs, keep) => this.#alone((data) => confirm(data, seqs, keep)),
    postpone: (rows) => this.#alone((data) => postpone(data, rows)),
    refuse: (row) => this.#alone((data) => refuse(data, row)),
    recordRelay: (name, destination, move) => this.#alone((data) => recordRelay(data, name, destination, move)),
  }

  readonly journal: StoreJournal = {
    begin: (held, leaseMs, effect, again) => this.#alone((data) => beginEffect(data, held, leaseMs, effect, again)),
    end: (held, effect, end) => this.#alone((data) => endEffect(data, held, effect, end)),
    of: (consumer, messageKey) => this.#alone((data) => effectsOf(data, consumer, messageKey)),
    settle: (effect, end, audit, retried) => this.#alone((data) => settleEffect(data, effect, end, audit, retried)),
  }

  readonly responses: StoreResponses = {
    read: (consumer, messageKey) => this.#alone((data) => readResponse(data, consumer, messageKey)),
    expire: (limit) => this.#alone((data) => expireResponses(data, limit)),
    forget: (consumer, messageKey) => this.#alone((data) => forgetResponse(data, consumer, messageKey)),
  }

  readonly endpoints: StoreEndpoints = {
    add: (endpoint, audit) => this.#alone((data) => addEndpoint(data, endpoint, audit)),
    list: (relay) => this.#alone((data) => listEndpoints(data, relay)),
    look: () => this.#alone((data) => listEndpoints(data, undefined).map(({ secrets: _, ...looked }) => looked)),
    change: (id, change, audit) => this.#alone((data) => changeEndpoint(data, id, change, audit)),
    remove: (id, audit) => this.#alone((data) => removeEndpoint(data, id, audit)),
  }

  readonly workers: StoreWorkers = {
    join: async (worker) => this.#members().join(worker),
    note: async (id, inHand, beat) => this.#members().note(id, inHand, beat),
    bury: () => this.#alone((data) => this.#workers.bury(data)),
    leave: async (id) => this.#members().leave(id),
    list: async () => this.#workers.list(),
    look: (shares) => this.#alone((data) => shares.map((share) => look(data, share))),
  }

  readonly subscriptions: StoreSubscriptions = {
    add: (consumer, types, ordered) => this.#alone((data) => subscribe(data, consumer, types, ordered)),
    list: () => this.#alone((data) => data.subscriptions.all()),
    remove: (consumer, audit) => this.#alone((data) => unsubscribe(data, consumer, audit)),
  }

  readonly failed: StoreFailed = {
    list: (filter) => this.#alone((data) => failedList(data, filter)),
    count: (where) => this.#alone((data) => failedRows(data, where).length),
    groups: (where, limit) => this.#alone((data) => failedGroups(data, where, limit)),
    seqs: (where, after, limit) => this.#alone((data) => pageAfter(failedRows(data, where), after, limit)),
    get: (seq) => this.#alone((data) => failedGet(data, seq)),
    retry: (seq, audit, step) => this.#alone((data) => counted(data, step, seq, () => failedRetry(data, seq, audit))),
    edit: (seq, message, audit) => this.#alone((data) => failedEdit(data, seq, message, audit)),
    discard: (seq, audit, step) =>
      this.#alone((data) => counted(data, step, seq, () => failedDiscard(data, seq, audit))),
  }

  readonly keys: StoreKeys = {
    list: (limit) => this.#alone((data) => heldKeys(data, limit)),
    release: (origin, scope, key, audit) => this.#alone((data) => releaseKey(data, origin, scope, key, audit)),
  }

  readonly sent: StoreSent = {
    list: (filter) => this.#alone((data) => sentList(data, filter)),
    seqs: (where, after, limit) => this.#alone((data) => pageAfter(sentRows(data, where), after, limit)),
    republish: (seq, audit, step) => this.#alone((data) => counted(data, step, seq, () => republish(data, seq, audit))),
    purge: (seqs) => this.#alone((data) => purge(data, seqs)),
  }

  readonly operations: StoreOperations = {
    begin: (draft, audit) => this.#alone((data) => beginOperation(data, draft, audit)),
    get: (id) => this.#alone((data) => getOperation(data, id)),
    list: (before, limit) => this.#alone((data) => listOperations(data, before, limit)),
    lease: (token, leaseMs, id) => this.#alone((data) => leaseOperation(data, token, leaseMs, id)),
    advance: (step, leaseMs, progress, end) =>
      this.#alone((data) => advanceOperation(data, step, leaseMs, progress, end)),
    release: (step) => this.#alone((data) => releaseOperation(data, step)),
    change: (id, to, audit) => this.#alone((data) => changeOperation(data, id, to, audit)),
  }

  readonly pauses: StorePauses = {
    list: () => this.#alone((data) => listPauses(data)),
    pause: (origin, scope, audit) => this.#alone((data) => pause(data, origin, scope, audit)),
    resume: (origin, scope, audit) => this.#alone((data) => resume(data, origin, scope, audit)),
  }

  readonly samples: StoreSamples = {
    add: (worker, samples, keepMs) => this.#alone((data) => addSamples(data, worker, samples, keepMs)),
    list: (sinceMs) => this.#alone((data) => listSamples(data, sinceMs)),
  }

  readonly clock: StoreClock = {
    aheadMs: () => this.#alone((data) => aheadMs(data, this.#workers)),
    recount: (operationLeaseMs) => this.#alone((data) => recount(data, this.#workers, operationLeaseMs)),
  }

  readonly admin: StoreAdmin = {
    clean: (step, olderThanMs, limit) => this.#alone((data) => clean(data, step, olderThanMs, limit)),
    audit: (audit, about) => this.#alone((data) => data.note(audit, about)),
    checkup: () => this.#alone(() => FINDINGS),
    status: ({ exact = false } = {}) => this.#alone((data) => status(data, this.#workers.list(), exact)),
    trace: (id, source) => this.#alone((data) => trace(data, id, source)),
    receipts: (where, after, limit) => this.#alone((data) => listReceipts(data, where, after, limit)),
    effects: (where, after, limit) => this.#alone((data) => listEffects(data, where, after, limit)),
    waiting: (origin, where, before, limit) => this.#alone((data) => listWaiting(data, origin, where, before, limit)),
    one: (origin, seq) => this.#alone((data) => oneWaiting(data, origin, seq)),
    ahead: (origin, seq) => this.#alone((data) => aheadOf(data, origin, seq)),
    retries: (origin, limit) => this.#alone((data) => listRetries(data, origin, limit)),
    hasten: (origin, seq, audit) => this.#alone((data) => hastenRow(data, origin, seq, audit)),
    audited: (where, before, limit) => this.#alone((data) => listAudited(data, where, before, limit)),
  }

  rows(table: string): readonly object[] {
    return (table === 'hapax_workers' ? this.#workers : this.#data).tables.committed(table)
  }

  async close(): Promise<void> {
    await this.#alone(() => {})
    this.#closed = true
  }

  async #run<T>(
    options: UnitOptions,
    opening: Opening,
    body: (unit: Unit<MemoryTx>) => Promise<UnitEnd<T>>,
  ): Promise<T> {
    const { signal, acquired, lockTimeoutMs } = options
    const { tables } = this.#data
    // Every level is met; one that does not exist is refused as elsewhere.
    isolationOption(options.isolation)
    const turn = await this.#turn(opening.kind === 'plain' ? WAIT_MS : lockTimeoutMs, signal)
    const tx = new Transaction(tables)
    try {
      acquired?.()
      const unit = open(this.#data, tx, opening)
      const { value, writes } = await untilAborted(
        signal,
        () => turn.run(() => body(unit)),
        () => {},
      )
      if (writes === undefined) tables.rollback()
      else {
        const local = write(this.#data, writes)
        writes.local?.committed(local)
      }
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

  #enter(tx: MemoryTx): Entered {
    const data = this.#data
    openTransaction(tx, data.tables)
    return {
      writeOutbox: async (rows) => {
        openTransaction(tx, data.tables)
        write(data, { outbox: rows })
      },
      writeLocal: async (rows) => {
        openTransaction(tx, data.tables)
        return deliverAll(data, rows)
      },
      mostBytes: () => Number.POSITIVE_INFINITY,
      leave: () => {},
    }
  }

  /** Runs a small step between the transactions of others. */
  async #alone<T>(step: (data: Data) => T, options?: UnitOptions): Promise<T> {
    const turn = await this.#turn(options?.lockTimeoutMs ?? WAIT_MS, options?.signal)
    try {
      options?.acquired?.()
      return step(this.#data)
    } finally {
      this.#data.tables.commit()
      turn.end()
    }
  }

  async #turn(waitMs: number, signal?: Interrupt): Promise<Turn> {
    this.#assertOpen()
    const turn = await this.#queue.take(waitMs, signal)
    if (turn === undefined) throw new HapaxError('busy', 'another transaction is running')
    return turn
  }

  /** Heartbeats do not wait for the handler that is running. */
  #members(): Workers {
    this.#assertOpen()
    return this.#workers
  }

  #assertOpen(): void {
    if (this.#closed) throw storeClosed()
  }
}
