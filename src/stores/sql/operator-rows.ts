import type { ErrorRecord } from '../../base/index.ts'
import type {
  AuditEntry,
  FailedGroup,
  FailedMessage,
  HeldKey,
  Origin,
  Row,
  SentMessage,
  Trace,
  WaitingMessage,
} from '../../contracts/index.ts'
import { storedTrace } from '../../message/index.ts'
import { asBoolean, asDate, asErrorRecord, asMessage, asNumber, asPast, asSeq, asText, unrecognised } from './values.ts'

/** A row of the failed store. */
export function asFailed(row: Row): FailedMessage {
  return {
    seq: asSeq(row['seq']),
    origin: asOrigin(row['origin']),
    consumer: asText(row['consumer']),
    message: asMessage(row),
    attempts: Number(row['attempts']),
    reason: asText(row['reason']),
    error: asKnownError(row['error']),
    errorHash: asText(row['error_hash']),
    failedAt: asDate(row['failed_at']),
    held: !isNull(row['held_seq']),
    replacedBy: orNull(asText, row['replaced_by']),
    ...asPast(row),
  }
}

/** Failed rows that look alike. */
export function asGroup(row: Row): FailedGroup {
  return {
    origin: asOrigin(row['origin']),
    consumer: asText(row['consumer']),
    type: asText(row['type']),
    reason: asText(row['reason']),
    errorHash: asText(row['error_hash']),
    count: Number(row['count']),
    firstAt: asDate(row['first_at']),
    lastAt: asDate(row['last_at']),
    error: asKnownError(row['error']),
    seq: asSeq(row['seq']),
  }
}

/** A row of the dialect's `failed.lock`. */
export interface LockedFailed {
  readonly origin: Origin
  readonly consumer: string
  /** The row that holds its key. */
  readonly held: string | null
}

export function asLocked(row: Row): LockedFailed {
  return {
    origin: asOrigin(row['origin']),
    consumer: asText(row['consumer']),
    held: orNull(asSeq, row['held_seq']),
  }
}

/** A key that waits. */
export function asHeldKey(row: Row): HeldKey {
  return {
    origin: asOrigin(row['origin']),
    scope: asText(row['scope']),
    key: asText(row['key']),
    id: asText(row['id']),
    failedSeq: orNull(asSeq, row['failed_seq']),
    heldAt: asDate(row['held_at']),
    waiting: Number(row['waiting']),
  }
}

/** A row of `sent`. */
export function asSent(row: Row): SentMessage {
  return {
    seq: asSeq(row['seq']),
    relay: asText(row['relay']),
    message: asMessage(row),
    sentAt: asDate(row['sent_at']),
  }
}

const WAITING_STATES = ['waiting', 'retrying', 'held', 'leased'] as const

/** A row of the dialect's `waiting` statements. */
export function asWaiting(origin: Origin, row: Row): WaitingMessage {
  const state = asText(row['state'])
  return {
    seq: asSeq(row['seq']),
    origin,
    scope: asText(row['scope']),
    source: asText(row['source']),
    id: asText(row['id']),
    type: asText(row['type']),
    key: orNull(asText, row['key']),
    state: WAITING_STATES.find((each) => each === state) ?? 'waiting',
    ordered: asBoolean(row['ordered']),
    attempts: asNumber(row['attempts']),
    bytes: asNumber(row['bytes']),
    createdAt: asDate(row['created_at']),
    dueAt: asDate(row['due_at']),
    heldAt: orNull(asDate, row['held_at']),
    error: asErrorRecord(row['error']),
    ...asPast(row),
  }
}

/** A row of `audit`. Another version may have written an action that this one does not know. */
export function asAuditEntry(row: Row): AuditEntry {
  return {
    seq: asSeq(row['seq']),
    at: asDate(row['at']),
    action: asText(row['action']) as AuditEntry['action'],
    actor: asText(row['actor']),
    note: orNull(asText, row['note']),
    origin: orNull(asOrigin, row['origin']),
    scope: orNull(asText, row['scope']),
    source: orNull(asText, row['source']),
    id: orNull(asText, row['id']),
    type: orNull(asText, row['type']),
  }
}

/** A row of `subscriptions`. */
export function asSubscription(row: Row): { consumer: string; type: string; ordered: boolean } {
  return { consumer: asText(row['consumer']), type: asText(row['type']), ordered: asBoolean(row['ordered']) }
}

/** A row of the dialect's `trace` statements. */
export function asTrace(row: Row): Trace {
  const common = { source: orEmpty(row['source']), type: orEmpty(row['type']), at: asDate(row['at']) }
  const scope = orEmpty(row['scope'])
  const attempts = Number(row['attempts'])
  const waits = { attempts, key: orNull(asText, row['key']), heldAt: orNull(asDate, row['held_at']) }
  // A SQL store has an inbox instead of claims. Effects belong to a receipt.
  const place = asText(row['place'])
  switch (place) {
    case 'receipt':
      return { where: place, consumer: scope, ...common }
    case 'response':
      return {
        where: place,
        consumer: scope,
        ...common,
        status: asNumber(row['status']),
        expiresAt: asDate(row['expires_at']),
      }
    case 'inbox':
      return {
        where: place,
        seq: asSeq(row['seq']),
        consumer: scope,
        ...common,
        ...traced(row),
        ...waits,
        leased: asBoolean(row['leased']),
        dueAt: asDate(row['due_at']),
        error: asErrorRecord(row['error']),
        ...asPast(row),
      }
    case 'outbox':
      return {
        where: place,
        seq: asSeq(row['seq']),
        relay: scope,
        ...common,
        ...traced(row),
        ...waits,
        error: asErrorRecord(row['error']),
        ...asPast(row),
      }
    case 'sent':
      return { where: place, relay: scope, ...common, ...traced(row) }
    case 'audit':
      return {
        where: place,
        consumer: scope,
        ...common,
        action: asText(row['action']),
        actor: asText(row['actor']),
        note: orNull(asText, row['note']),
      }
    case 'failed':
      return {
        where: place,
        origin: asOrigin(row['origin']),
        consumer: scope,
        ...common,
        ...traced(row),
        seq: asSeq(row['seq']),
        attempts,
        reason: asText(row['reason']),
        held: !isNull(row['held_seq']),
        replacedBy: orNull(asText, row['replaced_by']),
        error: asKnownError(row['error']),
        ...asPast(row),
      }
    default:
      throw unrecognised('a place of a message', place)
  }
}

function traced(row: Row): { readonly traceparent: string | null } {
  return { traceparent: storedTrace(asText(row['attributes']))?.traceparent ?? null }
}

function asOrigin(value: unknown): Origin {
  return asText(value) === 'outbox' ? 'outbox' : 'inbox'
}

function asKnownError(value: unknown): ErrorRecord {
  return asErrorRecord(value) ?? { name: 'Error', message: '' }
}

function isNull(value: unknown): value is null | undefined {
  return value === null || value === undefined
}

function orNull<T>(as: (value: unknown) => T, value: unknown): T | null {
  return isNull(value) ? null : as(value)
}

function orEmpty(value: unknown): string {
  return isNull(value) ? '' : asText(value)
}
