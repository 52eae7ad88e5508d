// Receipts, the inbox and leases on SQLite. A transaction holds the only write lock from its beginning, so no statement locks rows, and
// one that deletes returns what it deleted.

import type { Lease, Param, Result, RetryRow, Statement } from '../../../contracts/index.ts'
import { encodeText, numberOf, type StoredMessage } from '../../../message/index.ts'
import {
  type InboxStatements,
  type LeaseStatements,
  type ReceiptStatements,
  type Sql,
  statement,
} from '../../sql/index.ts'
import {
  DUE_IN,
  HISTORY,
  INBOX,
  LATER,
  LINE,
  MESSAGE,
  MESSAGE_VALUES,
  NAME,
  ROW,
  ROWS,
  SEQ,
  SEQS,
  UUID,
} from './fragments.ts'
import { NOW } from './migrations.ts'
import { columns, named, one, place } from './rows.ts'

const UUIDS = `(select unhex(value, '-') from json_each(?))`

/** How long ago a row of the inbox was due first, if it is of local delivery. */
const INBOX_AGE = `${NOW} - first_due_at as age_ms`

/** Receipts. */
export function receipts(prefix: string): ReceiptStatements {
  const takeText = `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)
on conflict (consumer, message_key) do nothing`
  return {
    take: (consumer, token, messages) => messages.map((message) => receipt(takeText, consumer, token, message)),
    taken: (answers, _token, messages) => takenKeys(answers, messages),
    read: statement(
      `
select message_key, token, source, id, type, fingerprint, taken_at from ${prefix}receipts
where consumer = ? and message_key in (select unhex(value, '-') from json_each(?))`,
      (consumer, keys) => [consumer, JSON.stringify(keys)],
    ),
    insert: statement(
      `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)`,
      (consumer, token, { messageKey, source, id, type, fingerprint }) => [
        consumer,
        messageKey,
        token,
        fingerprint,
        encodeText(source),
        encodeText(id),
        encodeText(type),
      ],
    ),
  }
}

/** Whether a failure that is about to be recorded is on record. Parameters: attempts, lost, entry. */
const REPEATED = 'attempts = ? and lost = ? and instr(history, ?) > 0'

/** What waits for consumers. */
export function inbox(prefix: string): InboxStatements {
  const deleteInboxText = `delete from ${prefix}inbox where ${ROW}`
  const insertInboxText = `
insert into ${prefix}inbox (consumer, ${MESSAGE}, attempts, starts, available_at, first_due_at, error, lane, ordered)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ${LATER}, ?, ?, ?)`
  // A row that has failed once; the others are many, and must not pay for it.
  const insertFailedText = `
insert into ${prefix}inbox
  (consumer, ${MESSAGE}, attempts, starts, available_at, first_due_at, error, lane, ordered, failures, history)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ${LATER}, ?, ?, ?, 1, ${LINE('cast(? as integer)')})`
  const claiming = (columns: string): Sql<[seqs: readonly string[]]> =>
    statement(
      `
with given (seq) as materialized (
  select i.seq from ${prefix}inbox as i where ${ROWS} and i.held_at is null
    and (i.lease_token is null or i.available_at <= ${NOW})
)
delete from ${prefix}inbox where seq in (
  select mine.seq from ${prefix}inbox as mine
  where mine.seq in (select seq from given) and (mine.ordered = 0 or not exists (
    select 1 from ${prefix}inbox as older
    where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from given))))
returning ${columns}`,
      (seqs) => named(seqs),
    )
  const [claim, claimAged] = [claiming(INBOX), claiming(`${INBOX}, ${INBOX_AGE}`)]
  return {
    claim: (seqs, _isolation, aged) => (aged ? claimAged(seqs) : claim(seqs)),
    claimDeletes: true,
    // The transaction holds the only write lock: what it reads is its own.
    lockAll: statement(`select ${SEQ} from ${prefix}inbox as i where ${ROWS} order by i.seq`, (seqs) => named(seqs)),
    blocked: statement(
      `
with given (seq) as materialized ${SEQS}
select ${NAME('mine')} as seq from ${prefix}inbox as mine
where mine.seq in (select seq from given) and mine.ordered = 1 and exists (
  select 1 from ${prefix}inbox as older
  where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq not in (select seq from given))`,
      (seqs) => [JSON.stringify(seqs.map(numberOf))],
    ),
    delete: (seqs) => seqs.map((seq) => ({ text: deleteInboxText, params: one(seq) })),
    insert: (rows) =>
      rows.map((row) =>
        row.entry === undefined
          ? { text: insertInboxText, params: inboxValues(row) }
          : { text: insertFailedText, params: [...inboxValues(row), row.attempts, row.entry] },
      ),
    store: () => undefined,
    // Repeated, because the answer was lost, it counts once.
    reschedule: statement(
      `
update ${prefix}inbox set attempts = ?, lost = ?, starts = 0, ${DUE_IN}, error = ?, lease_token = null,
  failures = failures + iif(${REPEATED}, 0, 1), history = iif(${REPEATED}, history, ${HISTORY('cast(? as integer)')})
where ${ROW} and lease_token is ${UUID}`,
      ({ seq, attempts, lost, delayMs, error, entry, leaseToken }) => [
        attempts,
        lost,
        delayMs,
        JSON.stringify(error),
        ...[attempts, lost, entry],
        ...[attempts, lost, entry],
        ...[attempts, entry],
        ...one(seq),
        leaseToken,
      ],
    ),
    lock: statement(
      `select ${SEQ} from ${prefix}inbox where ${ROW} and lease_token is ${UUID} and held_at is null`,
      (seq, leaseToken) => [...one(seq), leaseToken],
    ),
    hold: statement(
      `update ${prefix}inbox set held_at = ${NOW}, aside = 1, waits = 0, attempts = ?, error = ?, starts = 0, lease_token = null,
  failures = failures + 1, history = ${HISTORY('cast(? as integer)')}
where ${ROW}`,
      ({ seq, attempts, error, entry }) => [attempts, JSON.stringify(error), attempts, entry, ...one(seq)],
    ),
    loose: statement(
      `
select ${SEQ}, key from ${prefix}inbox where consumer = ? and ordered = 0 and key is not null limit ?`,
      (consumer, limit) => [consumer, limit],
    ),
    addOrder: statement(
      `
update ${prefix}inbox set ordered = 1, lane = ?, key = coalesce(?, key) where ${ROWS} and ordered = 0`,
      (seqs, lane, key) => [lane, key && encodeText(key), ...named(seqs)],
    ),
    find: statement(
      `
select ${SEQ} from ${prefix}inbox as i where consumer = ? and message_key = ${UUID} order by i.seq limit 1`,
      (consumer, messageKey) => [consumer, messageKey],
    ),
  }
}

