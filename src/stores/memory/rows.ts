import type { ErrorRecord } from '../../base/index.ts'
import type {
  Audit,
  AuditSubject,
  BulkOperation,
  EffectRow,
  FailedMessage,
  InboxRow,
  MinuteSample,
  OutboxMessage,
  Receipt,
  ResponseRow,
} from '../../contracts/index.ts'
import type { Past, Remembered, StoredMessage } from '../../message/index.ts'
import { compareSeq } from '../../message/index.ts'

/** A row of `hapax_receipts`. */
export interface ReceiptRow extends Receipt {
  readonly consumer: string
  readonly messageKey: string
}

/** A row of `hapax_responses`. */
export interface KeptResponse extends Omit<ResponseRow, 'keepMs'> {
  readonly createdAt: Date
  readonly expiresAt: number
}

/** What rows of inbox and outbox have in common. */
interface Queued extends Remembered {
  readonly lane: number
  readonly createdAt: Date
  readonly availableAt: number
  /** When `availableAt` was set; in the future if the clock went back since. */
  readonly setAt: number
  readonly heldAt: Date | null
  readonly error: ErrorRecord | null
  /** The name of its failed row before a retry. */
  readonly failedSeq: string | null
}

/** A row of `hapax_inbox`. */
export interface WaitingRow extends InboxRow, Queued {
  /** When a message of local delivery was due first; null: it came another way. */
  readonly firstDueAt: number | null
}

/** A row of `hapax_outbox`. */
export interface LeavingRow extends OutboxMessage, Queued {
  readonly relay: string
  readonly message: StoredMessage
}

/** A row of `hapax_failed`; `heldSeq` names the row that still stands in its place. */
export interface FailedEntry extends Omit<FailedMessage, 'held' | keyof Past>, Remembered {
  readonly ordered: boolean
  readonly heldSeq: string | null
  /** The number of this failure; differs from `seq` if the row kept its `seq` through a retry. */
  readonly failureSeq: string
}

/** A row of `hapax_effects`: the calls of a message were begun in the order of `seq`. */
export interface EffectEntry extends EffectRow {
  readonly seq: string
}

/** A row of `hapax_subscriptions`. */
export interface SubscriptionRow {
  readonly consumer: string
  readonly type: string
  readonly ordered: boolean
}

/** A row of `hapax_relays`. */
export interface RelayRow {
  readonly name: string
  readonly destination: string
}

/** A row of `hapax_audit`. */
export interface AuditRow extends Audit, AuditSubject {
  readonly seq: string
  readonly at: Date
}

/** A row of `hapax_operations`: the union stays one, so that `kind` tells what `where` is. */
export type OperationRow = (BulkOperation extends infer Each
  ? Each extends BulkOperation
    ? Omit<Each, 'worked'>
    : never
  : never) &
  OperationLease

/** Who works on an operation: null, or nobody once the time has passed. */
interface OperationLease {
  readonly token: string | null
  readonly leasedUntil: number
}

/** A row of `hapax_samples`: one worker's part of a minute. */
export interface SampleRow extends MinuteSample {
  readonly worker: string
}

/** A row that has not failed. */
export const NEVER_FAILED: Remembered = { failures: 0, history: null }

/** The key of a receipt; that of a message always has the same length. */
export function receiptKey(consumer: string, { messageKey }: Pick<StoredMessage, 'messageKey'>): string {
  return messageKey + consumer
}

/** A message with bytes of its own: the caller may use its buffer again. */
export function kept(message: StoredMessage): StoredMessage {
  const { messageKey, source, id, type, key, attributes, fingerprint } = message
  return { messageKey, source, id, type, key, attributes, fingerprint, data: new Uint8Array(message.data) }
}

/** What an audit row is about, when it is about a message. */
export function subjectOf({ source, id, type }: Pick<StoredMessage, 'source' | 'id' | 'type'>): AuditSubject {
  return { source, id, type }
}

/** The oldest row in front. */
export function bySeq(a: { seq: string }, b: { seq: string }): number {
  return compareSeq(a.seq, b.seq)
}

/** The seqs of a page of rows that are sorted by it. */
export function pageAfter(rows: readonly { seq: string }[], after: string | undefined, limit: number): string[] {
  const behind = rows.filter((row) => after === undefined || compareSeq(row.seq, after) > 0)
  return behind.slice(0, limit).map((row) => row.seq)
}
