// What people look at: counts, findings and traces. Tables are small here, so each question reads them whole.

import type { Finding, Growth, StoreStatus, Trace, WorkerRow } from '../../contracts/index.ts'
import { inTimeOrder, pastOf, type StoredMessage, storedTrace } from '../../message/index.ts'
import type { Data } from './data.ts'
import { listPauses } from './pauses.ts'
import {
  type AuditRow,
  bySeq,
  type EffectEntry,
  type FailedEntry,
  type KeptResponse,
  type LeavingRow,
  type ReceiptRow,
  receiptKey,
  type WaitingRow,
} from './rows.ts'

/** How much there is. Everything is counted. */
export function status(data: Data, workers: readonly WorkerRow[], exact: boolean): StoreStatus {
  const failed = failedCounts(data)
  return {
    at: new Date(data.clock.now()),
    consumers: consumerNames(data).map((consumer) => consumerStatus(data, consumer, failed, exact)),
    relays: relayNames(data).map((relay) => relayStatus(data, relay, failed)),
    failed,
    tables: growth(data),
    workers,
    paused: listPauses(data),
  }
}

type FailedCounts = StoreStatus['failed']

function failedCounts(data: Data): FailedCounts {
  const open = data.failed.all().filter((row) => row.replacedBy === null)
  const groups = Map.groupBy(open, ({ origin, consumer, reason }) => JSON.stringify([origin, consumer, reason]))
  return [...groups.values()].flatMap((rows) => {
    const [first] = rows
    if (first === undefined) return []
    const { origin, consumer: scope, reason } = first
    return [{ origin, scope, reason, count: rows.length, estimated: false }]
  })
}

function countOf(failed: FailedCounts, wanted: (each: FailedCounts[number]) => boolean): number {
  return failed.filter(wanted).reduce((sum, { count }) => sum + count, 0)
}

function consumerNames(data: Data): readonly string[] {
  const failed = data.failed.all().filter((row) => row.origin === 'inbox' && row.replacedBy === null)
  const rows = [...data.receipts.all(), ...data.inbox.all(), ...failed]
  return [...new Set(rows.map((row) => row.consumer))].sort()
}

function consumerStatus(
  data: Data,
  consumer: string,
  failed: FailedCounts,
  exact: boolean,
): StoreStatus['consumers'][number] {
  const rows = data.inbox.all().filter((row) => row.consumer === consumer)
  const held = rows.filter((row) => row.heldAt !== null).length
  const retrying = rows.filter((row) => row.heldAt === null && row.attempts > 0).length
  const own = failed.filter((each) => each.origin === 'inbox' && each.scope === consumer)
  return {
    ...{ consumer, waiting: rows.length - held - retrying, retrying, held },
    failed: countOf(own, () => true),
    unknownEffects: countOf(own, ({ reason }) => reason === 'unknown-effect'),
    oldestAt: oldest(data, rows),
    ...(exact ? { receipts: data.receipts.all().filter((row) => row.consumer === consumer).length } : {}),
    estimated: false,
  }
}

function relayNames(data: Data): readonly string[] {
  const failed = data.failed.all().filter((row) => row.origin === 'outbox' && row.replacedBy === null)
  const names = [
    ...data.relays.all().map((row) => row.name),
    ...data.outbox.all().map((row) => row.relay),
    ...failed.map((row) => row.consumer),
  ]
  return [...new Set(names)].sort()
}

function relayStatus(data: Data, relay: string, failed: FailedCounts): StoreStatus['relays'][number] {
  const rows = data.outbox.all().filter((row) => row.relay === relay)
  const held = rows.filter((row) => row.heldAt !== null).length
  const retrying = rows.filter((row) => row.heldAt === null && row.attempts > 0).length
  return {
    ...{ relay, waiting: rows.length - held, retrying, held },
    failed: countOf(failed, ({ origin, scope }) => origin === 'outbox' && scope === relay),
    oldestAt: oldest(data, rows),
    destination: data.relays.get(relay)?.destination ?? null,
    estimated: false,
  }
}

