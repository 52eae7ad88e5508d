import type { Isolation } from './connection.ts'
import type { ErrorRecord } from './errors.ts'
import type { LeavingMessage, StoredMessage } from './message.ts'

/** The receipt of a message that had been taken before. */
export interface Receipt {
  readonly token: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly fingerprint: string
  readonly takenAt: Date
}

/** A message that a transaction took from the inbox. `seq` is a whole number as text, because it may exceed 2^53. */
export interface InboxRow {
  readonly seq: string
  readonly consumer: string
  readonly message: StoredMessage
  /** Whether the order of its key counts. */
  readonly ordered: boolean
  /** How often the handler was called and failed. */
  readonly attempts: number
  /** Infrastructure errors in a row. */
  readonly lost: number
  /** How often a process died that had it in hand, among others or perhaps; from 1 on it is a suspect and runs alone. */
  readonly starts: number
  /** How often a process died while it ran alone. */
  readonly crashes: number
  /** Who holds it, or held it, by a lease; null: nobody. */
  readonly leaseToken: string | null
  /** Grows with every lease. */
  readonly fence: number
}

/** The right to work on an inbox row without a transaction: as long as the row has this token and this fence. */
export interface Lease {
  readonly seq: string
  readonly token: string
  readonly fence: number
}

/** What is known of an outside call: begun; happened; did certainly not happen; nobody knows. */
export type EffectState = 'started' | 'done' | 'not-done' | 'unknown'

/** Names an effect: one outside call of one message of one consumer. */
export interface EffectRef {
  readonly consumer: string
  readonly messageKey: string
  readonly name: string
}

/** An effect in the journal. The row whose name is empty has the notes of the message in `result`. */
export interface EffectRow extends EffectRef {
  readonly state: EffectState
  /** Of the lease that wrote it last. */
  readonly token: string
  /** How often it was begun. */
  readonly attempts: number
  /** What the call returned, as a JSON text. */
  readonly result: string | null
  readonly error: ErrorRecord | null
  readonly firstAt: Date
  readonly lastAt: Date
}

/** What became of an effect. */
export interface EffectEnd {
  readonly state: Exclude<EffectState, 'started'>
  readonly result: string | null
  readonly error: ErrorRecord | null
}

/** A message for the outbox. */
export interface OutboxRow {
  readonly relay: string
  readonly message: StoredMessage
  readonly delayMs: number
}

/** A message that waits in the outbox. */
export interface OutboxMessage {
  readonly seq: string
  readonly message: LeavingMessage
  /** How often the broker did not take it, although it was there. */
  readonly attempts: number
}

/** A message for every local consumer of its type. */
export interface LocalRow {
  readonly message: StoredMessage
  /** The consumers that this process knows; the store adds those of `subscriptions`. */
  readonly consumers: readonly { readonly name: string; readonly ordered: boolean }[]
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
  /** Whether the consumer wants the order of its key. A message without a key has none. */
  readonly ordered: boolean
  readonly attempts: number
  /** 1 when the process that writes the row begins with it at once. */
  readonly starts: number
  readonly delayMs: number
  readonly error: ErrorRecord | null
}

/** Where a failed message came from. */
export type Origin = 'inbox' | 'outbox'

/** A message for the failed store. */
export interface FailedRow {
  readonly consumer: string
  readonly message: StoredMessage
  readonly ordered: boolean
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
}

/** A part of the inbox of a consumer, or of the outbox of a relay: what a worker is to look at. */
export interface Share {
  readonly table: Origin
  /** The consumer, or the relay. */
  readonly scope: string
  /** The types that the worker handles; of no importance for the outbox. */
  readonly types: readonly string[]
  readonly lanes: readonly number[]
  /** How many entries at most, about; spread evenly over the lanes. */
  readonly limit: number
  /** Keys up to this one have been looked at, by lane; what is not in it begins at its first key. */
  readonly after: ReadonlyMap<number, string>
}

