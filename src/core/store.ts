import type { Isolation } from './connection.ts'
import type { ErrorRecord } from './errors.ts'
import type { StoredMessage } from './message.ts'

/** The receipt of a message that had been taken before. */
export interface Receipt {
  readonly token: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly fingerprint: string
  readonly takenAt: Date
}

/** A message that waits in the inbox. `seq` is a whole number as text, because it may exceed 2^53. */
export interface InboxRow {
  readonly seq: string
  readonly consumer: string
  readonly message: StoredMessage
  /** How often the handler was called and failed. */
  readonly attempts: number
  /** Infrastructure errors in a row. */
  readonly lost: number
  /** How often a worker began with it since the last recorded end. */
  readonly starts: number
}

/** A message of the outbox. */
export interface OutboxRow {
  readonly relay: string
  readonly message: StoredMessage
  readonly delayMs: number
}

/** A message for every local consumer of its type. */
export interface LocalRow {
  readonly message: StoredMessage
  /** The consumers that this process knows; the store adds those of `subscriptions`. */
  readonly consumers: readonly string[]
  readonly delayMs: number
}

/** What became of a local message: how many consumers it is for, and for how many of them it was new. */
export interface LocalResult {
  readonly consumers: number
  readonly fresh: number
}

/** An inbox row of a message whose receipt the same transaction wrote. */
export interface RetryRow {
  readonly consumer: string
  readonly message: StoredMessage
  readonly attempts: number
  /** 1 when the process that writes the row begins with it at once. */
  readonly starts: number
  readonly delayMs: number
  readonly error: ErrorRecord | null
}

/** A message for the failed store. */
export interface FailedRow {
  readonly consumer: string
  readonly message: StoredMessage
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
}

/** Which due rows to take. */
export interface DueOptions {
  readonly limit: number
  /** Rows that the caller has in hand already: reading one again is no start. */
  readonly except: readonly string[]
  /** Rows that were started before without an end, or only those that were not. */
  readonly started: boolean
  /** For how long others do not see them: until the caller has had the time to lock them. */
  readonly hideMs: number
}

/** What a transaction writes last, all or nothing. */
export interface Writes {
  readonly inbox?: readonly RetryRow[]
  readonly failed?: readonly FailedRow[]
  readonly outbox?: readonly OutboxRow[]
}

/** How a transaction of the store begins. */
export type Opening =
  | { readonly kind: 'plain' }
  /** Writes the receipts of these messages, of distinct keys, under a fresh token. */
  | {
      readonly kind: 'take'
      readonly consumer: string
      readonly token: string
      readonly messages: readonly StoredMessage[]
    }
  /** Locks and deletes these inbox rows; rows that are locked elsewhere are skipped, or waited for. */
  | { readonly kind: 'claim'; readonly seqs: readonly string[]; readonly locked: 'skip' | 'wait' }

/** A transaction of the store while its body runs. */
export interface Unit<Tx> {
  readonly tx: Tx
  /** Receipts that were there before, by message key; messages that are not in it are ours. */
  readonly existing: ReadonlyMap<string, Receipt>
  /** Inbox rows that are ours. */
  readonly claimed: ReadonlySet<string>
  /** Rejects unless the transaction is still the one that was opened, and healthy. */
  check(): Promise<void>
}

/** How a transaction of the store ends. */
export interface UnitEnd<T> {
  readonly value: T
  /** Undefined: roll back. */
  readonly writes: Writes | undefined
}

/** Settings of one transaction. */
export interface UnitOptions {
  readonly isolation?: Isolation | undefined
  readonly signal?: AbortSignal | undefined
  /** Called once a connection is at hand: from here on the database has to answer in time. */
  readonly acquired?: (() => void) | undefined
  /** How long to wait for a receipt or a row that another transaction holds. */
  readonly lockTimeoutMs: number
  /** How long the transaction may sit idle before the database ends it. */
  readonly idleTimeoutMs: number
}

/** A row of the failed store. */
export interface FailedMessage {
  readonly seq: string
  readonly consumer: string
  readonly message: StoredMessage
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  readonly failedAt: Date
}

/** Which failed messages to list; pages run from the newest to the oldest. */
export interface FailedFilter {
  readonly consumer?: string | undefined
  readonly type?: string | undefined
  readonly reason?: string | undefined
  /** Only rows older than this one. */
  readonly before?: string | undefined
  readonly limit: number
}

/** How much there is, for people. */
export interface StoreStatus {
  readonly consumers: readonly {
    readonly consumer: string
    readonly receipts: number
    readonly waiting: number
    readonly retrying: number
    readonly failed: number
  }[]
  readonly outbox: number
  readonly oldestOutboxAt: Date | null
}

