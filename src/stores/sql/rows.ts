import type { EffectState } from '../../base/index.ts'
import type {
  EffectRef,
  EffectRow,
  InboxRow,
  OutboxMessage,
  Peer,
  Receipt,
  Row,
  WorkerRow,
} from '../../contracts/index.ts'
import {
  asBoolean,
  asDate,
  asErrorRecord,
  asHex,
  asLeaving,
  asMessage,
  asNumber,
  asSeq,
  asText,
  asTextOrNull,
  asUuid,
  unrecognised,
} from './values.ts'

/** A receipt that was there before. */
export function asReceipt(row: Row): Receipt {
  return {
    token: asUuid(row['token']),
    source: asText(row['source']),
    id: asText(row['id']),
    type: asText(row['type']),
    fingerprint: asHex(row['fingerprint']),
    takenAt: asDate(row['taken_at']),
  }
}

/** A row of the inbox: column by column, or with `identity` and `state`, see `InboxStatements.claim`. */
export function asInboxRow(row: Row): InboxRow {
  const { identity, state } = row
  if (identity !== undefined && state !== undefined) return asWideRow(row, asText(identity), asTextOrNull(state))
  return {
    seq: asSeq(row['seq']),
    consumer: asText(row['consumer']),
    message: asMessage(row),
    ordered: asBoolean(row['ordered']),
    attempts: asNumber(row['attempts']),
    lost: asNumber(row['lost']),
    starts: asNumber(row['starts']),
    crashes: asNumber(row['crashes']),
    leaseToken: row['lease_token'] === null ? null : asUuid(row['lease_token']),
    fence: asNumber(row['fence']),
    ...ageOf(row),
  }
}

/** How old a row of the inbox is, if that was asked for. Times of the database may go back. */
function ageOf({ age_ms: age }: Row): Pick<InboxRow, 'ageMs'> | undefined {
  if (age === undefined) return undefined
  return { ageMs: age === null ? null : Math.max(0, asNumber(age)) }
}

function asWideRow(row: Row, identity: string, state: string | null): InboxRow {
  const seq = asSeq(row['seq'])
  const consumer = asText(row['consumer'])
  const message = { messageKey: identity.slice(0, 36), fingerprint: identity.slice(36), ...asLeaving(row) }
  if (state === null) return { seq, consumer, message, ...FRESH, ...ageOf(row) }
  const [ordered = '', attempts, lost, starts, crashes, fence, , leaseToken = null] = state.split(',')
  return {
    ...{ seq, consumer, message, leaseToken },
    ordered: asBoolean(ordered),
    attempts: asNumber(attempts),
    lost: asNumber(lost),
    starts: asNumber(starts),
    crashes: asNumber(crashes),
    fence: asNumber(fence),
    ...ageOf(row),
  }
}

/** Whether rows stand aside behind an inbox row. */
export function isFollowed({ state, followed }: Row): boolean {
  if (state === undefined) return asBoolean(followed)
  return state !== null && asBoolean(asText(state).split(',')[6])
}

/** A row that nothing has happened to, and that has no order to keep. */
const FRESH = { ordered: false, attempts: 0, lost: 0, starts: 0, crashes: 0, leaseToken: null, fence: 0 }

/** A row of the journal. */
export function asEffect(effect: Omit<EffectRef, 'name'>, row: Row): EffectRow {
  return {
    ...effect,
    name: asText(row['name']),
    state: asEffectState(row['state']),
    token: asUuid(row['token']),
    attempts: asNumber(row['attempts']),
    result: asTextOrNull(row['result']),
    error: asErrorRecord(row['error']),
    firstAt: asDate(row['first_at']),
    lastAt: asDate(row['last_at']),
  }
}

/** A record, so that the compiler notices a state that is missing here. */
const EFFECT_STATES: Readonly<Record<EffectState, true>> = {
  started: true,
  done: true,
  'not-done': true,
  unknown: true,
}

function asEffectState(value: unknown): EffectState {
  const word = asText(value)
  if (isEffectState(word)) return word
  throw unrecognised('the state of an effect', value)
}

function isEffectState(word: string): word is EffectState {
  return Object.hasOwn(EFFECT_STATES, word)
}

/** A row of the outbox. */
export function asOutboxMessage(row: Row): OutboxMessage {
  return {
    seq: asSeq(row['seq']),
    message: asLeaving(row),
    attempts: asNumber(row['attempts']),
    ...(row['age_ms'] !== undefined && { ageMs: Math.max(0, asNumber(row['age_ms'])) }),
  }
}

/** A row of `workers`, with the rows that the worker has recorded as in hand. */
export function asPeer(row: Row): Peer {
  return { ...asWorker(row), seqs: JSON.parse(asText(row['in_hand'])), doubtful: false }
}

/** A row of `workers`. */
export function asWorker(row: Row): WorkerRow {
  const inHand: readonly unknown[] = JSON.parse(asText(row['in_hand']))
  return {
    id: asText(row['id']),
    name: asText(row['name']),
    serves: asText(row['serves']),
    startedAt: asDate(row['started_at']),
    silentMs: Math.max(0, asNumber(row['silent_ms'])),
    alive: asBoolean(row['alive']),
    inHand: inHand.length,
    listedAt: asDate(row['listed_at']),
  }
}
