import type { EffectState, ErrorRecord } from '../base/index.ts'
import type { Past, StoredMessage } from '../message/index.ts'
import type { Audit } from './admin.ts'
import type { Origin } from './rows.ts'

/** Which receipts. */
export interface ReceiptWhere {
  /** @default those of all consumers, one after the other */
  readonly consumer?: string | undefined
  /** Taken at this time or later, by the clock of the database. */
  readonly since?: Date | undefined
  /** Taken before this time. */
  readonly until?: Date | undefined
}

/** Which effects; the times are those of their last change. */
export interface EffectWhere extends ReceiptWhere {
  readonly state?: EffectState | undefined
}

/** A row of a list by its key: the next page follows it. `name` is that of an effect. */
export interface ListPosition {
  readonly consumer: string
  /** @default before the first row of the consumer */
  readonly messageKey?: string | undefined
  readonly name?: string | undefined
}

/**
 * What one look at a list found. A look reads a bounded number of rows and returns those that were asked for: there may be few, or none,
 * although there are more.
 */
export interface Listed<T> {
  readonly rows: readonly T[]
  /** Where the next look goes on; undefined: there is no more. */
  readonly after: ListPosition | undefined
}

/** A receipt, as people see it. */
export interface ListedReceipt {
  readonly consumer: string
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly takenAt: Date
}

/** An effect, as people see it; `explain` shows what it returned. The message is null if its receipt is gone. */
export interface ListedEffect {
  readonly consumer: string
  readonly messageKey: string
  readonly name: string
  readonly state: EffectState
  readonly attempts: number
  readonly error: ErrorRecord | null
  readonly firstAt: Date
  readonly lastAt: Date
  readonly message: { readonly source: string; readonly id: string; readonly type: string } | null
}

/** What a waiting message is doing. `waiting`: never failed; `retrying`: failed, and due again; `held`: holds its key; `leased`: in hand. */
export type WaitingState = 'waiting' | 'retrying' | 'held' | 'leased'

/** Which messages of the inbox or outbox. */
export interface WaitingWhere {
  /** The consumer, or the relay. */
  readonly scope?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly id?: string | undefined
  readonly state?: WaitingState | undefined
  /** Written at this time or later, by the clock of the database. */
  readonly since?: Date | undefined
  /** Written before this time. */
  readonly until?: Date | undefined
}

/** A row of the inbox or outbox, as people see it, without its payload. */
export interface WaitingMessage extends Past {
  readonly seq: string
  readonly origin: Origin
  /** The consumer, or the relay. */
  readonly scope: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly state: WaitingState
  /** Whether the order of its key counts. */
  readonly ordered: boolean
  readonly attempts: number
  /** How large its payload is. */
  readonly bytes: number
  readonly createdAt: Date
  /** When it is due; of a leased one: when its lease ends. */
  readonly dueAt: Date
  readonly heldAt: Date | null
  readonly error: ErrorRecord | null
}

/** What stands in front of a message of its key. */
export interface Ahead {
  /** How many there are; counted up to 1,000. */
  readonly count: number
  /** The first of its key, which the others wait for. */
  readonly first: WaitingMessage
}

/** Which entries of the audit. */
export interface AuditWhere {
  readonly actor?: string | undefined
  readonly action?: Audit['action'] | undefined
  /** The consumer, or the relay. */
  readonly scope?: string | undefined
  /** Tells a consumer and a relay with the same name apart. Entries without an origin, such as of an import, match either. */
  readonly origin?: Origin | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** An entry of the audit: what a person changed by hand. */
export interface AuditEntry {
  readonly seq: string
  readonly at: Date
  readonly action: Audit['action']
  readonly actor: string
  readonly note: string | null
  readonly origin: Origin | null
  readonly scope: string | null
  readonly source: string | null
  readonly id: string | null
  readonly type: string | null
}

/** What one look at a list found that is read by its number, the newest first: as `Listed`. */
export interface Numbered<T> {
  readonly rows: readonly T[]
  /** The number before which the next look goes on; undefined: there is no more. */
  readonly before: string | undefined
}

/** What waits, and what people did. Looks are bounded, as those of `StoreLists`. */
export interface StoreWaiting {
  /**
   * The newest first. A state, the key of a relay and the key of a given consumer with order are found by an index, as far as the database has
   * one; others are looked for row by row. While a consumer has rows of a key whose order counts, only these are found by consumer and key.
   */
  waiting(
    origin: Origin,
    where: WaitingWhere,
    before: string | undefined,
    limit: number,
  ): Promise<Numbered<WaitingMessage>>
  /** One of them, with its payload; undefined: it is gone. */
  one(
    origin: Origin,
    seq: string,
  ): Promise<{ readonly row: WaitingMessage; readonly message: StoredMessage } | undefined>
  /** What a message of the inbox or outbox waits for because of its key; undefined: nothing, or it is gone. */
  ahead(origin: Origin, seq: string): Promise<Ahead | undefined>
  /** Those due next of the messages that have failed and will be tried again. */
  retries(origin: Origin, limit: number): Promise<readonly WaitingMessage[]>
  /** Makes a message that was tried before and waits for its next attempt due at once. False: it is due, held, leased, or gone. */
  hasten(origin: Origin, seq: string, audit: Audit): Promise<boolean>
  /** The audit, the newest first. */
  audited(where: AuditWhere, before: string | undefined, limit: number): Promise<Numbered<AuditEntry>>
}

/**
 * Tables that are too large for an index on what people ask for: they are read by their key, the highest first. Where ids are UUIDv7,
 * that is the newest message; messages with other ids come last, in no order.
 */
export interface StoreLists {
  receipts(where: ReceiptWhere, after: ListPosition | undefined, limit: number): Promise<Listed<ListedReceipt>>
  effects(where: EffectWhere, after: ListPosition | undefined, limit: number): Promise<Listed<ListedEffect>>
}
