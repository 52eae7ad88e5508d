// What waits, and what people did, as lists. Tables are small here: each look reads them whole.

import type {
  Ahead,
  Audit,
  AuditEntry,
  AuditWhere,
  Numbered,
  Origin,
  WaitingMessage,
  WaitingState,
  WaitingWhere,
} from '../../contracts/index.ts'
import { compareSeq, pastOf, type StoredMessage } from '../../message/index.ts'
import type { Data, Table } from './data.ts'
import { type AuditRow, bySeq, type LeavingRow, subjectOf, type WaitingRow } from './rows.ts'

/** Messages of the inbox or outbox, the newest first. */
export function listWaiting(
  data: Data,
  origin: Origin,
  where: WaitingWhere,
  before: string | undefined,
  limit: number,
): Numbered<WaitingMessage> {
  const rows = waitingRows(data, origin).filter((row) => fits(row, where))
  return page(rows, before, limit)
}

/** One of them, with its payload. */
export function oneWaiting(
  data: Data,
  origin: Origin,
  seq: string,
): { readonly row: WaitingMessage; readonly message: StoredMessage } | undefined {
  const row = data.queue(origin).get(seq)
  return row && { row: shown(data, origin, row), message: row.message }
}

/** What stands in front of a message of its key. */
export function aheadOf(data: Data, origin: Origin, seq: string): Ahead | undefined {
  const row = data.queue(origin).get(seq)
  if (row === undefined) return undefined
  const { scope, key, ordered } = shown(data, origin, row)
  if (!ordered) return undefined
  const older = waitingRows(data, origin)
    .filter((other) => other.ordered && other.scope === scope && other.key === key && compareSeq(other.seq, seq) < 0)
    .sort(bySeq)
  const [first] = older
  return first && { count: Math.min(older.length, COUNTED), first }
}

const COUNTED = 1_000

/** Those that have failed and are due next. */
export function listRetries(data: Data, origin: Origin, limit: number): readonly WaitingMessage[] {
  const rows = waitingRows(data, origin).filter(({ state }) => state === 'retrying')
  return rows.sort((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || bySeq(a, b)).slice(0, limit)
}

/** Makes a row due at once that was tried before and waits for its next attempt. */
export function hastenRow(data: Data, origin: Origin, seq: string, audit: Audit): boolean {
  return origin === 'inbox'
    ? hasten(data, origin, data.inbox, seq, audit)
    : hasten(data, origin, data.outbox, seq, audit)
}

function hasten<R extends WaitingRow | LeavingRow>(
  data: Data,
  origin: Origin,
  rows: Table<R>,
  seq: string,
  audit: Audit,
): boolean {
  const row = rows.get(seq)
  const now = data.clock.now()
  if (row === undefined || row.availableAt <= now || (row.attempts === 0 && row.error === null)) return false
  const { state, scope } = shown(data, origin, row)
  if (state === 'held' || state === 'leased') return false
  rows.set(seq, { ...row, availableAt: now, setAt: now })
  data.note(audit, { origin, consumer: scope, ...subjectOf(row.message) })
  return true
}

/** Entries of the audit, the newest first. */
export function listAudited(
  data: Data,
  where: AuditWhere,
  before: string | undefined,
  limit: number,
): Numbered<AuditEntry> {
  const { actor, action, scope, origin } = where
  const rows = data.audit
    .all()
    .filter(
      (row) =>
        (actor ?? row.actor) === row.actor &&
        (action ?? row.action) === row.action &&
        (scope ?? row.consumer) === row.consumer &&
        (origin ?? row.origin) === (row.origin ?? origin) &&
        isWithin(row.at, where),
    )
  return page(rows.map(entry), before, limit)
}

function waitingRows(data: Data, origin: Origin): WaitingMessage[] {
  const rows: readonly (WaitingRow | LeavingRow)[] = data.queue(origin).all()
  return rows.map((row) => shown(data, origin, row))
}

function shown(data: Data, origin: Origin, row: WaitingRow | LeavingRow): WaitingMessage {
  const { seq, message, attempts, createdAt, availableAt, heldAt, error } = row
  const { source, id, type, key } = message
  return {
    ...{ seq, origin, scope: 'relay' in row ? row.relay : row.consumer, source, id, type, key },
    state: stateOf(data, row),
    ordered: 'relay' in row ? key !== null : row.ordered,
    ...{ attempts, bytes: message.data.byteLength, createdAt, dueAt: new Date(availableAt), heldAt, error },
    ...pastOf(row),
  }
}

function stateOf(data: Data, row: WaitingRow | LeavingRow): WaitingState {
  if (row.heldAt !== null) return 'held'
  if ('leaseToken' in row && row.leaseToken !== null && row.availableAt > data.clock.now()) return 'leased'
  return row.attempts > 0 ? 'retrying' : 'waiting'
}

function fits(row: WaitingMessage, where: WaitingWhere): boolean {
  const names = ['scope', 'type', 'key', 'id', 'state'] as const
  return names.every((name) => where[name] === undefined || where[name] === row[name]) && isWithin(row.createdAt, where)
}

function isWithin(time: Date, { since, until }: Pick<WaitingWhere, 'since' | 'until'>): boolean {
  return (since === undefined || time >= since) && (until === undefined || time < until)
}

function page<T extends { readonly seq: string }>(rows: T[], before: string | undefined, limit: number): Numbered<T> {
  const older = rows
    .filter((row) => before === undefined || compareSeq(row.seq, before) < 0)
    .sort((a, b) => bySeq(b, a))
  const found = older.slice(0, limit)
  return { rows: found, before: older.length > limit ? found.at(-1)?.seq : undefined }
}

function entry({ seq, at, action, actor, ...row }: AuditRow): AuditEntry {
  const { note = null, origin = null, consumer: scope = null, source = null, id = null, type = null } = row
  return { seq, at, action, actor, note, origin, scope, source, id, type }
}
