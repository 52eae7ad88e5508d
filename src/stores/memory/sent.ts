import type { Audit, SentFilter, SentMessage, SentWhere } from '../../contracts/index.ts'
import { compareSeq } from '../../message/index.ts'
import { addOutbox } from './add.ts'
import type { Data } from './data.ts'
import { bySeq, subjectOf } from './rows.ts'

/** Published messages that were kept, oldest first. */
export function sentRows(data: Data, { relay, type, olderThanMs, newerThanMs }: SentWhere): SentMessage[] {
  const rows = data.sent.all().filter((row) => {
    const ageMs = data.clock.now() - row.sentAt.getTime()
    return (
      (relay === undefined || row.relay === relay) &&
      (type === undefined || row.message.type === type) &&
      (olderThanMs === undefined || ageMs > olderThanMs) &&
      (newerThanMs === undefined || ageMs <= newerThanMs)
    )
  })
  return rows.sort(bySeq)
}

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
