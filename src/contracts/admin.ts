import type { ErrorRecord } from '../base/index.ts'
import type { Past, StoredMessage } from '../message/index.ts'
import type { StoreLists, StoreWaiting } from './lists.ts'
import type { OperationStep } from './operations.ts'
import type { Pause } from './pauses.ts'
import type { EffectRow, Origin, WorkerRow } from './rows.ts'

/** Who changed something by hand, and what kind of change it was. */
export interface Audit {
  /** @default the user of the operating system */
  readonly actor: string
  readonly action:
    | 'retry'
    | 'edit'
    | 'discard'
    | 'release'
    | 'republish'
    | 'move'
    | 'remove'
    | 'cleanup'
    | 'purge'
    | 'settle'
    | 'add'
    | 'change'
    | 'import'
    | 'pause'
    | 'resume'
    | 'cancel'
    | 'begin'
    | 'note'
    /** Somebody entered the console of a process of its own, or left it. */
    | 'sign-in'
    | 'sign-out'
    /** Somebody was shown the payload of a message. */
    | 'look'
    /** Written by a worker when the database clock went back. */
    | 'recount'
  readonly note?: string | undefined
}

/** What the change was about. */
export interface AuditSubject {
  readonly origin?: Origin | undefined
  /** The consumer, or the relay. */
  readonly consumer?: string | undefined
  readonly source?: string | undefined
  readonly id?: string | undefined
  readonly type?: string | undefined
}

/** One step of a cleanup. */
export type CleanupStep =
  /** Looks at receipts in the order of their keys and deletes those that are old and finished, or only counts them. */
  | {
      readonly kind: 'receipts'
      readonly consumer: string
      /** Where this step begins: the key that the step before it returned. @default the first key */
      readonly after: string | undefined
      /** @default false */
      readonly dryRun?: boolean
    }
  | { readonly kind: 'sent'; readonly relay: string }
  /**
   * Deletes the oldest rows of the audit, or only counts them; then `after` is as for receipts. Operations that ended as long ago are
   * deleted as well, and not counted.
   */
  | { readonly kind: 'audit'; readonly after?: string | undefined; readonly dryRun?: boolean }

/** The result of one cleanup step. */
export interface Cleaned {
  /** How many rows were deleted, or would be. */
  readonly deleted: number
  /** Where the next step continues; undefined: nothing is left. */
  readonly after: string | undefined
  /** Of receipts: the age of the oldest one that was looked at and stays. Undefined: none stays, or it is not known. */
  readonly oldestMs?: number | undefined
}

/** A row of the failed store. */
export interface FailedMessage extends Past {
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
  /** It is still in the inbox or outbox, where it holds its key. */
  readonly held: boolean
  /** The id of the message that an edit put in its place. */
  readonly replacedBy: string | null
}

/** Selects failed messages. */
export interface FailedWhere {
  readonly origin?: Origin | undefined
  readonly consumer?: string | undefined
  readonly type?: string | undefined
  readonly reason?: string | undefined
  readonly errorHash?: string | undefined
  /** Failed longer ago than this. */
  readonly olderThanMs?: number | undefined
  /** Failed within this time. */
  readonly newerThanMs?: number | undefined
  /** Failed at this time or later, by the clock of the database. */
  readonly since?: Date | undefined
  /** Failed before this time. */
  readonly until?: Date | undefined
  /** Those that an edit has replaced, instead of those that wait for a decision. @default false */
  readonly replaced?: boolean | undefined
}

/** The failed messages that an operation selected when it began. */
export interface FrozenFailed extends FailedWhere {
  /**
   * The number of the last failure that belongs to it. Each failure gets a higher number than those before it, even where the row keeps the
   * `seq` it had before a retry.
   */
  readonly lastFailure?: string | undefined
}

/** A page of failed messages, from the newest to the oldest. */
export interface FailedFilter extends FailedWhere {
  /** Only rows older than this one. */
  readonly before?: string | undefined
  readonly limit: number
}

/** Failed messages with the same consumer, type, reason and kind of error. */
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
  /** How many messages wait behind it. */
  readonly waiting: number
}

/** A message that was published and kept. */
export interface SentMessage {
  readonly seq: string
  readonly relay: string
  readonly message: StoredMessage
  readonly sentAt: Date
}

/** Selects published messages. */
export interface SentWhere {
  readonly relay?: string | undefined
  readonly type?: string | undefined
  readonly olderThanMs?: number | undefined
  readonly newerThanMs?: number | undefined
  /** Sent at this time or later, by the clock of the database. */
  readonly since?: Date | undefined
  /** Sent before this time. */
  readonly until?: Date | undefined
}

