import type {
  Audit,
  OutboxMessage,
  Postponed,
  Refused,
  SentFilter,
  SentMessage,
  SentWhere,
} from '../../contracts/index.ts'
import { compareSeq, remember } from '../../message/index.ts'
import { addFailed, addOutbox } from './add.ts'
import type { Data } from './data.ts'
import { bySeq, type LeavingRow, subjectOf } from './rows.ts'

/** The rows that are still there. */
export function outboxRows(data: Data, seqs: readonly string[], aged: boolean): readonly OutboxMessage[] {
  return there(data, seqs)
    .map((row) => {
      const { seq, message, attempts } = row
      return aged ? { seq, message, attempts, ageMs: ageOf(data, row) } : { seq, message, attempts }
    })
    .sort(bySeq)
}

/** How long ago a row was due first. Once a broker did not take it, that is not known any more, but when it was written is. */
function ageOf(data: Data, { attempts, availableAt, createdAt }: LeavingRow): number {
  return Math.max(0, data.clock.now() - (attempts === 0 ? availableAt : createdAt.getTime()))
}

/** Deletes what the broker has confirmed; `keep` copies it to `sent`. */
export function confirm(data: Data, seqs: readonly string[], keep: boolean): readonly [] {
  for (const { seq, relay, message } of there(data, seqs)) {
    data.outbox.delete(seq)
    if (!keep) continue
    const sentSeq = data.nextSeq()
    data.sent.set(sentSeq, { seq: sentSeq, relay, message, sentAt: data.now() })
  }
  // None is left: no other transaction can have a row locked.
  return []
}

/** Records that the broker did not take rows. */
export function postpone(data: Data, rows: readonly Postponed[]): void {
  for (const { seq, delayMs, error, entry } of rows) {
    const row = data.outbox.get(seq)
    if (row === undefined) continue
    const now = data.clock.now()
    const attempts = row.attempts + 1
    const past = remember(row, now, attempts, entry)
    data.outbox.set(seq, { ...row, ...past, attempts, error, availableAt: now + delayMs, setAt: now })
  }
}

/** Copies a row into the failed store; it goes, or stays and holds its key. */
export function refuse(data: Data, { seq, reason, error, entry, hold }: Refused): boolean {
  const row = data.outbox.get(seq)
  if (row === undefined) return false
  const { relay: consumer, message } = row
  const attempts = row.attempts + 1
  const past = remember(row, data.clock.now(), attempts, entry)
  const failed = { consumer, message, ordered: message.key !== null, attempts, reason, error, ...past }
  addFailed(data, { ...failed, origin: 'outbox', heldSeq: hold ? seq : null }, row.failedSeq)
  if (hold) data.outbox.set(seq, { ...row, ...past, attempts, error, heldAt: data.now() })
  else data.outbox.delete(seq)
  return true
}

/** Records where a relay goes, unless that is recorded already, or in any case, as a move by hand. */
export function recordRelay(data: Data, name: string, destination: string, move: Audit | undefined): string {
  const known = data.relays.get(name)
  if (known !== undefined && move === undefined) return known.destination
  data.relays.set(name, { name, destination })
  if (move !== undefined) data.note(move, { origin: 'outbox', consumer: name })
  return destination
}

function there(data: Data, seqs: readonly string[]): LeavingRow[] {
  return seqs.flatMap((seq) => data.outbox.get(seq) ?? [])
}

/** Published messages that were kept, oldest first. */
export function sentRows(data: Data, where: SentWhere): SentMessage[] {
  const { relay, type, olderThanMs, newerThanMs, since, until } = where
  const rows = data.sent.all().filter((row) => {
    const ageMs = data.clock.now() - row.sentAt.getTime()
    return (
      (relay === undefined || row.relay === relay) &&
      (type === undefined || row.message.type === type) &&
      (olderThanMs === undefined || ageMs > olderThanMs) &&
      (newerThanMs === undefined || ageMs <= newerThanMs) &&
      (since === undefined || row.sentAt >= since) &&
      (until === undefined || row.sentAt < until)
    )
  })
  return rows.sort(bySeq)
}

/** A page of them, newest first. */
export function sentList(data: Data, { before, limit, ...where }: SentFilter): readonly SentMessage[] {
  const rows = sentRows(data, where).filter((row) => before === undefined || compareSeq(row.seq, before) < 0)
  return rows.reverse().slice(0, limit)
}

/** Copies a published message back into the outbox. */
export function republish(data: Data, seq: string, audit: Audit): boolean {
  const row = data.sent.get(seq)
  if (row === undefined) return false
  const { relay, message } = row
  addOutbox(data, { relay, message, delayMs: 0 })
  data.note(audit, { origin: 'outbox', consumer: relay, ...subjectOf(message) })
  return true
}

/** Deletes published messages. */
export function purge(data: Data, seqs: readonly string[]): number {
  return seqs.filter((seq) => data.sent.delete(seq)).length
}