/** One place where a message was found. */
export type Trace =
  | {
      readonly where: 'receipt'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
    }
  | {
      readonly where: 'inbox'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly attempts: number
      readonly dueAt: Date
      readonly error: ErrorRecord | null
    }
  | {
      readonly where: 'outbox'
      readonly relay: string
      readonly source: string
      readonly type: string
      readonly at: Date
    }
  | {
      readonly where: 'failed'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly seq: string
      readonly attempts: number
      readonly reason: string
      readonly error: ErrorRecord
    }

/** One step of the schema. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly checksum: string
  readonly sql: readonly string[]
}

/** A migration and whether the database has it. */
export interface MigrationState extends Migration {
  readonly applied: boolean
}

/** What differs between stores, and what follows from it. */
export interface StoreFeatures {
  readonly name: string
  /** The isolation levels on which everything is tested. */
  readonly isolationLevels: readonly Isolation[]
  /** Whether `publish` can join transactions that the user opened. */
  readonly ownTransactions: boolean
  /** Whether two handlers can run at the same time; false where there is one writer. */
  readonly parallelWriters: boolean
  /** Whether what is committed survives the end of the process. */
  readonly durable: boolean
  readonly lateUse: 'refused' | 'partly refused'
  readonly unawaited: 'detected' | 'not detectable'
  readonly roundTrips: number
}

/**
 * A database behind hapax. `Tx` is what handlers receive, `Own` what the user's own transactions look like.
 * The conformance suite in `hapax/testing` says what a store has to do.
 */
export interface Store<Tx, Own = Tx> {
  readonly features: StoreFeatures

  /** Rejects unless the schema is there and current; answers from memory once it has been. */
  ready(): Promise<void>
  migrations(): Promise<readonly MigrationState[]>
  /** The migrations, or those of these versions, as a script for the database's own client; asks nothing of the database. */
  migrationScript(versions?: readonly number[]): string
  /** Applies what is missing; safe when two instances do it at once. Returns what was applied. */
  migrate(): Promise<readonly Migration[]>

  /**
   * One transaction: opening, body, guard, writes, commit. Rejects as `Connection.transaction` does, and with
   * `broken-atomicity` when the body ended the transaction behind our back.
   */
  transaction<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T>
  /** Rejects with `not-in-transaction` unless `tx` is an open transaction. */
  assertTransaction(tx: Tx | Own): Promise<void>
  /** Writes at once inside an open transaction. */
  writeOutbox(tx: Tx | Own, rows: readonly OutboxRow[]): Promise<void>
  /** Writes receipts and inbox rows for all consumers of each message, inside an open transaction. */
  writeLocal(tx: Tx | Own, rows: readonly LocalRow[]): Promise<readonly LocalResult[]>

  /** Takes due inbox rows of these consumers and types, oldest first, counts a start of each, and hides them for a while. */
  due(types: ReadonlyMap<string, readonly string[]>, options: DueOptions): Promise<readonly InboxRow[]>
  /** Milliseconds until the next row of these consumers and types is due: 0 = now, undefined = there is none. */
  nextDueMs(types: ReadonlyMap<string, readonly string[]>): Promise<number | undefined>
  /** Whether a row of these consumers and types was started and has not ended: it runs somewhere, or its process died. */
  inFlight(types: ReadonlyMap<string, readonly string[]>): Promise<boolean>
  /** Records a failed attempt on the inbox row itself. False: the row is gone, another worker settled it. */
  reschedule(row: {
    seq: string
    attempts: number
    lost: number
    delayMs: number
    error: ErrorRecord
  }): Promise<boolean>
  /** Moves an inbox row to the failed store. False: the row is gone. */
  fail(row: { seq: string; attempts: number; reason: string; error: ErrorRecord }): Promise<boolean>
  /** Finds an inbox row by consumer and message. */
  inboxRow(consumer: string, messageKey: string): Promise<InboxRow | undefined>

  /** Adds what is missing to `subscriptions`. */
  subscribe(consumer: string, types: readonly string[]): Promise<void>
  /** Whether `subscriptions` lists the type for the consumer. */
  isSubscribed(consumer: string, type: string): Promise<boolean>

  failedList(filter: FailedFilter): Promise<readonly FailedMessage[]>
  failedGet(seq: string): Promise<FailedMessage | undefined>
  /** Moves a failed message back into the inbox, due at once, with its attempts at zero. False: it is not there. */
  failedRetry(seq: string): Promise<boolean>
  /** Deletes a failed message; its receipt stays. False: it is not there. */
  failedDiscard(seq: string): Promise<boolean>

  status(): Promise<StoreStatus>
  /** Every place where a message with this id is known. */
  trace(id: string, source?: string): Promise<readonly Trace[]>
  close(): Promise<void>
}
