import { HapaxError } from '../../base/index.ts'
import type {
  Audit,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  FrozenFailed,
} from '../../contracts/index.ts'
import type { Remembered, StoredMessage } from '../../message/index.ts'
import { compareSeq, laneOf, pastOf } from '../../message/index.ts'
import { addInbox, addOutbox, receive } from './add.ts'
import type { Data } from './data.ts'
import { bySeq, type FailedEntry, kept, NEVER_FAILED, receiptKey, subjectOf } from './rows.ts'

/** A row as people see it. */
function shown({ ordered: _, failureSeq: __, heldSeq, ...row }: FailedEntry): FailedMessage {
  return { ...row, ...pastOf(row), held: heldSeq !== null }
}

/** Whether a row is one of those. */
function fits(data: Data, where: FrozenFailed): (row: FailedEntry) => boolean {
  const { origin, consumer, type, reason, errorHash: hash, olderThanMs, newerThanMs, since, until } = where
  const { replaced = false, lastFailure } = where
  return (row) => {
    const ageMs = data.clock.now() - row.failedAt.getTime()
    return (
      (origin === undefined || row.origin === origin) &&
      (consumer === undefined || row.consumer === consumer) &&
      (type === undefined || row.message.type === type) &&
      (reason === undefined || row.reason === reason) &&
      (hash === undefined || row.errorHash === hash) &&
      (olderThanMs === undefined || ageMs > olderThanMs) &&
      (newerThanMs === undefined || ageMs <= newerThanMs) &&
      (since === undefined || row.failedAt >= since) &&
      (until === undefined || row.failedAt < until) &&
      (lastFailure === undefined || compareSeq(row.failureSeq, lastFailure) <= 0) &&
      replaced === (row.replacedBy !== null)
    )
  }
}

/** A page of failed messages, newest first. */
export function failedList(data: Data, { before, limit, ...where }: FailedFilter): readonly FailedMessage[] {
  const rows = failedRows(data, where).filter((row) => before === undefined || compareSeq(row.seq, before) < 0)
  return rows.reverse().slice(0, limit).map(shown)
}

/** The rows, oldest first. */
export function failedRows(data: Data, where: FrozenFailed): FailedEntry[] {
  return data.failed.all().filter(fits(data, where)).sort(bySeq)
}

/** Whether a row exists and belongs to the selection. */
export function isOne(data: Data, where: FrozenFailed, seq: string): boolean {
  const row = data.failed.get(seq)
  return row !== undefined && fits(data, where)(row)
}

/** One failed message, replaced or not. */
export function failedGet(data: Data, seq: string): FailedMessage | undefined {
  const row = data.failed.get(seq)
  return row && shown(row)
}

/** Failed messages that are alike, the largest group first; each shows the newest error. */
export function failedGroups(data: Data, where: FailedWhere, limit: number): readonly FailedGroup[] {
  const alike = ({ origin, consumer, message, reason, errorHash: hash }: FailedEntry): string =>
    JSON.stringify([origin, consumer, message.type, reason, hash])
  const groups = [...Map.groupBy(failedRows(data, where), alike).values()].flatMap(asGroup)
  return groups.sort((a, b) => b.count - a.count || bySeq(b, a)).slice(0, limit)
}

function asGroup(rows: readonly FailedEntry[]): FailedGroup[] {
  const newest = rows.at(-1)
  if (newest === undefined) return []
  const times = rows.map((row) => row.failedAt.getTime())
  const { origin, consumer, reason, errorHash: hash, error, seq, message } = newest
  const [firstAt, lastAt] = [new Date(Math.min(...times)), new Date(Math.max(...times))]
  const { type } = message
  return [{ origin, consumer, type, reason, errorHash: hash, count: rows.length, firstAt, lastAt, error, seq }]
}

/** A row that waits for a decision. */
function undecided(data: Data, seq: string): FailedEntry | undefined {
  const row = data.failed.get(seq)
  return row?.replacedBy === null ? row : undefined
}

/** Tries a message again: from where it stands, or from the end. */
export function failedRetry(data: Data, seq: string, audit: Audit): boolean {
  const row = undecided(data, seq)
  if (row === undefined) return false
  if (!putInPlace(data, row, row.message, seq)) putAtEnd(data, row, row.message, seq, row)
  data.failed.delete(seq)
  data.note(audit, aboutFailed(row))
  return true
}

/** Puts another message in the place of a failed one. */
export function failedEdit(data: Data, seq: string, message: StoredMessage, audit: Audit): boolean {
  const row = undecided(data, seq)
  if (row === undefined) return false
  const { origin, consumer } = row
  if (origin === 'inbox') receiveNew(data, consumer, message)
  if (!putInPlace(data, row, message, null)) putAtEnd(data, row, message, null)
  data.failed.set(seq, { ...row, heldSeq: null, replacedBy: message.id })
  data.note(audit, aboutFailed(row))
  return true
}

function receiveNew(data: Data, consumer: string, message: StoredMessage): void {
  const { id } = message
  if (data.receipts.get(receiptKey(consumer, message)) !== undefined) {
    const sentence = `expected a new id, but ${consumer} has taken a message with the id ${id}`
    throw new HapaxError('conflict', sentence, { fields: { consumer, id } })
  }
  receive(data, consumer, crypto.randomUUID(), message)
}

/** Gives the held row of a failed one this message and lets it run. False: it is not held. */
function putInPlace(
  data: Data,
  { origin, heldSeq }: FailedEntry,
  message: StoredMessage,
  failedSeq: string | null,
): boolean {
  if (heldSeq === null) return false
  const now = data.clock.now()
  const times = { heldAt: null, availableAt: now, setAt: now }
  // Another message begins anew.
  const past = failedSeq === null ? NEVER_FAILED : {}
  const fresh = { message: kept(message), attempts: 0, error: null, failedSeq, ...past, ...times }
  if (origin === 'outbox') {
    const held = data.outbox.get(heldSeq)
    if (held !== undefined) data.outbox.set(heldSeq, { ...held, ...fresh, lane: laneOf(message, true) })
    return held !== undefined
  }
  const held = data.inbox.get(heldSeq)
  if (held === undefined) return false
  const ordered = held.ordered && message.key !== null
  const counts = { lost: 0, starts: 0, crashes: 0, ordered, lane: laneOf(message, ordered) }
  data.inbox.set(heldSeq, { ...held, ...fresh, ...counts })
  return true
}

function putAtEnd(
  data: Data,
  { origin, consumer, ordered }: FailedEntry,
  message: StoredMessage,
  failedSeq: string | null,
  past: Remembered = NEVER_FAILED,
): void {
  if (origin === 'outbox') addOutbox(data, { relay: consumer, message, delayMs: 0 }, failedSeq, past)
  else {
    const fresh = { attempts: 0, starts: 0, delayMs: 0, error: null }
    // Its fence is 1: the next lease is not the first one, and there may be a journal.
    addInbox(data, { consumer, message, ordered, ...fresh }, 1, failedSeq, past)
  }
}

/** Deletes a failed message, and the row that holds its key. */
export function failedDiscard(data: Data, seq: string, audit: Audit): boolean {
  const row = data.failed.get(seq)
  if (row === undefined) return false
  if (row.heldSeq !== null) data.queue(row.origin).delete(row.heldSeq)
  data.failed.delete(seq)
  data.note(audit, aboutFailed(row))
  return true
}

function aboutFailed({ origin, consumer, message }: FailedEntry): Parameters<Data['note']>[1] {
  return { origin, consumer, ...subjectOf(message) }
}