/** What waits, without its payload. Rows of one key come in the order of `seq`. */
export interface Entry {
  readonly seq: string
  readonly type: string
  readonly lane: number
  /** The key if its order counts: always in the outbox, in the inbox if the consumer wants it. */
  readonly key: string | null
  readonly bytes: number
  /** Milliseconds until it is due; 0 or less: it is. */
  readonly dueMs: number
  /** It failed for good and holds its key. */
  readonly held: boolean
  /** A process died that had it in hand. */
  readonly suspect: boolean
}

/** What a look found. */
export interface Look {
  /**
   * Without order: what is due, oldest first. With order: the first rows of each key, due or not, held or not, of any type,
   * a page of keys per lane.
   */
  readonly entries: readonly Entry[]
  /** Milliseconds until something without order becomes due that is not due now. */
  readonly nextMs: number | undefined
  /** For the next look's `after`: the lanes that have more keys, with the last one of this page. */
  readonly after: ReadonlyMap<number, string>
}

/** A worker as it says hello. */
export interface WorkerHello {
  /** Random, one per boot. */
  readonly id: string
  /** For people: host and process. */
  readonly name: string
  /** After so long without a heartbeat it is held to be dead. */
  readonly ttlMs: number
  /** What it serves: a JSON text that the engine understands. */
  readonly serves: string
}

/** A worker that is there. */
export interface WorkerRow {
  readonly id: string
  readonly name: string
  readonly serves: string
  readonly startedAt: Date
  /** How long ago it was heard. */
  readonly silentMs: number
  readonly alive: boolean
  /** How many messages it has in hand, about. */
  readonly inHand: number
}

/** Who did something by hand, and how it is called. */
export interface Audit {
  /** @default the user of the operating system */
  readonly actor: string
  readonly action: 'retry' | 'edit' | 'discard' | 'release' | 'republish' | 'move' | 'remove' | 'cleanup' | 'settle'
  readonly note?: string | undefined
}

/** What something was done to. */
export interface AuditSubject {
  readonly origin?: Origin | undefined
  /** The consumer, or the relay. */
  readonly consumer?: string | undefined
  readonly source?: string | undefined
  readonly id?: string | undefined
  readonly type?: string | undefined
}

/** One step of the cleaning. */
export type CleanupStep =
  /** Looks at receipts in the order of their keys and deletes those that are old and finished. */
  | { readonly kind: 'receipts'; readonly consumer: string; readonly after: string | undefined }
  | { readonly kind: 'sent'; readonly relay: string }
  | { readonly kind: 'audit' }

