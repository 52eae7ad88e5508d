// Keys that wait behind a message that failed for good, and how a person lets them go on.

import type { Audit, HeldKey, Origin } from '../../contracts/index.ts'
import { addFailed } from './add.ts'
import type { Data } from './data.ts'
import { bySeq, type FailedEntry, type LeavingRow, subjectOf, type WaitingRow } from './rows.ts'

/** One row of inbox or outbox that has a key to keep the order of. */
interface Keyed {
  readonly origin: Origin
  readonly scope: string
  readonly key: string
  readonly row: WaitingRow | LeavingRow
}

function keyedRows(data: Data): readonly Keyed[] {
  const inbox = data.inbox.all().filter((row) => row.ordered)
  return [
    ...inbox.map((row) => ({ origin: 'inbox' as const, scope: row.consumer, key: row.message.key ?? '', row })),
    ...data.outbox.all().flatMap((row) => {
      const { key } = row.message
      return key === null ? [] : [{ origin: 'outbox' as const, scope: row.relay, key, row }]
    }),
  ]
}

/** Keys that wait behind a message that failed for good. */
export function heldKeys(data: Data, limit: number): readonly HeldKey[] {
  const byKey = Map.groupBy(keyedRows(data), ({ origin, scope, key }) => JSON.stringify([origin, scope, key]))
  return [...byKey.values()]
    .flatMap((rows) => asHeldKey(data, rows))
    .sort((a, b) => a.shown.heldAt.getTime() - b.shown.heldAt.getTime() || bySeq(a.row, b.row))
    .slice(0, limit)
    .map(({ shown }) => shown)
}

function asHeldKey(data: Data, rows: readonly Keyed[]): { readonly shown: HeldKey; readonly row: Keyed['row'] }[] {
  const held = rows.find(({ row }) => row.heldAt !== null)
  const heldAt = held?.row.heldAt ?? null
  if (held === undefined || heldAt === null) return []
  const { origin, scope, key, row } = held
  const { message } = row
  const failedSeq = failedOf(data, origin, row.seq)?.seq ?? null
  const waiting = rows.filter((other) => bySeq(other.row, row) > 0).length
  return [{ shown: { origin, scope, key, id: message.id, failedSeq, heldAt, waiting }, row }]
}

function failedOf(data: Data, origin: Origin, heldSeq: string): FailedEntry | undefined {
  return data.failed.all().find((row) => row.origin === origin && row.heldSeq === heldSeq)
}

/** Lets a key go on without its held message, which stays in the failed store. */
export function releaseKey(data: Data, origin: Origin, scope: string, key: string, audit: Audit): boolean {
  const held = keyedRows(data).find(
    (each) => each.origin === origin && each.scope === scope && each.key === key && each.row.heldAt !== null,
  )
  if (held === undefined) return false
  const { row } = held
  const failed = failedOf(data, origin, row.seq)
  if (failed !== undefined) data.failed.set(failed.seq, { ...failed, heldSeq: null })
  else buryHeld(data, held)
  data.queue(origin).delete(row.seq)
  data.note(audit, { origin, consumer: scope, ...subjectOf(row.message) })
  return true
}

/** A held row whose failed row is gone must not vanish with its key. */
function buryHeld(data: Data, { origin, scope, row }: Keyed): void {
  const { message, attempts, failures, history } = row
  const error = row.error ?? { name: 'Error', message: '' }
  addFailed(data, {
    origin,
    consumer: scope,
    message,
    ordered: true,
    attempts,
    reason: 'released',
    error,
    heldSeq: null,
    failures,
    history,
  })
}