/** A page of published messages, from the newest to the oldest. */
export interface SentFilter extends SentWhere {
  /** Only rows older than this one. */
  readonly before?: string | undefined
  readonly limit: number
}

/** The name of the error on an effect that a person settled: until the call is made again, it may be settled anew. */
export const SETTLED = 'Settled'

/** How closely `status` looks. */
export interface StatusOptions {
  /** Counts every row, also receipts. On large tables that takes seconds, or minutes. @default false */
  readonly exact?: boolean | undefined
  /** How long the database may take. @default 10_000, or 600_000 with `exact` */
  readonly limitMs?: number | undefined
}

/**
 * What waits, for status pages and metrics. It is found by indexes alone, so that it takes milliseconds however large the tables are.
 *
 * Numbers are exact up to 10,000 per consumer or relay and state, and per reason of failed messages. Beyond that, `estimated` says that
 * numbers come from the statistics of the database: of the right order of magnitude while those are up to date, and never less than
 * what was counted. With `exact`, every number is exact.
 */
export interface StoreStatus {
  /** When this was so, by the clock of the database. */
  readonly at: Date
  /** Those that have receipts, inbox rows or failed messages. */
  readonly consumers: readonly {
    readonly consumer: string
    /** Never failed. */
    readonly waiting: number
    /** Failed, and due again at some time. */
    readonly retrying: number
    /** Keys that wait behind a message that failed for good. */
    readonly held: number
    /** Messages in the failed store that wait for a decision. */
    readonly failed: number
    /** Those of them that failed because nobody knows whether an outside call was made. */
    readonly unknownEffects: number
    /**
     * Since when its oldest message waits that is not held: since it was due, and once it has failed, since it was stored. What is not
     * due yet and has never failed does not count. Null: nothing waits. Exact, unless more than 1,000 messages with order wait and
     * older ones of others too: then it is the oldest of a sample.
     */
    readonly oldestAt: Date | null
    /** Only with `exact`. */
    readonly receipts?: number
    /** Whether one of these numbers is an estimate. */
    readonly estimated: boolean
  }[]
  readonly relays: readonly {
    readonly relay: string
    readonly waiting: number
    /** Those of them that the broker has not accepted, and that are sent again. */
    readonly retrying: number
    readonly held: number
    readonly failed: number
    /** As for consumers. */
    readonly oldestAt: Date | null
    /** Where it goes, as recorded by the first worker. */
    readonly destination: string | null
    readonly estimated: boolean
  }[]
  /** Failed messages that wait for a decision, by reason. */
  readonly failed: readonly {
    readonly origin: Origin
    /** The consumer, or the relay. */
    readonly scope: string
    readonly reason: string
    readonly count: number
    readonly estimated: boolean
  }[]
  /** How large the tables are: estimates, or counted with `exact`. */
  readonly tables: readonly Growth[]
  readonly workers: readonly WorkerRow[]
  /** Consumers and relays that a person has paused. */
  readonly paused: readonly Pause[]
}

/** What `doctor` found about the store. */
export interface Finding {
  /** What was checked, in a few words. */
  readonly check: string
  readonly level: 'ok' | 'warning' | 'error'
  readonly message: string
  /** What to do about it; empty when all is well. */
  readonly advice: string
}

/** A table that grows with what passes through, or with what is kept. */
export type GrowingTable = 'inbox' | 'outbox' | 'failed' | 'receipts' | 'effects' | 'responses' | 'sent' | 'audit'

/** How large a table is, without counting it. */
export interface Growth {
  readonly table: GrowingTable
  /** An estimate, or more than there are; undefined: the database has none. */
  readonly rows: number | undefined
  /** How long ago its oldest row was written, where that is quickly found. Of responses: how long ago the first of them expired. */
  readonly oldestMs: number | undefined
}

