import type { EffectState, ErrorRecord } from '../base/index.ts'
import type { LeavingMessage, StoredMessage } from '../message/index.ts'
import type { StoredResponse } from './responses.ts'

/** The receipt of a message that had been taken before. */
export interface Receipt {
  readonly token: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly fingerprint: string
  readonly takenAt: Date
  /** The response to an HTTP request, where it was asked for; undefined: there is none. */
  readonly response?: StoredResponse | undefined
  /** Whether that response has expired, so that the key may be used again. @default false */
  readonly expired?: boolean
}

/** A message that a transaction took from the inbox. `seq` names the row: its number and a random mark. */
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
  /** How often a process died with this row, perhaps among others, in hand. From 1 on it runs apart from the rest, from 2 on alone. */
  readonly starts: number
  /** How often a process died while it ran alone. */
  readonly crashes: number
  /** The token of its current or last lease; null: it was never leased. */
  readonly leaseToken: string | null
  /** Grows with every lease. */
  readonly fence: number
  /**
   * How long ago a message of local delivery was due first, by the clock of the database; null: it came another way. Undefined: that
   * was not asked for.
   */
  readonly ageMs?: number | null
}

/** The right to work on an inbox row without a transaction: as long as the row has this token and this fence. */
export interface Lease {
  readonly seq: string
  readonly token: string
  readonly fence: number
}

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
  /** How often the broker refused it while it was reachable. */
  readonly attempts: number
  /** How long ago it was due first, by the clock of the database. Undefined: that was not asked for. */
  readonly ageMs?: number
}

/** A message for every local consumer of its type. */
export interface LocalRow {
  readonly message: StoredMessage
  /** The consumers that this process knows; the store adds those of `subscriptions`, and the order that they record. */
  readonly consumers: readonly { readonly name: string; readonly ordered: boolean }[]
  readonly delayMs: number
}

/** What became of a local message: how many consumers it is for, and for how many of them it was new. */
export interface LocalResult {
  readonly consumers: number
  readonly fresh: number
  /** The inbox rows that are new, where the database tells without being asked for them. */
  readonly rows?: readonly LocalDelivery[]
}

/** Receipts and inbox rows for all consumers of each message. */
export interface LocalWrites {
  /** Of distinct messages. */
  readonly rows: readonly LocalRow[]
  /** Called with one result for each row once the commit is known to have happened; must not throw. */
  committed(results: readonly LocalResult[]): void
}

/** The inbox row of a local message, for one consumer. */
export interface LocalDelivery {
  readonly consumer: string
  /** Whether the order of its key counts. */
  readonly ordered: boolean
  readonly seq: string
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
  /** A message of local delivery, whose age counts from here. @default false */
  readonly local?: boolean
  /** As `Rescheduled.entry`. @default it has not failed */
  readonly entry?: string
}

/** Deliveries of distinct messages to one consumer, to be worked later. */
export interface Deliveries {
  readonly consumer: string
  /** Fresh: a receipt that has it later was written by this very call. */
  readonly token: string
  readonly messages: readonly StoredMessage[]
  /** Whether the consumer wants the order of their keys. */
  readonly ordered: boolean
  /** 1 when the process that stores them begins with them at once. */
  readonly starts: 0 | 1
}

/** What became of deliveries, by message key. */
export interface StoredDeliveries {
  /** Receipts that existed before. All other messages are in the inbox now. */
  readonly existing: ReadonlyMap<string, Receipt>
  /** The seqs of the new inbox rows, where the database tells without being asked for them. */
  readonly seqs: ReadonlyMap<string, string>
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
  /** As `Rescheduled.entry`. */
  readonly entry: string
}

/** A worker as other workers see it. */
export interface Peer extends WorkerRow {
  /** The rows it has recorded as about to run. */
  readonly seqs: readonly string[]
  /** Its session is missing; whether its process has ended is known shortly. */
  readonly doubtful: boolean
}

/** A registered worker. */
export interface WorkerRow {
  readonly id: string
  readonly name: string
  readonly serves: string
  readonly startedAt: Date
  /** The time since its last heartbeat. */
  readonly silentMs: number
  readonly alive: boolean
  /** About how many messages it has in hand. */
  readonly inHand: number
  /** The time of the database when it was listed. */
  readonly listedAt: Date
}
