// How rows get into the tables: one function per table, used by every part that writes.

import { errorHash } from '../../base/index.ts'
import type { OutboxRow, RetryRow } from '../../contracts/index.ts'
import type { Remembered, StoredMessage } from '../../message/index.ts'
import { laneOf, remember } from '../../message/index.ts'
import type { Data } from './data.ts'
import { type FailedEntry, kept, NEVER_FAILED, receiptKey } from './rows.ts'

/** Writes a receipt. */
export function receive(data: Data, consumer: string, token: string, message: StoredMessage): void {
  const { messageKey, source, id, type, fingerprint } = message
  const row = { consumer, messageKey, token, source, id, type, fingerprint, takenAt: data.now() }
  data.receipts.set(receiptKey(consumer, message), row)
}

/** Writes an inbox row. Returns its seq. */
export function addInbox(
  data: Data,
  { delayMs, local, entry, ...row }: RetryRow,
  fence = 0,
  failedSeq: string | null = null,
  { failures, history }: Remembered = NEVER_FAILED,
): string {
  const seq = data.nextSeq()
  // A message without a key has no order to keep.
  const ordered = row.ordered && row.message.key !== null
  const lane = laneOf(row.message, ordered)
  const now = data.clock.now()
  const availableAt = now + delayMs
  const times = { createdAt: data.now(), availableAt, setAt: now, firstDueAt: local ? availableAt : null, heldAt: null }
  const past = { failures, history }
  const own = entry === undefined ? past : remember(past, now, row.attempts, entry)
  const places = { seq, message: kept(row.message), ordered, lane, fence, failedSeq }
  data.inbox.set(seq, { ...row, ...places, ...NEW, ...own, ...times })
  return seq
}

const NEW = { lost: 0, crashes: 0, leaseToken: null } as const

/** Writes an outbox row. */
export function addOutbox(
  data: Data,
  { relay, message, delayMs }: OutboxRow,
  failedSeq: string | null = null,
  { failures, history }: Remembered = NEVER_FAILED,
): void {
  const seq = data.nextSeq()
  const lane = laneOf(message, true)
  const now = data.clock.now()
  const times = { createdAt: data.now(), availableAt: now + delayMs, setAt: now, heldAt: null }
  const own = { attempts: 0, error: null, failedSeq, failures, history }
  data.outbox.set(seq, { seq, relay, message: kept(message), lane, ...own, ...times })
}

/** Writes a failed row, unless it is there; under the name that it had before a retry, unless that is taken. */
export function addFailed(
  data: Data,
  row: Omit<FailedEntry, 'seq' | 'failureSeq' | 'failedAt' | 'errorHash' | 'replacedBy'>,
  before: string | null = null,
): void {
  const { origin, consumer, ordered, attempts, reason, error, heldSeq, failures, history } = row
  const message = kept(row.message)
  const known = data.failed.all().find((other) => {
    const same = other.message.messageKey === message.messageKey && other.message.fingerprint === message.fingerprint
    return same && other.consumer === consumer && other.origin === origin
  })
  const failureSeq = data.nextSeq()
  // It failed before, and may hold its key now.
  if (known !== undefined) {
    data.failed.set(known.seq, { ...known, failureSeq, heldSeq: known.heldSeq ?? heldSeq, replacedBy: null })
    return
  }
  const seq = before === null || data.failed.get(before) !== undefined ? failureSeq : before
  const times = { failureSeq, failedAt: data.now(), heldSeq, replacedBy: null }
  const rest = { errorHash: errorHash(error), failures, history, ...times }
  data.failed.set(seq, { seq, origin, consumer, message, ordered, attempts, reason, error, ...rest })
}
