import type { ErrorRecord, Interrupt, Isolation } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { Audit, Finding, StoreAdmin, StoreFailed, StoreKeys, StoreSent } from './admin.ts'
import type { StoreClock } from './clock.ts'
import type { Reach, Views } from './connection.ts'
import type { StoreEndpoints } from './endpoints.ts'
import type { StoreNews } from './news.ts'
import type { StoreOperations } from './operations.ts'
import type { StorePauses } from './pauses.ts'
import type { ResponseRow, StoreResponses } from './responses.ts'
import type {
  Deliveries,
  EffectEnd,
  EffectRef,
  EffectRow,
  FailedRow,
  InboxRow,
  Lease,
  LocalResult,
  LocalRow,
  LocalWrites,
  Origin,
  OutboxMessage,
  OutboxRow,
  Peer,
  Receipt,
  RetryRow,
  StoredDeliveries,
} from './rows.ts'
import type { StoreSamples } from './samples.ts'

/** The part of an inbox or outbox that a worker looks at. */
export interface Share {
  readonly table: Origin
  /** The consumer, or the relay. */
  readonly scope: string
  /** The types that the worker handles; '' stands for all that are not in `subscriptions`. Ignored for the outbox. */
  readonly types: readonly string[]
  readonly lanes: readonly number[]
  /** About how many entries at most, spread evenly over the lanes. */
  readonly limit: number
  /** The last key of the previous page, by lane. A lane that is not in it begins at its first key. */
  readonly after: ReadonlyMap<number, string>
  /** Also the keys whose first row is held or waits for its time, which a store may leave out otherwise. @default false */
  readonly all?: boolean
  /**
   * Only rows without order that have been due for this long and were not in hand when a process died: for lanes of other workers. The
   * result does not report rows that become due later.
   */
  readonly overdueMs?: number
}

/** A waiting row without its payload. Rows of one key come in the order of `seq`. */
export interface Entry {
  readonly seq: string
  readonly type: string
  readonly lane: number
  /** The key if its order counts: always in the outbox, in the inbox if the consumer wants it. */
  readonly key: string | null
  readonly bytes: number
  /** Milliseconds until it is due; 0 or less: it is due now. */
  readonly dueMs: number
  /** It failed for good and holds its key. */
  readonly held: boolean
  /** How often a process died that had it in hand. */
  readonly deaths: number
}

/** What a look found. */
export interface Look {
  /**
   * Without order: what is due, oldest first. With order: the first rows of each key, of any type, a page of keys per lane. Keys
   * whose first row is held or not due may be left out, unless the share says `all`.
   */
  readonly entries: readonly Entry[]
  /** Milliseconds until something becomes due that is not due now and not among the entries. */
  readonly nextMs: number | undefined
  /** For the next look's `after`: the lanes that have more keys, with the last one of this page. */
  readonly after: ReadonlyMap<number, string>
}

/** A worker as it registers. */
export interface WorkerHello {
  /** Random, one per boot. */
  readonly id: string
  /** For people: host and process. */
  readonly name: string
  /** After this time without a heartbeat it is presumed dead. */
  readonly ttlMs: number
  /** What it serves: a JSON text that the engine understands. */
  readonly serves: string
}

/** What a worker has in hand. */
export interface InHand {
  /** Inbox rows, by their `seq`. */
  readonly seqs: readonly string[]
  /** Whether it is a suspect that runs alone. */
  readonly alone: boolean
}

/** A failed attempt at an inbox row that will be repeated. */
export interface Rescheduled {
  readonly seq: string
  readonly attempts: number
  readonly lost: number
  readonly delayMs: number
  readonly error: ErrorRecord
  /**
   * What its history says of it: a JSON text in ASCII with the fields of `PastFailure` apart from the time and the attempt, which the store
   * adds. It keeps the last ten.
   */
  readonly entry: string
  readonly leaseToken: string | null
}

/** An outbox row that the broker did not accept and that will be sent again. */
export interface Postponed {
  readonly seq: string
  readonly delayMs: number
  readonly error: ErrorRecord
  /** As `Rescheduled.entry`. */
  readonly entry: string
}

/** An outbox row that the broker will never accept. */
export interface Refused {
  readonly seq: string
  readonly reason: string
  readonly error: ErrorRecord
  /** As `Rescheduled.entry`. */
  readonly entry: string
  /** Whether it also stays in the outbox, where it holds its key. */
  readonly hold: boolean
}

