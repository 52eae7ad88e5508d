import type { ErrorRecord } from '../../core/errors.ts'
import type { StoredMessage } from '../../core/message.ts'
import type { FailedMessage, InboxRow, Receipt, Trace } from '../../core/store.ts'

/** A row of `hapax_receipts`. */
export interface ReceiptRow extends Receipt {
  readonly consumer: string
  readonly type: string
}

/** A row of `hapax_inbox`. */
export interface WaitingRow extends InboxRow {
  readonly createdAt: Date
  readonly availableAt: number
  readonly error: ErrorRecord | null
}

/** A row of `hapax_outbox`. */
export interface LeavingRow {
  readonly seq: string
  readonly relay: string
  readonly message: StoredMessage
  readonly createdAt: Date
  readonly availableAt: number
}

/** The key of a receipt; that of a message always has the same length. */
export function receiptKey(consumer: string, { messageKey }: StoredMessage): string {
  return messageKey + consumer
}

/** A message with bytes of its own: whoever gave them may use the buffer again. */
export function kept(message: StoredMessage): StoredMessage {
  const { messageKey, source, id, type, key, attributes, fingerprint } = message
  return { messageKey, source, id, type, key, attributes, fingerprint, data: new Uint8Array(message.data) }
}

/** The oldest row in front. */
export function bySeq(a: { seq: string }, b: { seq: string }): number {
  return Number(a.seq) - Number(b.seq)
}

/** Where a message was found, and its id. */
interface Found {
  readonly id: string
  readonly trace: Trace
}

export function receiptTrace({ consumer, source, id, type, takenAt }: ReceiptRow): Found {
  return { id, trace: { where: 'receipt', consumer, source, type, at: takenAt } }
}

export function inboxTrace({ consumer, message, createdAt, attempts, availableAt, error }: WaitingRow): Found {
  const { id, source, type } = message
  const dueAt = new Date(availableAt)
  return { id, trace: { where: 'inbox', consumer, source, type, at: createdAt, attempts, dueAt, error } }
}

export function outboxTrace({ relay, message, createdAt }: LeavingRow): Found {
  const { id, source, type } = message
  return { id, trace: { where: 'outbox', relay, source, type, at: createdAt } }
}

export function failedTrace({ seq, consumer, message, attempts, reason, error, failedAt }: FailedMessage): Found {
  const { id, source, type } = message
  return { id, trace: { where: 'failed', consumer, source, type, at: failedAt, seq, attempts, reason, error } }
}