/** What one step of the cleaning did. */
export interface Cleaned {
  readonly deleted: number
  /** Where the next step goes on; undefined: there is no more. */
  readonly after: string | undefined
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
  /**
   * Locks and deletes these inbox rows. Rows that are locked elsewhere are skipped, or waited for first. A row with order
   * is taken only if every older row of its key, due or not, held or not, is taken with it; held rows are never taken.
   */
  | { readonly kind: 'claim'; readonly seqs: readonly string[]; readonly locked: 'skip' | 'wait' }
  /** Waits for this inbox row and deletes it, if it is still held by this lease. */
  | { readonly kind: 'settle'; readonly lease: Lease }

/** A transaction of the store while its body runs. */
export interface Unit<Tx> {
  readonly tx: Tx
  /** Receipts that were there before, by message key; messages that are not in it are ours. */
  readonly existing: ReadonlyMap<string, Receipt>
  /** With `locked: 'wait'`, and for `settle`: the seqs of those of the rows that are there, claimed or not. Empty otherwise. */
  readonly present: ReadonlySet<string>
  /** Inbox rows that are ours, in the order of `seq`. */
  readonly claimed: ReadonlyMap<string, InboxRow>
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
  readonly origin: Origin
  /** The consumer, or the relay. */
  readonly consumer: string
  readonly message: StoredMessage
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  /** Equal for errors that differ only in numbers and ids. */
  readonly errorHash: string
  readonly failedAt: Date
  /** It is still in its place and holds its key. */
  readonly held: boolean
  /** The id of the message that an edit put in its place. */
  readonly replacedBy: string | null
}

/** Which failed messages. */
export interface FailedWhere {
  readonly origin?: Origin | undefined
  readonly consumer?: string | undefined
  readonly type?: string | undefined
  readonly reason?: string | undefined
  readonly errorHash?: string | undefined
  /** Failed longer ago than this. */
  readonly olderThanMs?: number | undefined
  /** Failed since. */
  readonly newerThanMs?: number | undefined
  /** Those that an edit has replaced, instead of those that wait for a decision. @default false */
  readonly replaced?: boolean | undefined
}

/** A page of failed messages, from the newest to the oldest. */
export interface FailedFilter extends FailedWhere {
  /** Only rows older than this one. */
  readonly before?: string | undefined
  readonly limit: number
}

/** Failed messages that look alike. */
export interface FailedGroup {
  readonly origin: Origin
  readonly consumer: string
  readonly type: string
  readonly reason: string
  readonly errorHash: string
  readonly count: number
  readonly firstAt: Date
  readonly lastAt: Date
  /** The error of the newest one, and its seq. */
  readonly error: ErrorRecord
  readonly seq: string
}

/** A key that waits behind a message that failed for good. */
export interface HeldKey {
  readonly origin: Origin
  readonly scope: string
  readonly key: string
  /** The held message, and its row in the failed store, if that is still there. */
  readonly id: string
  readonly failedSeq: string | null
  readonly heldAt: Date
  /** How many wait behind it. */
  readonly waiting: number
}

/** A message that was published and kept. */
export interface SentMessage {
  readonly seq: string
  readonly relay: string
  readonly message: StoredMessage
  readonly sentAt: Date
}

/** Which published messages. */
export interface SentWhere {
  readonly relay?: string | undefined
  readonly type?: string | undefined
  readonly olderThanMs?: number | undefined
  readonly newerThanMs?: number | undefined
}

/** A page of published messages, from the newest to the oldest. */
export interface SentFilter extends SentWhere {
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
    /** Keys that wait behind a message that failed for good. */
    readonly held: number
    readonly failed: number
  }[]
  readonly relays: readonly {
    readonly relay: string
    readonly waiting: number
    readonly held: number
    readonly failed: number
    readonly oldestAt: Date | null
    /** Where it goes, as recorded by the first worker. */
    readonly destination: string | null
  }[]
  readonly outbox: number
  readonly oldestOutboxAt: Date | null
  readonly workers: readonly WorkerRow[]
}