/** Since when the oldest row waits: from its first failure on, since it was written; before, since it was due. */
function oldest(data: Data, rows: readonly (LeavingRow | WaitingRow)[]): Date | null {
  const now = data.clock.now()
  const since = rows
    .filter((row) => row.heldAt === null && (row.attempts > 0 || row.availableAt <= now))
    .map((row) => (row.attempts > 0 ? row.createdAt.getTime() : row.availableAt))
  return since.length === 0 ? null : new Date(since.reduce((least, each) => Math.min(least, each)))
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
function growth(data: Data): readonly Growth[] {
  const of = <Row>(table: Growth['table'], rows: readonly Row[], at?: (row: Row) => Date): Growth => {
    const first = rows[0] === undefined ? undefined : at?.(rows[0])
    return { table, rows: rows.length, oldestMs: first && Math.max(0, data.clock.now() - first.getTime()) }
  }
  return [
    of('inbox', data.inbox.all(), (row) => row.createdAt),
    of('outbox', data.outbox.all(), (row) => row.createdAt),
    of('failed', data.failed.all(), (row) => row.failedAt),
    of('sent', data.sent.all(), (row) => row.sentAt),
    of('audit', data.audit.all(), (row) => row.at),
    of('receipts', data.receipts.all()),
    of('effects', data.effects.all()),
    of(
      'responses',
      data.responses.all().sort((a, b) => a.expiresAt - b.expiresAt),
      (row) => new Date(row.expiresAt),
    ),
  ]
}

/** Every place where a message is known. */
export function trace(data: Data, id: string, source: string | undefined): readonly Trace[] {
  const found = [
    ...data.receipts.all().map(receiptTrace),
    ...data.responses.all().map((row) => responseTrace(data, row)),
    ...data.inbox.all().map(inboxTrace),
    ...data.outbox.all().map(outboxTrace),
    ...data.sent
      .all()
      .map(({ relay, message, sentAt }) => foundIn(message, { where: 'sent', relay, at: sentAt, ...traced(message) })),
    ...data.failed.all().map(failedTrace),
    ...data.effects
      .all()
      .sort(bySeq)
      .flatMap((row) => effectTrace(data, row)),
    ...data.audit.all().map(auditTrace),
  ]
  const its = found.filter((each) => each.id === id && (source === undefined || each.trace.source === source))
  return inTimeOrder(its.map((each) => each.trace))
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

function traced({ attributes }: StoredMessage): { readonly traceparent: string | null } {
  return { traceparent: storedTrace(attributes)?.traceparent ?? null }
}

function receiptTrace(row: ReceiptRow): Found {
  return foundIn(row, { where: 'receipt', consumer: row.consumer, at: row.takenAt })
}

function responseTrace(data: Data, row: KeptResponse): Found {
  const { consumer, id, createdAt: at, expiresAt, response } = row
  const { source = '', type = '' } = data.receipts.get(receiptKey(consumer, row)) ?? {}
  const place = { consumer, at, status: response.status, expiresAt: new Date(expiresAt) }
  return foundIn({ id, source, type }, { where: 'response', ...place })
}

function inboxTrace({
  seq,
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
    seq,
    consumer,
    at,
    ...traced(message),
    attempts,
    ...due,
    key: message.key,
    heldAt,
    error,
    ...pastOf({ failures, history }),
  })
}

function effectTrace(data: Data, { seq: _, ...effect }: EffectEntry): Found[] {
  const { consumer, firstAt: at } = effect
  const receipt = data.receipts.get(receiptKey(consumer, effect))
  return receipt === undefined ? [] : [foundIn(receipt, { where: 'effect', consumer, at, effect })]
}

function outboxTrace({ seq, message, relay, createdAt: at, attempts, heldAt, error, ...row }: LeavingRow): Found {
  const place = { seq, relay, at, attempts, key: message.key, heldAt, error, ...pastOf(row) }
  return foundIn(message, { where: 'outbox', ...place, ...traced(message) })
}

function failedTrace({ message, failedAt: at, heldSeq, ...row }: FailedEntry): Found {
  const { origin, consumer, seq, attempts, reason, replacedBy, error } = row
  const held = heldSeq !== null
  const place = { origin, consumer, at, seq, attempts, reason, held, replacedBy, error, ...pastOf(row) }
  return foundIn(message, { where: 'failed', ...place, ...traced(message) })
}

function auditTrace({ at, action, actor, note, consumer = '', id, source = '', type = '' }: AuditRow): Found {
  return { id, trace: { where: 'audit', consumer, source, type, at, action, actor, note: note ?? null } }
}
