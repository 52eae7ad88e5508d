// Rows of the store as the page reads them.

import { createHash } from 'node:crypto'
import type { ErrorRecord } from '../../base/index.ts'
import type {
  AuditEntry,
  BulkOperation,
  EffectRow,
  FailedGroup,
  FailedMessage,
  ListedEffect,
  ListedReceipt,
  PastFailure,
  SentMessage,
  StoredMessage,
  WaitingMessage,
} from '../../contracts/index.ts'
import { effectKey } from '../../index.ts'
import { isDeliveries } from '../../message/index.ts'
import type { AuditView, EffectView, ErrorView, FailedView, GroupView, OperationView, RowView } from '../api.ts'
import { payloadView } from '../payload.ts'
import type { Seen } from '../route.ts'

/** An error. Stacks show code and values of the application: they are for those who see payloads. */
export function errorView({ name, message, code, stack }: ErrorRecord, { payloads }: Seen): ErrorView {
  return { name, message, ...(code !== undefined && { code }), ...(payloads && stack !== undefined && { stack }) }
}

/** An error in a list, where a stack in each row would be most of the answer. */
function brief(error: ErrorRecord | null): ErrorView | null {
  return error && { name: error.name, message: error.message, ...(error.code !== undefined && { code: error.code }) }
}

export function errorOrNull(error: ErrorRecord | null, seen: Seen): ErrorView | null {
  return error === null ? null : errorView(error, seen)
}

/** The id of an HTTP request is the key that its client has chosen: whoever knows it may ask for the response. */
export function idView({ id, type }: { readonly id: string; readonly type: string }, { payloads }: Seen): string {
  if (type !== 'http.request' || payloads) return id
  return `sha256:${createHash('sha256').update(id).digest('hex').slice(0, 16)}`
}

export function waitingRow(row: WaitingMessage, seen: Seen): RowView {
  const { origin, seq, scope, source, type, key, state, attempts, createdAt, dueAt, error } = row
  return {
    place: origin,
    seq,
    scope,
    source,
    id: idView(row, seen),
    type,
    key,
    state,
    attempts,
    at: createdAt.toISOString(),
    dueAt: dueAt.toISOString(),
    error: brief(error),
  }
}

/** A row of a list without its payload, which no list shows: answers are remembered, and a page of them could be very large. */
export function light<R extends { readonly message: StoredMessage }>(row: R): R {
  return { ...row, message: { ...row.message, data: NO_BYTES } }
}
const NO_BYTES = new Uint8Array()

/** Whether a message is small enough to be remembered by the server. */
export function isLight({ data }: StoredMessage): boolean {
  return data.byteLength <= 64 * 1024
}

export function failedRow(row: FailedMessage, seen: Seen): RowView {
  const { seq, consumer, message, attempts, held, replacedBy, failedAt, error } = row
  const { source, type, key } = message
  return {
    place: 'failed',
    seq,
    scope: consumer,
    source,
    id: idView(message, seen),
    type,
    key,
    state: replacedBy !== null ? 'replaced' : held ? 'held' : 'failed',
    attempts,
    at: failedAt.toISOString(),
    dueAt: null,
    error: brief(error),
  }
}

export function failedView(row: FailedMessage, effects: readonly EffectRow[], seen: Seen, whole: boolean): FailedView {
  const { origin, seq, reason, errorHash, held, replacedBy, history, failures, message } = row
  const { source, id, type } = message
  return {
    ...failedRow(row, seen),
    error: errorView(row.error, seen),
    origin,
    reason,
    errorHash,
    held,
    replacedBy,
    failures,
    history: history.map((each) => ({
      at: each.at.toISOString(),
      attempt: each.attempt,
      worker: each.worker,
      error: pastError(each),
    })),
    // The row without a name has the notes of the handler.
    effects: effects
      .filter(({ name }) => name !== '')
      .map((each) => effectView({ ...each, message: { source, id, type } }, seq, seen)),
    payload: payloadView(message, seen, whole),
  }
}

export function pastError({ name, code, message }: PastFailure): ErrorView {
  return { name, message, ...(code !== undefined && { code }) }
}

export function sentRow(row: SentMessage, seen: Seen): RowView {
  const { seq, relay, message, sentAt } = row
  const { source, type, key } = message
  const at = sentAt.toISOString()
  const id = idView(message, seen)
  return { ...NOTHING, place: 'sent', seq, scope: relay, source, id, type, key, state: 'sent', at }
}

export function receiptRow(row: ListedReceipt, seen: Seen): RowView {
  const { consumer, source, type, takenAt } = row
  const at = takenAt.toISOString()
  return { ...NOTHING, place: 'receipts', scope: consumer, source, id: idView(row, seen), type, state: 'taken', at }
}

/** What rows that wait for nothing do not have. */
const NOTHING = { seq: null, key: null, attempts: null, dueAt: null, error: null } as const

/** An external call. `result` is unknown in lists, which do not read it. */
export function effectView(
  row: ListedEffect & Partial<Pick<EffectRow, 'result'>>,
  seq: string | null,
  seen: Seen,
): EffectView {
  const { consumer, messageKey, name, state, attempts, error, firstAt, lastAt, message, result } = row
  return {
    scope: consumer,
    messageKey,
    name,
    // Deliveries of outgoing webhooks carry the id of their event instead.
    key: message === null || isDeliveries(consumer) ? null : effectKey(consumer, message, name),
    state,
    resultLost: state === 'done' && result === null,
    attempts,
    error: errorOrNull(error, seen),
    firstAt: firstAt.toISOString(),
    lastAt: lastAt.toISOString(),
    message: message && { ...message, id: idView(message, seen) },
    seq,
  }
}

export function groupView(group: FailedGroup, seen: Seen): GroupView {
  const { origin, consumer, type, reason, errorHash, count, firstAt, lastAt, error, seq } = group
  const times = { firstAt: firstAt.toISOString(), lastAt: lastAt.toISOString() }
  return { origin, scope: consumer, type, reason, errorHash, count, ...times, error: errorView(error, seen), seq }
}

export function operationView(operation: BulkOperation, seen: Seen): OperationView {
  const { id, kind, perSecond, total, state, done, gone, errors, actor, note, worked } = operation
  return {
    id,
    kind,
    where: whereView(operation.where),
    perSecond,
    total,
    state,
    done,
    gone,
    errors,
    error: errorOrNull(operation.error, seen),
    actor,
    note,
    createdAt: operation.createdAt.toISOString(),
    changedAt: operation.changedAt.toISOString(),
    endedAt: operation.endedAt?.toISOString() ?? null,
    worked,
  }
}

/** Conditions by the names that the page has for them. */
function whereView(where: object): Readonly<Record<string, string>> {
  const shown = Object.entries(where).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return []
    return [
      [
        name === 'consumer' || name === 'relay' ? 'scope' : name,
        value instanceof Date ? value.toISOString() : String(value),
      ],
    ]
  })
  return Object.fromEntries(shown)
}

export function auditRow(entry: AuditEntry, seen: Seen): AuditView['rows'][number] {
  const { seq, at, action, actor, note, origin, scope, source, id, type } = entry
  const shown = id !== null && type !== null ? idView({ id, type }, seen) : id
  return { seq, at: at.toISOString(), action, actor, note, origin, scope, source, id: shown, type }
}
