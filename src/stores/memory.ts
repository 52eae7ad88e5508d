import { type Clock, systemClock } from '../core/clock.ts'
import { HapaxError } from '../core/errors.ts'
import type { StoredMessage } from '../core/message.ts'
import { noOthers } from '../core/options.ts'
import { Queue, type Turn } from '../core/queue.ts'
import type {
  DueOptions,
  FailedFilter,
  FailedMessage,
  FailedRow,
  InboxRow,
  LocalResult,
  LocalRow,
  Opening,
  OutboxRow,
  Receipt,
  RetryRow,
  Store,
  StoreFeatures,
  StoreStatus,
  Trace,
  Unit,
  UnitEnd,
  UnitOptions,
  Writes,
} from '../core/store.ts'
import {
  bySeq,
  failedTrace,
  inboxTrace,
  kept,
  type LeavingRow,
  outboxTrace,
  type ReceiptRow,
  receiptKey,
  receiptTrace,
  type WaitingRow,
} from './memory/rows.ts'
import { type Table, Tables } from './memory/tables.ts'
import { type MemoryTx, openTransaction, Transaction, unlessAborted } from './memory/transaction.ts'

export type { MemoryTx } from './memory/transaction.ts'

/** Settings of the memory store. */
export interface MemoryOptions {
  /** Says when messages are due. @default the clock of this process */
  readonly clock?: Clock
}

/** A store in the memory of this process: for tests, for trying hapax out, and as the example of how to write a store. */
export interface MemoryStore extends Store<MemoryTx> {
  /** The committed rows of a table: one of yours, or `hapax_receipts`, `hapax_inbox`, `hapax_outbox`, `hapax_failed`. */
  rows(table: string): readonly object[]
}

/** A store that forgets everything when the process ends. */
export function memory(options: MemoryOptions = {}): MemoryStore {
  noOthers('options', options, ['clock'])
  return new Memory(options.clock ?? systemClock)
}

/** How long to wait where nobody said. */
const WAIT_MS = 60_000

class Memory implements MemoryStore {
  readonly features: StoreFeatures = Object.freeze({
    name: 'memory',
    isolationLevels: ['serializable'],
    ownTransactions: false,
    parallelWriters: false,
    durable: false,
    lateUse: 'refused',
    unawaited: 'not detectable',
    roundTrips: 0,
  } as const)