/** Leases on rows of the inbox. */
export function leases(prefix: string): LeaseStatements {
  const [inbox, _effects, _receipts] = [`${prefix}inbox`, `${prefix}effects`, `${prefix}receipts`]

  return {
    lockDue: statement(
      `
select ${INBOX}, ${INBOX_AGE} from ${inbox} as i
where ${ROWS} and i.held_at is null and (i.available_at <= ${NOW} or i.lease_token = ${UUID})
order by i.seq`,
      (seqs, token) => [...named(seqs), token],
    ),
    lease: statement(
      `
update ${inbox} set lease_token = ${UUID}, fence = fence + 1, ${DUE_IN} where ${ROWS}`,
      (seqs, token, leaseMs) => [token, leaseMs, ...named(seqs)],
    ),
    renew: statement(
      `
update ${inbox} set ${DUE_IN} where seq in ${SEQS} and lease_token in ${UUIDS} and held_at is null`,
      (held, leaseMs) => [leaseMs, ...lists(held)],
    ),
    release: statement(
      `
update ${inbox} set lease_token = null, ${DUE_IN}
where ${ROW} and lease_token = ${UUID} and fence = ? and held_at is null`,
      ({ seq, token, fence }, delayMs) => [delayMs, ...one(seq), token, fence],
    ),
    leased: statement(
      `select ${SEQ} from ${inbox} where seq in ${SEQS} and lease_token in ${UUIDS} and held_at is null`,
      (held) => lists(held),
    ),
    settle: statement(
      `
delete from ${inbox} where ${ROW} and lease_token = ${UUID} and fence = ? and held_at is null returning ${INBOX}`,
      ({ seq, token, fence }) => [...one(seq), token, fence],
    ),
  }
}

function receipt(text: string, consumer: string, token: string, message: StoredMessage): Statement {
  const { messageKey, source, id, type, fingerprint } = message
  const params = [consumer, messageKey, token, fingerprint, encodeText(source), encodeText(id), encodeText(type)]
  return { text, params }
}

/** An insert that met a conflict has changed nothing. */
function takenKeys(answers: readonly Result[], messages: readonly StoredMessage[]): ReadonlySet<string> | 'all' {
  if (answers.every((answer) => answer.affected === 1)) return 'all'
  const keys = new Set<string>()
  for (const [index, { messageKey }] of messages.entries()) {
    if (answers[index]?.affected === 1) keys.add(messageKey)
  }
  return keys
}

function inboxValues(row: RetryRow): readonly Param[] {
  const { consumer, message, ordered, attempts, starts, delayMs, error, local } = row
  const state = [attempts, starts, delayMs, local ? delayMs : null, error && JSON.stringify(error)]
  return [consumer, ...columns(message), ...state, ...place(message, ordered)]
}

function lists(held: readonly Lease[]): readonly [string, string] {
  return [JSON.stringify(held.map(({ seq }) => numberOf(seq))), JSON.stringify(held.map(({ token }) => token))]
}
