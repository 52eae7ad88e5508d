// Operations, pauses and samples as columns hold them. Conditions are JSON in ASCII: whatever the encoding of the database lacks, they
// can be kept.

import type {
  BulkOperation,
  FailedWhere,
  MinuteSample,
  OperationState,
  OperationWork,
  Origin,
  Pause,
  Row,
  SentWhere,
} from '../../contracts/index.ts'
import { asciiJson } from '../../message/index.ts'
import type { WrittenOperation } from './dialect/operations.ts'
import { asBoolean, asDate, asErrorRecord, asNumber, asSeq, asText, asTextOrNull, unrecognised } from './values.ts'

/** The column `conditions`; times are milliseconds. */
export function conditionsJson({ work, lastFailure }: Pick<WrittenOperation, 'work' | 'lastFailure'>): string {
  const { since, until, ...others } = work.where
  const times = { since: since?.getTime(), until: until?.getTime() }
  const effectsChecked = work.kind === 'retry' ? work.effectsChecked : undefined
  return asciiJson(JSON.stringify({ ...others, effectsChecked, ...times, lastFailure: lastFailure ?? undefined }))
}

/** A row of `operations`. */
export function asOperation(row: Row): BulkOperation {
  return {
    ...asWork(row),
    id: asText(row['id']),
    perSecond: row['per_second'] === null ? null : asNumber(row['per_second']),
    upTo: row['up_to'] === null ? null : asSeq(row['up_to']),
    total: asNumber(row['total']),
    state: asState(row['state']),
    after: row['after_row'] === null ? null : asSeq(row['after_row']),
    done: asNumber(row['done']),
    gone: asNumber(row['gone']),
    errors: asNumber(row['errors']),
    error: asErrorRecord(row['error']),
    actor: asText(row['actor']),
    note: asTextOrNull(row['note']),
    createdAt: asDate(row['created_at']),
    changedAt: asDate(row['changed_at']),
    endedAt: row['ended_at'] === null ? null : asDate(row['ended_at']),
    worked: asBoolean(row['worked']),
  }
}

const STATES: readonly OperationState[] = ['running', 'paused', 'done', 'cancelled']

function asState(value: unknown): OperationState {
  const state = STATES.find((each) => each === asText(value))
  if (state === undefined) throw unrecognised('the state of an operation', value)
  return state
}

function asWork({ kind: of, conditions }: Row): OperationWork & Pick<BulkOperation, 'lastFailure'> {
  const kind = asText(of)
  const { since, until, effectsChecked, lastFailure = null, ...others } = JSON.parse(asText(conditions))
  const times = {
    ...(since === undefined ? {} : { since: new Date(since) }),
    ...(until === undefined ? {} : { until: new Date(until) }),
  }
  const where: FailedWhere & SentWhere = { ...others, ...times }
  if (kind === 'retry') return { kind, where, lastFailure, ...(effectsChecked === true && { effectsChecked }) }
  if (kind === 'discard' || kind === 'republish') return { kind, where, lastFailure }
  throw unrecognised('what an operation does', of)
}

/** A row of `pauses`. */
export function asPause({ origin, scope, actor, note, at }: Row): Pause {
  return {
    origin: asOrigin(origin),
    scope: asText(scope),
    actor: asText(actor),
    note: asTextOrNull(note),
    at: asDate(at),
  }
}

/** A minute of `samples`. */
export function asMinute(row: Row): MinuteSample {
  return {
    at: asDate(row['at']),
    origin: asOrigin(row['origin']),
    scope: asText(row['scope']),
    done: asNumber(row['done']),
    duplicates: asNumber(row['duplicates']),
    retried: asNumber(row['retried']),
    failed: asNumber(row['failed']),
    lagMs: asNumber(row['lag_ms']),
    aged: asNumber(row['aged']),
    waiting: row['waiting'] === null ? null : asNumber(row['waiting']),
    oldestMs: row['oldest_ms'] === null ? null : asNumber(row['oldest_ms']),
  }
}

function asOrigin(value: unknown): Origin {
  return asText(value) === 'outbox' ? 'outbox' : 'inbox'
}