/** What `doctor` found about the store. */
export interface Finding {
  /** What was looked at, in a few words. */
  readonly check: string
  readonly level: 'ok' | 'warning' | 'error'
  readonly message: string
  /** What to do about it; empty when all is well. */
  readonly advice: string
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
      /** Whether a process works on it under a lease, which ends at `dueAt`. */
      readonly leased: boolean
      readonly dueAt: Date
      readonly key: string | null
      readonly heldAt: Date | null
      readonly error: ErrorRecord | null
    }
  | {
      readonly where: 'outbox'
      readonly relay: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly attempts: number
      readonly key: string | null
      readonly heldAt: Date | null
      readonly error: ErrorRecord | null
    }
  | {
      readonly where: 'sent'
      readonly relay: string
      readonly source: string
      readonly type: string
      readonly at: Date
    }
  /** In a store that only knows leases: taken, and not finished. */
  | {
      readonly where: 'claim'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly attempts: number
      /** Whether somebody has it. */
      readonly held: boolean
      /** When its lease ends, or its next attempt is due. */
      readonly dueAt: Date
      /** Whether the store has it, because a person wants it to be tried again; else its broker has it. */
      readonly stored: boolean
      readonly error: ErrorRecord | null
    }
  | {
      readonly where: 'effect'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly effect: EffectRow
    }
  | {
      readonly where: 'audit'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly action: string
      readonly actor: string
      readonly note: string | null
    }
  | {
      readonly where: 'failed'
      readonly origin: Origin
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly seq: string
      readonly attempts: number
      readonly reason: string
      readonly held: boolean
      readonly replacedBy: string | null
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
  /** Connections at most, where that is known; `control` of them are kept free for heartbeats, unless those have their own. */
  readonly pool: { readonly max: number; readonly control: number } | undefined
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
   * `broken-atomicity` when the body ended the transaction behind our back. A body that is cut off by the signal leaves open
   * what became of its transaction: a store that knows that nothing was kept says so by `fields.undone`, and one that knows
   * that it was committed by `broken-atomicity`.
   */
  transaction<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T>
  /** Rejects with `not-in-transaction` unless `tx` is an open transaction. */
  assertTransaction(tx: Tx | Own): Promise<void>
  /** Writes at once inside an open transaction. */
  writeOutbox(tx: Tx | Own, rows: readonly OutboxRow[]): Promise<void>
  /** Writes receipts and inbox rows for all consumers of each message, inside an open transaction. */
  writeLocal(tx: Tx | Own, rows: readonly LocalRow[]): Promise<readonly LocalResult[]>

  /** Lists what waits in these shares, one answer each; writes nothing. One statement where the database allows. */
  look(shares: readonly Share[]): Promise<readonly Look[]>
  /**
   * Records a failed attempt on the inbox row itself, and ends its lease. False: the row is gone, or has another lease; another
   * worker settled it, or has it.
   */
  reschedule(row: {
    seq: string
    attempts: number
    lost: number
    delayMs: number
    error: ErrorRecord
    leaseToken: string | null
  }): Promise<boolean>
  /**
   * Writes an inbox row to the failed store; `hold` leaves it in its place as well, where it holds its key.
   * False: the row is gone, or has another lease.
   */
  fail(row: {
    seq: string
    attempts: number
    reason: string
    error: ErrorRecord
    hold: boolean
    leaseToken: string | null
  }): Promise<boolean>
  /** The seq of an inbox row, by consumer and message. */
  inboxSeq(consumer: string, messageKey: string): Promise<string | undefined>

  /**
   * Leases those of these inbox rows that are due, neither held nor locked, and not behind their key: gives them this token and a
   * greater fence, and makes them due again when the lease ends. Rows that have this token already are leased once more.
   */
  lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]>
  /** Prolongs leases; answers the seqs of those that are still held, also if their time had passed. */
  renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>>
  /**
   * Writes an effect as begun, unless it is done, or, without `again`, was begun before; and prolongs the lease. Answers the
   * effect as it was before; undefined: the lease is lost, and nothing was written.
   */
  beginEffect(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined>
  /** Writes down what became of an effect. False: the lease is lost, and nothing was written. */
  endEffect(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean>
  /** The journal of a message, in the order in which the effects were begun first. */
  effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]>
  /** What a person knows of an effect that is begun or unknown, of a failed message. False: there is none such. */
  settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean>

  /** The messages of these outbox rows that are still there, in the order of `seq`. */
  outboxRows(seqs: readonly string[]): Promise<readonly OutboxMessage[]>
  /** Deletes exactly these outbox rows, because the broker has confirmed them; `keep` copies them to `sent`. */
  confirm(seqs: readonly string[], keep: boolean): Promise<void>
  /** Records on outbox rows that the broker did not take them: one more attempt each, due again later. */
  postpone(rows: readonly { seq: string; delayMs: number; error: ErrorRecord }[]): Promise<void>
  /** Writes an outbox row to the failed store; `hold` leaves it in its place as well. False: the row is gone. */
  refuse(row: { seq: string; reason: string; error: ErrorRecord; hold: boolean }): Promise<boolean>
  /** Records where a relay goes, if nobody has; answers what is recorded. */
  recordRelay(name: string, destination: string): Promise<string>
  /** Changes where a relay goes. */
  moveRelay(name: string, destination: string, audit: Audit): Promise<void>

  join(worker: WorkerHello): Promise<void>
  /** Notes what a worker has in hand, before it runs. False: it was held to be dead, and is not known any more. */
  note(id: string, inHand: readonly string[], alone: boolean): Promise<boolean>
  /** The heartbeat: as `note`, and answers all workers, dead ones too; undefined: it is not known any more. */
  beat(id: string, inHand: readonly string[], alone: boolean): Promise<readonly WorkerRow[] | undefined>
  /**
   * Removes dead workers. Rows that they had in hand and nobody has locked become suspects, or count a crash if they ran
   * alone. Answers how many workers were removed.
   */
  bury(): Promise<number>
  leave(id: string): Promise<void>

  /** Adds what is missing to `subscriptions`, and whether the consumer wants order. */
  subscribe(consumer: string, types: readonly string[], ordered: boolean): Promise<void>
  /** Whether `subscriptions` lists the type for the consumer. */
  isSubscribed(consumer: string, type: string): Promise<boolean>
  subscriptions(): Promise<readonly { readonly consumer: string; readonly type: string; readonly ordered: boolean }[]>
  /** Forgets a consumer: its subscriptions. Its receipts, inbox and failed rows stay. Answers whether there were any. */
  unsubscribe(consumer: string, audit: Audit): Promise<boolean>

  failedList(filter: FailedFilter): Promise<readonly FailedMessage[]>
  failedCount(where: FailedWhere): Promise<number>
  failedGroups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]>
  /** The seqs of failed messages behind `after`, oldest first, without their payload: for changes in bulk. */
  failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]>
  failedGet(seq: string): Promise<FailedMessage | undefined>
  /**
   * Tries a failed message again under its own id, with its attempts at zero: back into the inbox or outbox, or, if it is
   * held, from where it stands. False: it is not there, or an edit has replaced it.
   */
  failedRetry(seq: string, audit: Audit): Promise<boolean>
  /**
   * Puts another message in the place of a failed one: `message` has an id of its own; for a consumer, its receipt is
   * written too. The failed row stays and names it. False: it is not there, or an edit has replaced it before.
   */
  failedEdit(seq: string, message: StoredMessage, audit: Audit): Promise<boolean>
  /** Deletes a failed message, and the row that holds its key; its receipt stays. False: it is not there. */
  failedDiscard(seq: string, audit: Audit): Promise<boolean>
  /** Keys that wait behind a message that failed for good, longest first. */
  heldKeys(limit: number): Promise<readonly HeldKey[]>
  /** Lets a key go on without its held message, which stays in the failed store. False: the key is not held. */
  releaseKey(origin: Origin, scope: string, key: string, audit: Audit): Promise<boolean>

  sentList(filter: SentFilter): Promise<readonly SentMessage[]>
  /** The seqs of published messages behind `after`, oldest first. */
  sentSeqs(where: SentWhere, after: string | undefined, limit: number): Promise<readonly string[]>
  /** Copies a published message back into the outbox, under its own id. False: it is not there. */
  sentRepublish(seq: string, audit: Audit): Promise<boolean>

  /** One step of the cleaning: looks at up to `limit` rows and deletes what is older than `olderThanMs` and finished. */
  cleanup(step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned>
  /** How many receipts of a consumer `cleanup` would delete. */
  cleanable(consumer: string, olderThanMs: number): Promise<number>
  /** Writes down what somebody did by hand, where no other method does. */
  audit(audit: Audit, about: AuditSubject): Promise<void>
  /** What `doctor` wants to know: settings, sizes, long transactions, clocks. */
  checkup(): Promise<readonly Finding[]>

  status(): Promise<StoreStatus>
  /** Every place where a message with this id is known. */
  trace(id: string, source?: string): Promise<readonly Trace[]>
  close(): Promise<void>
}
