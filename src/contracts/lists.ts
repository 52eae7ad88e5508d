import type { EffectState, ErrorRecord } from '../base/index.ts'

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

/**
 * Tables that are too large for an index on what people ask for: they are read by their key, the highest first. Where ids are UUIDv7,
 * that is the newest message; messages with other ids come last, in no order.
 */
export interface StoreLists {
  receipts(where: ReceiptWhere, after: ListPosition | undefined, limit: number): Promise<Listed<ListedReceipt>>
  effects(where: EffectWhere, after: ListPosition | undefined, limit: number): Promise<Listed<ListedEffect>>
}
