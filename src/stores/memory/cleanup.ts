// Retention. A step deletes a page at most, as on a database, so that the cleaner of a worker is exercised the same way.

import type { Cleaned, CleanupStep } from '../../contracts/index.ts'
import { compareSeq } from '../../message/index.ts'
import type { Data, Table } from './data.ts'
import { effectsOf, forgetEffect } from './leases.ts'
import { bySeq, receiptKey } from './rows.ts'

/** One step of the cleaning. */
export function clean(data: Data, step: CleanupStep, olderThanMs: number, limit: number): Cleaned {
  const old = (at: Date): boolean => data.clock.now() - at.getTime() > olderThanMs
  if (step.kind === 'receipts') return cleanReceipts(data, step, old, limit)
  if (step.kind === 'sent') {
    return cleanOldest(data.sent, (row) => row.relay === step.relay && old(row.sentAt), limit, false)
  }
  const { after, dryRun = false } = step
  const isBehind = ({ seq }: { seq: string }): boolean => after === undefined || compareSeq(seq, after) > 0
  if (!dryRun) cleanOperations(data, old, limit)
  return cleanOldest(data.audit, (row) => isBehind(row) && old(row.at), limit, dryRun)
}

/** Operations go with the audit: an entry of it names each. They are few, and not counted. */
function cleanOperations(data: Data, old: (at: Date) => boolean, limit: number): void {
  const ended = data.operations.all().filter(({ endedAt }) => endedAt !== null && old(endedAt))
  for (const { id } of ended.slice(0, limit)) data.operations.delete(id)
}

function cleanReceipts(
  data: Data,
  { consumer, after, dryRun }: CleanupStep & { readonly kind: 'receipts' },
  old: (at: Date) => boolean,
  limit: number,
): Cleaned {
  const looked = data.receipts
    .all()
    .filter((row) => row.consumer === consumer && (after === undefined || row.messageKey > after))
    .sort((a, b) => (a.messageKey < b.messageKey ? -1 : 1))
    .slice(0, limit)
  const deleted = looked.filter(
    (row) => old(row.takenAt) && isFinished(data, row) && !data.responses.get(receiptKey(consumer, row)),
  )
  for (const row of dryRun ? [] : deleted) {
    data.receipts.delete(receiptKey(consumer, row))
    for (const { name } of effectsOf(data, consumer, row.messageKey)) forgetEffect(data, { ...row, name })
  }
  const gone = new Set(deleted)
  const left = looked.filter((row) => !gone.has(row)).map((row) => data.clock.now() - row.takenAt.getTime())
  return {
    deleted: deleted.length,
    after: looked.length === limit ? looked.at(-1)?.messageKey : undefined,
    oldestMs: left.length === 0 ? undefined : Math.max(...left),
  }
}

/** A receipt stays while its message waits or is in the failed store. */
export function isFinished(data: Data, { consumer, messageKey }: { consumer: string; messageKey: string }): boolean {
  const its = (row: { consumer: string; message: { messageKey: string } }): boolean =>
    row.consumer === consumer && row.message.messageKey === messageKey
  return !data.inbox.all().some(its) && !data.failed.all().some((row) => row.origin === 'inbox' && its(row))
}

function cleanOldest<Row extends { seq: string }>(
  table: Table<Row>,
  old: (row: Row) => boolean,
  limit: number,
  dryRun: boolean,
): Cleaned {
  const deleted = table.all().filter(old).sort(bySeq).slice(0, limit)
  for (const { seq } of dryRun ? [] : deleted) table.delete(seq)
  return { deleted: deleted.length, after: deleted.length === limit ? deleted.at(-1)?.seq : undefined }
}
