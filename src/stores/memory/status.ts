// What people look at: counts, findings and traces. Tables are small here, so each question reads them whole.

import type { EffectRow, WorkerRow } from '../../contracts/index.ts'
import { COUNTED_RECEIPTS, type Finding, type Growth, type StoreStatus, type Trace } from '../../contracts/index.ts'
import { pastOf } from '../../message/index.ts'
import type { Data } from './data.ts'
import {
  type AuditRow,
  type FailedEntry,
  type LeavingRow,
  type ReceiptRow,
  receiptKey,
  type WaitingRow,
} from './rows.ts'

/** How much there is. */
export function status(data: Data, workers: readonly WorkerRow[]): StoreStatus {
  const outbox = data.outbox.all()
  return {
    consumers: consumerNames(data).map((consumer) => ({ consumer, ...consumerCounts(data, consumer) })),
    relays: relayNames(data).map((relay) => ({ relay, ...relayCounts(data, relay) })),
    outbox: outbox.length,
    oldestOutboxAt: oldest(outbox),
    workers,
  }
}

function consumerNames(data: Data): readonly string[] {
  const failed = data.failed.all().filter((row) => row.origin === 'inbox')
  const rows = [...data.receipts.all(), ...data.inbox.all(), ...failed]
  return [...new Set(rows.map((row) => row.consumer))].sort()
}

function consumerCounts(data: Data, consumer: string): Omit<StoreStatus['consumers'][number], 'consumer'> {
  const of = <Row extends { consumer: string }>(rows: readonly Row[]): Row[] =>
    rows.filter((row) => row.consumer === consumer)
  const inbox = of(data.inbox.all())
  const held = inbox.filter((row) => row.heldAt !== null).length
  const retrying = inbox.filter((row) => row.heldAt === null && row.attempts > 0).length
  const failed = of(data.failed.all()).filter(undecidedOf('inbox')).length
  const all = of(data.receipts.all()).length
  const receipts = { receipts: Math.min(all, COUNTED_RECEIPTS), moreReceipts: all > COUNTED_RECEIPTS }
  return { ...receipts, waiting: inbox.length - held - retrying, retrying, held, failed }
}

function relayNames(data: Data): readonly string[] {
  const failed = data.failed.all().filter((row) => row.origin === 'outbox')
  const names = [
    ...data.relays.all().map((row) => row.name),
    ...data.outbox.all().map((row) => row.relay),
    ...failed.map((row) => row.consumer),
  ]
  return [...new Set(names)].sort()
}

function relayCounts(data: Data, relay: string): Omit<StoreStatus['relays'][number], 'relay'> {
  const outbox = data.outbox.all().filter((row) => row.relay === relay)
  const held = outbox.filter((row) => row.heldAt !== null).length
  const failed = data.failed.all().filter((row) => row.consumer === relay && undecidedOf('outbox')(row)).length
  const destination = data.relays.get(relay)?.destination ?? null
  return { waiting: outbox.length - held, held, failed, oldestAt: oldest(outbox), destination }
}

function undecidedOf(origin: FailedEntry['origin']): (row: FailedEntry) => boolean {
  return (row) => row.origin === origin && row.replacedBy === null
}

function oldest(rows: readonly LeavingRow[]): Date | null {
  if (rows.length === 0) return null
  return new Date(rows.reduce((least, row) => Math.min(least, row.createdAt.getTime()), Number.POSITIVE_INFINITY))
}

/** What `doctor` says about this store. */
export const FINDINGS: readonly Finding[] = [
  {
    check: 'memory',
    level: 'warning',
    message: 'nothing survives the process',
    advice: 'use postgres, mysql or sqlite for anything that must not be lost',
  },
]

/** How large the tables are. */
export function growth(data: Data): readonly Growth[] {
  const of = <Row>(table: Growth['table'], rows: readonly Row[], at?: (row: Row) => Date): Growth => {
    const first = rows[0] === undefined ? undefined : at?.(rows[0])
    return { table, rows: rows.length, oldestMs: first && data.clock.now() - first.getTime() }
  }
  return [
    of('inbox', data.inbox.all(), (row) => row.createdAt),
    of('failed', data.failed.all(), (row) => row.failedAt),
    of('sent', data.sent.all(), (row) => row.sentAt),
    of('audit', data.audit.all(), (row) => row.at),
    of('receipts', data.receipts.all()),
    of('effects', data.effects.all()),
  ]
}

/** Every place where a message is known. */
export function trace(data: Data, id: string, source: string | undefined): readonly Trace[] {
  const found = [
    ...data.receipts.all().map(receiptTrace),
    ...data.inbox.all().map(inboxTrace),
    ...data.outbox.all().map(outboxTrace),
    ...data.sent.all().map(({ relay, message, sentAt }) => foundIn(message, { where: 'sent', relay, at: sentAt })),
    ...data.failed.all().map(failedTrace),
    ...data.effects.all().flatMap((row) => effectTrace(data, row)),
    ...data.audit.all().map(auditTrace),
  ]
  return found
    .filter((each) => each.id === id && (source === undefined || each.trace.source === source))
    .map((each) => each.trace)
    .sort((a, b) => a.at.getTime() - b.at.getTime())
}

/** Where a message was found, and its id. */
interface Found {
  readonly id: string | undefined
  readonly trace: Trace
}

/** A trace without what it says about the message itself. */
type Place = Trace extends infer Each ? (Each extends Trace ? Omit<Each, 'source' | 'type'> : never) : never

function foundIn({ id, source, type }: { id: string; source: string; type: string }, place: Place): Found {
  return { id, trace: { ...place, source, type } as Trace }
}

function receiptTrace(row: ReceiptRow): Found {
  return foundIn(row, { where: 'receipt', consumer: row.consumer, at: row.takenAt })
}

function inboxTrace({
  message,
  consumer,
  createdAt: at,
  attempts,
  availableAt,
  heldAt,
  error,
  leaseToken,
  failures,
  history,
}: WaitingRow): Found {
  const due = { leased: leaseToken !== null, dueAt: new Date(availableAt) }
  return foundIn(message, {
    where: 'inbox',
    consumer,
    at,
    attempts,
    ...due,
    key: message.key,
    heldAt,
    error,
    ...pastOf({ failures, history }),
  })
}

function effectTrace(data: Data, effect: EffectRow): Found[] {
  const { consumer, firstAt: at } = effect
  const receipt = data.receipts.get(receiptKey(consumer, effect))
  return receipt === undefined ? [] : [foundIn(receipt, { where: 'effect', consumer, at, effect })]
}

function outboxTrace({ message, relay, createdAt: at, attempts, heldAt, error, ...row }: LeavingRow): Found {
  const place = { relay, at, attempts, key: message.key, heldAt, error, ...pastOf(row) }
  return foundIn(message, { where: 'outbox', ...place })
}

function failedTrace({ message, failedAt: at, heldSeq, ...row }: FailedEntry): Found {
  const { origin, consumer, seq, attempts, reason, replacedBy, error } = row
  const held = heldSeq !== null
  const place = { origin, consumer, at, seq, attempts, reason, held, replacedBy, error, ...pastOf(row) }
  return foundIn(message, { where: 'failed', ...place })
}

function auditTrace({ at, action, actor, note, consumer = '', id, source = '', type = '' }: AuditRow): Found {
  return { id, trace: { where: 'audit', consumer, source, type, at, action, actor, note: note ?? null } }
}