  readonly #clock: Clock
  readonly #queue: Queue
  readonly #tables = new Tables()
  readonly #receipts = this.#tables.table<ReceiptRow>('hapax_receipts')
  readonly #inbox = this.#tables.table<WaitingRow>('hapax_inbox')
  readonly #outbox = this.#tables.table<LeavingRow>('hapax_outbox')
  readonly #failed = this.#tables.table<FailedMessage>('hapax_failed')
  readonly #subscriptions = this.#tables.table<{ consumer: string; type: string }>('hapax_subscriptions')
  #lastSeq = 0
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
    this.#queue = new Queue(clock)
  }

  async ready(): Promise<void> {}

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
    const turn = await this.#turn(opening.kind === 'plain' ? WAIT_MS : lockTimeoutMs, signal)
    const tx = new Transaction(this.#tables)
    try {
      acquired?.()
      const unit = this.#unit(tx, opening)
      const { value, writes } = await unlessAborted(signal, () => turn.run(() => body(unit)))
      if (writes === undefined) this.#tables.rollback()
      else this.#write(writes)
      return value
    } catch (error) {
      this.#tables.rollback()
      throw error
    } finally {
      this.#tables.commit()
      tx.closed = true
      turn.end()
    }
  }

  #unit(tx: Transaction, opening: Opening): Unit<MemoryTx> {
    const check = async (): Promise<void> => void openTransaction(tx, this.#tables)
    const existing = opening.kind === 'take' ? this.#take(opening) : new Map<string, Receipt>()
    const claimed = new Set(opening.kind === 'claim' ? opening.seqs.filter((seq) => this.#inbox.get(seq)) : [])
    for (const seq of claimed) this.#inbox.delete(seq)
    return { tx, existing, claimed, check }
  }

  /** Writes receipts where there are none; answers those that were there. */
  #take({ consumer, token, messages }: Opening & { kind: 'take' }): ReadonlyMap<string, Receipt> {
    const existing = new Map<string, Receipt>()
    for (const message of messages) {
      const receipt = this.#receipts.get(receiptKey(consumer, message))
      if (receipt === undefined) this.#receive(consumer, token, message)
      else existing.set(message.messageKey, receipt)
    }
    return existing
  }

  #receive(consumer: string, token: string, message: StoredMessage): void {
    const { source, id, type, fingerprint } = message
    const row = { consumer, token, source, id, type, fingerprint, takenAt: this.#now() }
    this.#receipts.set(receiptKey(consumer, message), row)
  }

  #write({ inbox = [], failed = [], outbox = [] }: Writes): void {
    for (const row of inbox) this.#addInbox(row)
    for (const row of failed) this.#addFailed(row)
    for (const row of outbox) this.#addOutbox(row)
  }

  #addInbox({ consumer, message, attempts, starts, delayMs, error }: RetryRow): void {
    const seq = this.#nextSeq()
    const times = { createdAt: this.#now(), availableAt: this.#clock.now() + delayMs }
    this.#inbox.set(seq, { seq, consumer, message: kept(message), attempts, lost: 0, starts, error, ...times })
  }

  #addFailed({ consumer, message, attempts, reason, error }: FailedRow): void {
    const { messageKey, fingerprint } = message
    const known = this.#failed.all().some((row) => {
      const same = row.message.messageKey === messageKey && row.message.fingerprint === fingerprint
      return same && row.consumer === consumer
    })
    if (known) return
    const seq = this.#nextSeq()
    this.#failed.set(seq, { seq, consumer, message: kept(message), attempts, reason, error, failedAt: this.#now() })
  }

  #addOutbox({ relay, message, delayMs }: OutboxRow): void {
    const seq = this.#nextSeq()
    const times = { createdAt: this.#now(), availableAt: this.#clock.now() + delayMs }
    this.#outbox.set(seq, { seq, relay, message: kept(message), ...times })
  }

  async assertTransaction(tx: MemoryTx): Promise<void> {
    openTransaction(tx, this.#tables)
  }

  async writeOutbox(tx: MemoryTx, rows: readonly OutboxRow[]): Promise<void> {
    openTransaction(tx, this.#tables)
    this.#write({ outbox: rows })
  }

  async writeLocal(tx: MemoryTx, rows: readonly LocalRow[]): Promise<readonly LocalResult[]> {
    openTransaction(tx, this.#tables)
    const token = crypto.randomUUID()
    return rows.map((row) => this.#deliver(row, token))
  }

  /** Receipt and inbox row for each consumer that has no receipt yet. */
  #deliver({ message, consumers, delayMs }: LocalRow, token: string): LocalResult {
    const listed = this.#subscriptions.all().filter((row) => row.type === message.type)
    const listening = new Set([...consumers, ...listed.map((row) => row.consumer)])
    let fresh = 0
    for (const consumer of listening) {
      if (this.#receipts.get(receiptKey(consumer, message))) continue
      this.#receive(consumer, token, message)
      this.#addInbox({ consumer, message, attempts: 0, starts: 0, delayMs, error: null })
      fresh += 1
    }
    return { consumers: listening.size, fresh }
  }

  due(
    types: ReadonlyMap<string, readonly string[]>,
    { limit, except, started, hideMs }: DueOptions,
  ): Promise<readonly InboxRow[]> {
    return this.#alone(() => {
      const now = this.#clock.now()
      const due = this.#waiting(types).filter(
        ({ seq, availableAt, starts }) => availableAt <= now && starts > 0 === started && !except.includes(seq),
      )
      const availableAt = now + hideMs
      const taken = due.slice(0, limit).map((row) => ({ ...row, starts: row.starts + 1, availableAt }))
      for (const row of taken) this.#inbox.set(row.seq, row)
      return taken.sort(bySeq)
    })
  }

  nextDueMs(types: ReadonlyMap<string, readonly string[]>): Promise<number | undefined> {
    return this.#alone(() => {
      const [next] = this.#waiting(types)
      return next && Math.max(0, next.availableAt - this.#clock.now())
    })
  }

  inFlight(types: ReadonlyMap<string, readonly string[]>): Promise<boolean> {
    return this.#alone(() => this.#waiting(types).some(({ starts }) => starts > 0))
  }

  /** The inbox rows of these consumers and types, the first to be due in front. */
  #waiting(types: ReadonlyMap<string, readonly string[]>): WaitingRow[] {
    const rows = this.#inbox.all().filter((row) => types.get(row.consumer)?.includes(row.message.type))
    return rows.sort((a, b) => a.availableAt - b.availableAt || bySeq(a, b))
  }

  reschedule({ seq, delayMs, ...end }: Parameters<Store<MemoryTx>['reschedule']>[0]): Promise<boolean> {
    return this.#alone(() => {
      const row = this.#inbox.get(seq)
      if (row !== undefined)
        this.#inbox.set(seq, { ...row, ...end, starts: 0, availableAt: this.#clock.now() + delayMs })
      return row !== undefined
    })
  }

  fail({ seq, ...end }: Parameters<Store<MemoryTx>['fail']>[0]): Promise<boolean> {
    return this.#alone(() => {
      const row = this.#inbox.get(seq)
      this.#inbox.delete(seq)
      if (row !== undefined) this.#write({ failed: [{ ...row, ...end }] })
      return row !== undefined
    })
  }

  inboxRow(consumer: string, messageKey: string): Promise<InboxRow | undefined> {
    return this.#alone(() => {
      const rows = this.#inbox.all().filter((row) => row.consumer === consumer && row.message.messageKey === messageKey)
      return rows.sort(bySeq)[0]
    })
  }

  subscribe(consumer: string, types: readonly string[]): Promise<void> {
    return this.#alone(() => {
      for (const type of types) this.#subscriptions.set(JSON.stringify([consumer, type]), { consumer, type })
    })
  }

  isSubscribed(consumer: string, type: string): Promise<boolean> {
    return this.#alone(() => this.#subscriptions.get(JSON.stringify([consumer, type])) !== undefined)
  }

  failedList({ consumer, type, reason, before, limit }: FailedFilter): Promise<readonly FailedMessage[]> {
    return this.#alone(() => {
      const rows = this.#failed
        .all()
        .filter((row) => consumer === undefined || row.consumer === consumer)
        .filter((row) => type === undefined || row.message.type === type)
        .filter((row) => reason === undefined || row.reason === reason)
        .filter((row) => before === undefined || Number(row.seq) < Number(before))
      return rows.sort(bySeq).reverse().slice(0, limit)
    })
  }

  failedGet(seq: string): Promise<FailedMessage | undefined> {
    return this.#alone(() => this.#failed.get(seq))
  }

  failedRetry(seq: string): Promise<boolean> {
    return this.#alone(() => {
      const row = this.#failed.get(seq)
      if (row !== undefined) this.#addInbox({ ...row, attempts: 0, starts: 0, delayMs: 0, error: null })
      return this.#failed.delete(seq)
    })
  }

  failedDiscard(seq: string): Promise<boolean> {
    return this.#alone(() => this.#failed.delete(seq))
  }

  status(): Promise<StoreStatus> {
    return this.#alone(() => {
      const tables = [this.#receipts, this.#inbox, this.#failed]
      const names = new Set(tables.flatMap((table) => table.all().map((row) => row.consumer)))
      const outbox = this.#outbox.all()
      const oldest = outbox.reduce((least, row) => Math.min(least, row.createdAt.getTime()), Number.POSITIVE_INFINITY)
      return {
        consumers: [...names].sort().map((consumer) => ({ consumer, ...this.#counts(consumer) })),
        outbox: outbox.length,
        oldestOutboxAt: outbox.length === 0 ? null : new Date(oldest),
      }
    })
  }

  #counts(consumer: string): Omit<StoreStatus['consumers'][number], 'consumer'> {
    const of = <Row extends { consumer: string }>(table: Table<Row>): Row[] =>
      table.all().filter((row) => row.consumer === consumer)
    const inbox = of(this.#inbox)
    const retrying = inbox.filter((row) => row.attempts > 0).length
    const waiting = inbox.length - retrying
    return { receipts: of(this.#receipts).length, waiting, retrying, failed: of(this.#failed).length }
  }

  trace(id: string, source?: string): Promise<readonly Trace[]> {
    return this.#alone(() => {
      const traces = [
        ...this.#receipts.all().map(receiptTrace),
        ...this.#inbox.all().map(inboxTrace),
        ...this.#outbox.all().map(outboxTrace),
        ...this.#failed.all().map(failedTrace),
      ]
      return traces
        .filter((each) => each.id === id && (source === undefined || each.trace.source === source))
        .map(({ trace }) => trace)
        .sort((a, b) => a.at.getTime() - b.at.getTime())
    })
  }

  rows(table: string): readonly object[] {
    return this.#tables.committed(table)
  }

  async close(): Promise<void> {
    await this.#alone(() => {})
    this.#closed = true
  }

  /** Runs a small step between the transactions of others. */
  async #alone<T>(step: () => T): Promise<T> {
    const turn = await this.#turn(WAIT_MS)
    try {
      return step()
    } finally {
      this.#tables.commit()
      turn.end()
    }
  }

  async #turn(waitMs: number, signal?: AbortSignal): Promise<Turn> {
    if (this.#closed) throw new HapaxError('closed', 'this store has been closed')
    const turn = await this.#queue.take(waitMs, signal)
    if (turn === undefined) throw new HapaxError('busy', 'another transaction is running')
    return turn
  }

  #nextSeq(): string {
    this.#lastSeq += 1
    return String(this.#lastSeq)
  }

  #now(): Date {
    return new Date(this.#clock.now())
  }
}