/** A type that a consumer handles. */
export interface SubscriptionRow {
  readonly consumer: string
  readonly type: string
  readonly ordered: boolean
}

/** What a transaction writes last, all or nothing. */
export interface Writes {
  readonly inbox?: readonly RetryRow[]
  readonly failed?: readonly FailedRow[]
  readonly outbox?: readonly OutboxRow[]
  readonly local?: LocalWrites
  readonly response?: ResponseRow
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
      /** Whether receipts that existed before come with the responses to their requests. @default false */
      readonly responses?: boolean
    }
  /**
   * Locks and deletes these inbox rows. Rows that are locked elsewhere are skipped, or waited for first. A row with order
   * is taken only if every older row of its key, due or not, held or not, is taken with it; held rows are never taken.
   */
  | {
      readonly kind: 'claim'
      readonly seqs: readonly string[]
      readonly locked: 'skip' | 'wait'
      /** Whether the rows say how old they are. @default false */
      readonly aged?: boolean
    }
  /** Waits for this inbox row and deletes it, if it is still held by this lease. */
  | { readonly kind: 'settle'; readonly lease: Lease }
  /** As `StoreInbox.fail`, with a body whose writes commit with the failure. */
  | { readonly kind: 'fail'; readonly row: FinalFailure }

/** The last failure of an inbox row. */
export interface FinalFailure {
  readonly seq: string
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  /** As `Rescheduled.entry`. */
  readonly entry: string
  /** Whether it also stays in the inbox, where it holds its key. */
  readonly hold: boolean
  readonly leaseToken: string | null
}

/** A transaction of the store while its body runs. */
export interface Unit<Tx> {
  readonly tx: Tx
  /** Receipts that existed before, by message key. Messages without one are ours. */
  readonly existing: ReadonlyMap<string, Receipt>
  /**
   * With `locked: 'wait'`, and for `settle`: the seqs of the rows that exist, claimed or not. For `fail`: the seq, if the row
   * existed and is in the failed store now. Empty otherwise.
   */
  readonly present: ReadonlySet<string>
  /** Inbox rows that are ours, in the order of `seq`. */
  readonly claimed: ReadonlyMap<string, InboxRow>
  /** Rejects unless the transaction is still the one that was opened, and healthy. */
  check(): Promise<void>
  /** See `Connection.assertAwaited`. */
  readonly assertAwaited?: (() => void) | undefined
  /** See `Connection.reach`; absent where there are no savepoints. */
  readonly reach?: (() => Reach) | undefined
  /**
   * Called between the handlers of two messages of a group: afterwards the second handler cannot undo the effects of the first. Rejects as
   * `check` does. Absent where there are no savepoints.
   */
  readonly border?: (() => Promise<void>) | undefined
  /** Views of the transaction for handlers that overlap; absent where the connection has none. */
  readonly views?: (() => Views<Tx> | undefined) | undefined
  /** How large a message may be that is written in this transaction, as far as that is known; see `Connection.mostBytes`. */
  mostBytes(): number
}

/**
 * A transaction that was entered. What is written goes into that one, in the savepoint that was open then, or nowhere: if it has ended
 * in the meantime both reject with `not-in-transaction`. The check and the write are one step.
 */
export interface Entered {
  /** Writes messages to the outbox at once. */
  writeOutbox(rows: readonly OutboxRow[]): Promise<void>
  /** Writes receipts and inbox rows for all consumers of each message. `followed`: `writeOutbox` comes next, or `leave`. @default false */
  writeLocal(rows: readonly LocalRow[], followed?: boolean): Promise<readonly LocalResult[]>
  /** As `Unit.mostBytes`. */
  mostBytes(): number
  /** Ends it without writing. */
  leave(): void
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
  readonly signal?: Interrupt | undefined
  /** Called once a connection was acquired. From here on the database has to answer in time. */
  readonly acquired?: (() => void) | undefined
  /** How long to wait for a receipt or a row that another transaction holds. */
  readonly lockTimeoutMs: number
  /** How long the transaction may be idle before the database ends it. */
  readonly idleTimeoutMs: number
}