/** One place where a message was found. `traceparent` is that of the message, if it has one: it names the trace it was published in. */
export type Trace =
  | {
      readonly where: 'receipt'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
    }
  /** The response to an HTTP request. It is sent again until it expires. */
  | {
      readonly where: 'response'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly status: number
      readonly expiresAt: Date
    }
  | ({
      readonly where: 'inbox'
      readonly seq: string
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly traceparent: string | null
      readonly attempts: number
      /** Whether a process works on it under a lease, which ends at `dueAt`. */
      readonly leased: boolean
      readonly dueAt: Date
      readonly key: string | null
      readonly heldAt: Date | null
      readonly error: ErrorRecord | null
    } & Past)
  | ({
      readonly where: 'outbox'
      readonly seq: string
      readonly relay: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly traceparent: string | null
      readonly attempts: number
      readonly key: string | null
      readonly heldAt: Date | null
      readonly error: ErrorRecord | null
    } & Past)
  | {
      readonly where: 'sent'
      readonly relay: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly traceparent: string | null
    }
  /** In a store with claims only: claimed, and not finished. */
  | ({
      readonly where: 'claim'
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly attempts: number
      /** Whether a process holds the claim. */
      readonly held: boolean
      /** When its lease ends, or its next attempt is due. */
      readonly dueAt: Date
      /** Whether the store has the message, because a person retried it. Otherwise its broker has it. */
      readonly stored: boolean
      readonly error: ErrorRecord | null
    } & Past)
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
  | ({
      readonly where: 'failed'
      readonly origin: Origin
      readonly consumer: string
      readonly source: string
      readonly type: string
      readonly at: Date
      readonly traceparent: string | null
      readonly seq: string
      readonly attempts: number
      readonly reason: string
      readonly held: boolean
      readonly replacedBy: string | null
      readonly error: ErrorRecord
    } & Past)

/** The failed store: messages that failed for good. Changes are audited, and counted to their operation, in the same transaction. */
export interface StoreFailed {
  list(filter: FailedFilter): Promise<readonly FailedMessage[]>
  count(where: FailedWhere): Promise<number>
  groups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]>
  /** The seqs of failed messages after `after`, oldest first, without payloads: for changes in bulk. */
  seqs(where: FrozenFailed, after: string | undefined, limit: number): Promise<readonly string[]>
  get(seq: string): Promise<FailedMessage | undefined>
  /**
   * Retries a failed message under its own id, with its attempts at zero: it goes back into the inbox or outbox, or, if it is held,
   * continues where it stands. If it fails again, it gets the same number, unless another row has that by then. False: there is no
   * such message, or an edit has replaced it.
   */
  retry(seq: string, audit: Audit, step?: OperationStep): Promise<boolean>
  /**
   * Puts another message in the place of a failed one. `message` has an id of its own; for a consumer, its receipt is written too.
   * The failed row stays and names its replacement. False: there is no such message, or an edit has replaced it before.
   */
  edit(seq: string, message: StoredMessage, audit: Audit): Promise<boolean>
  /** Deletes a failed message, and the row that holds its key. Its receipt stays. False: there is no such message. */
  discard(seq: string, audit: Audit, step?: OperationStep): Promise<boolean>
}

/** Keys that wait behind a message that failed for good. */
export interface StoreKeys {
  /** Held keys, those held longest first. */
  list(limit: number): Promise<readonly HeldKey[]>
  /** Lets a key continue without its held message, which stays in the failed store. False: the key is not held. */
  release(origin: Origin, scope: string, key: string, audit: Audit): Promise<boolean>
}

/** Messages that were published and kept. */
export interface StoreSent {
  list(filter: SentFilter): Promise<readonly SentMessage[]>
  /** The seqs of published messages after `after`, oldest first, without payloads. */
  seqs(where: SentWhere, after: string | undefined, limit: number): Promise<readonly string[]>
  /** Copies a published message back into the outbox, under its own id. False: there is no such message. */
  republish(seq: string, audit: Audit, step?: OperationStep): Promise<boolean>
  /** Deletes published messages. Returns how many of them were there. */
  purge(seqs: readonly string[]): Promise<number>
}

/** What operators use: cleanup, audit, checks and lookups. */
export interface StoreAdmin extends StoreLists, StoreWaiting {
  /** One cleanup step: checks up to `limit` rows and deletes those that are finished and older than `olderThanMs`. */
  clean(step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned>
  /** Records a manual change that no other method records. */
  audit(audit: Audit, about: AuditSubject): Promise<void>
  /** What `doctor` wants to know: settings, long transactions, clocks. No table is read as a whole for it. */
  checkup(): Promise<readonly Finding[]>
  /** What waits. One bounded statement, or few, on a connection that handlers cannot exhaust. */
  status(options?: StatusOptions): Promise<StoreStatus>
  /**
   * Every place where a message with this id is known. Found by its key if `source` is given or the id is a UUIDv7. Any other id is
   * looked up under the sources of responses to it, of workers and of a sample of the rows, or, with `scan`, in all rows.
   */
  trace(id: string, source?: string, scan?: boolean): Promise<readonly Trace[]>
}