/** One step of the schema. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly checksum: string
  readonly sql: readonly string[]
}

/** Migrations for tools that apply SQL themselves. */
export interface MigrationSql {
  /** Plain statements in their order, also those that record what was applied. They need no more than a transaction around them. */
  readonly statements: readonly string[]
  /** What comes before and after them where nothing else begins a transaction and keeps others away. */
  readonly before: readonly string[]
  readonly after: readonly string[]
  /** The checksums of the migrations, which the statements record. */
  readonly checksums: readonly string[]
  /** What drops everything again. Empty where only some of the migrations were asked for: taking those back is not possible. */
  readonly undo: readonly string[]
  /** The delimiter that the database's own client needs, because statements contain semicolons; undefined: none. */
  readonly delimiter: string | undefined
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
  /** The maximum number of messages per transaction, unless one call handles them all; absent: unlimited. */
  readonly mostShared?: number | undefined
}

/**
 * A database behind hapax, in parts: a tool takes the parts that it uses. `Tx` is what handlers receive, `Own` what the user's own
 * transactions look like. The conformance suite in `hapax/testing` says what a store has to do.
 */
export interface Store<Tx, Own = Tx> {
  readonly features: StoreFeatures
  readonly schema: StoreSchema
  readonly transactions: StoreTransactions<Tx, Own>
  readonly inbox: StoreInbox
  readonly outbox: StoreOutbox
  readonly journal: StoreJournal
  readonly responses: StoreResponses
  readonly endpoints: StoreEndpoints
  readonly workers: StoreWorkers
  readonly subscriptions: StoreSubscriptions
  readonly failed: StoreFailed
  readonly keys: StoreKeys
  readonly sent: StoreSent
  readonly operations: StoreOperations
  readonly pauses: StorePauses
  readonly samples: StoreSamples
  readonly clock: StoreClock
  readonly admin: StoreAdmin
  /** Undefined: processes cannot tell each other anything, and workers find what others have committed by looking. */
  readonly news?: StoreNews | undefined
  close(): Promise<void>
}

/** The tables. */
export interface StoreSchema {
  /**
   * Rejects unless the schema exists and is current; a success is remembered. Resolves with what a worker has to warn of: with this
   * database some messages cannot be taken.
   */
  ready(): Promise<readonly Finding[]>
  migrations(): Promise<readonly MigrationState[]>
  /** The SQL of the migrations, or of those of these versions, for other tools; asks nothing of the database. */
  sql(versions?: readonly number[]): MigrationSql
  /** Applies missing migrations; safe when two instances do it at once. Resolves with those that were applied. */
  migrate(): Promise<readonly Migration[]>
}

/** Transactions with handlers, and what is written inside the user's own. */
export interface StoreTransactions<Tx, Own = Tx> {
  /**
   * One transaction: opening, body, guard, writes, commit. Rejects as `Connection.transaction` does, and with
   * `broken-atomicity` when the body itself ended the transaction. When the guard could not be checked, because the body was cut off or the
   * connection was lost, a store that knows that the transaction was committed rejects with `broken-atomicity`; one that cannot rule it out,
   * because of the statements that the body sent, sets `fields.mayHaveCommitted` on the error.
   */
  run<T>(options: UnitOptions, opening: Opening, body: (unit: Unit<Tx>) => Promise<UnitEnd<T>>): Promise<T>
  /**
   * Takes hold of a transaction of hapax's or the user's own as it is at this instant, for what is to be written in it. Throws
   * `not-in-transaction` or `transaction-closed` if `tx` can be seen to be none.
   */
  enter(tx: Tx | Own): Entered
  /** Whether the transactions take their connections from this pool of the user's. Absent: from none. */
  isOnPool?(pool: object): boolean
}

/** What waits for consumers. Rows are taken by `StoreTransactions.run`, or leased. */
export interface StoreInbox {
  /**
   * Writes the receipts of deliveries, and an inbox row for each that had none, in a transaction of its own: in one round trip where
   * the database and the connection allow it. Rejects as `StoreTransactions.run` does.
   */
  store(options: UnitOptions, deliveries: Deliveries): Promise<StoredDeliveries>
  /** The seq of an inbox row, by consumer and message. */
  find(consumer: string, messageKey: string): Promise<string | undefined>
  /**
   * Records a failed attempt on the inbox row itself, and ends its lease. Called again with the same failure, because the answer was
   * lost, it adds nothing to the history. False: the row is gone, or has another lease; another worker settled it, or has it.
   */
  reschedule(row: Rescheduled): Promise<boolean>
  /** Writes an inbox row to the failed store. False: the row is gone, is held already, or has another lease. */
  fail(row: FinalFailure): Promise<boolean>
  /**
   * Leases those of these inbox rows that are due, neither held nor locked, and not behind their key: gives them this token and a
   * greater fence, and makes them due again when the lease ends. Rows that have this token already are leased once more.
   */
  lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]>
  /** Prolongs leases. Resolves with the seqs of those that are still held, even if their time had passed. */
  renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>>
  /**
   * Makes the rows of this consumer ordered that have a key and were stored without order. Each keeps its position. Waits a little for rows
   * locked by another transaction, which may be doing the same; then skips them. Resolves with the number of rows changed.
   */
  addOrder(consumer: string): Promise<number>
  /** Gives an unordered row this key and makes it ordered. It keeps its position. False: it is gone, or ordered already. */
  addKey(seq: string, key: string): Promise<boolean>
  /** Ends a lease as if there had been none: the row is due after this time, and nothing is recorded. False: the lease is lost. */
  release(lease: Lease, delayMs: number): Promise<boolean>
}

/** What waits for brokers, and where relays go. Rows are written by `StoreTransactions`. */
export interface StoreOutbox {
  /** The messages of these outbox rows that are still there, in the order of `seq`; `aged`: and how old they are. */
  read(seqs: readonly string[], aged?: boolean): Promise<readonly OutboxMessage[]>
  /**
   * Deletes exactly these outbox rows, because the broker has confirmed them; `keep` copies them to `sent`. Does not wait long for
   * rows that another transaction has locked: returns those that are still there.
   */
  confirm(seqs: readonly string[], keep: boolean): Promise<readonly string[]>
  /** Records on outbox rows that the broker did not take them: one more attempt each, due again later. */
  postpone(rows: readonly Postponed[]): Promise<void>
  /** Writes an outbox row to the failed store. False: the row is gone. */
  refuse(row: Refused): Promise<boolean>
  /** Records where a relay goes: unless that is recorded already, or, as a move by hand, in any case. Returns what is recorded. */
  recordRelay(name: string, destination: string, move?: Audit): Promise<string>
}

/** Outside calls of leased work. */
export interface StoreJournal {
  /**
   * Writes an effect as begun, unless it is done, or, without `again`, was begun before; and prolongs the lease. Returns the
   * effect as it was before; undefined: the lease is lost, and nothing was written.
   */
  begin(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined>
  /** Records the outcome of an effect. False: the lease is lost, and nothing was written. */
  end(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean>
  /** The journal of a message, in the order in which the effects were begun first. */
  of(consumer: string, messageKey: string): Promise<readonly EffectRow[]>
  /**
   * What a person knows of an effect of a failed message: one that is begun or unknown, or one that is done and has no result, if that
   * is what is said of it, or one of which a person has said something before. `retried`: only the latter, of a message that waits for its
   * retry and that no worker has leased. False: there is none such.
   */
  settle(effect: EffectRef, end: EffectEnd, audit: Audit, retried?: boolean): Promise<boolean>
}

/** Which workers there are, and what waits for them. */
export interface StoreWorkers {
  join(worker: WorkerHello): Promise<void>
  /**
   * Notes what a worker has in hand, before it runs. A `beat` is its heartbeat as well, and returns all workers, dead ones too; a mere
   * note returns none. Undefined: the worker was presumed dead and removed.
   */
  note(id: string, inHand: InHand, beat: boolean): Promise<readonly Peer[] | undefined>
  /**
   * Removes dead workers. Rows that they had in hand and that are not locked become suspects, or count a crash if they ran
   * alone. Returns how many workers were removed.
   */
  bury(): Promise<number>
  leave(id: string): Promise<void>
  /** All workers, dead ones too. */
  list(): Promise<readonly Peer[]>
  /** Lists what waits in these shares, one result each. Writes nothing; one statement where the database allows it. */
  look(shares: readonly Share[]): Promise<readonly Look[]>
}

/** Which types the consumers of this database handle, in any process. */
export interface StoreSubscriptions {
  /** Adds missing types. Once recorded, `ordered` stays: no process turns it off for others. */
  add(consumer: string, types: readonly string[], ordered: boolean): Promise<void>
  list(): Promise<readonly SubscriptionRow[]>
  /** Forgets a consumer. Its receipts, inbox and failed rows stay. False: it has no subscriptions. */
  remove(consumer: string, audit: Audit): Promise<boolean>
}
