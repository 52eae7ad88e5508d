// Receipts, the inbox and leases on PostgreSQL. Rows are locked in the order of seq, and receipts are written in the order of their
// keys: two transactions that lock in different orders deadlock. A claim skips rows that are locked, so that no worker waits for another.

import type { Lease, Result, Statement } from '../../../contracts/index.ts'
import { encodeText, laneOf, numberOf, type StoredMessage } from '../../../message/index.ts'
import {
  asTextOrNull,
  errorJson,
  type InboxStatements,
  type LeaseStatements,
  type ReceiptStatements,
  type Sql,
  statement,
} from '../../sql/index.ts'
import { array } from '../literal.ts'
import { BACKEND, BACKEND_TEXT, DUE_IN, HISTORY, INBOX, INBOX_AGE, LATER, LINE, MS, ROWS, SEQ } from './fragments.ts'
import { inOrder, messageArrays, named, one } from './rows.ts'
import { store } from './store.ts'

/** Receipts. */
export function receipts(schema: string): ReceiptStatements {
  // Sorted, because two groups inserting in different order deadlock. One row comes back: that they are usually all
  // ours is cheaper to say than to list.
  const takeManyText = `
with taken as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $1::text, m.message_key, $2::uuid, m.source, m.id, m.type, decode(m.fingerprint, 'hex')
  from unnest($3::text::uuid[], $4::text::text[], $5::text::text[], $6::text::text[], $7::text::text[])
    as m (message_key, source, id, type, fingerprint)
  order by m.message_key
  on conflict do nothing
  returning message_key
)
select case when count(*) = $8::integer then 'all' else string_agg(message_key::text, ',') end as message_key, ${BACKEND}
from taken`
  const takeOneText = `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))
on conflict do nothing
returning message_key::text as message_key, ${BACKEND}`
  return {
    take: (consumer, token, messages) => {
      const [first, second] = messages
      return first !== undefined && second === undefined
        ? [takeOne(takeOneText, consumer, token, first)]
        : [takeMany(takeManyText, consumer, token, messages)]
    },
    taken: ([answer], _token, messages) => takenKeys(answer, messages.length),
    // One by one: with `= any`, a planner that has not heard of the consumer reads all of its receipts.
    read: statement(
      `
select r.message_key::text as message_key, r.token::text as token, r.source, r.id, r.type,
  encode(r.fingerprint, 'hex') as fingerprint, ${MS('r.taken_at')} as taken_at
from unnest($1::text::uuid[]) as k (message_key)
cross join lateral (
  select * from ${schema}.receipts as r where r.consumer = $2::text and r.message_key = k.message_key limit 1
) as r`,
      (consumer, keys) => [array(keys), consumer],
    ),
    insert: statement(
      `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))`,
      (consumer, token, { messageKey, source, id, type, fingerprint }) => [
        consumer,
        messageKey,
        token,
        encodeText(source),
        encodeText(id),
        encodeText(type),
        fingerprint,
      ],
    ),
  }
}

/** Whether a failure that is about to be recorded is on record: parameters as those of `reschedule`. */
const REPEATED = 'attempts = $1::integer and lost = $2::integer and strpos(history, $8::text) > 0'

/** What waits for consumers. */
export function inbox(schema: string): InboxStatements {
  // The older rows of a key are only read: nothing ever waits for another worker's row. One of the rows has the backend.
  const claim = (columns: string): Sql<[seqs: readonly string[]]> =>
    statement(
      `
with mine as materialized (
  select seq, consumer, lane, key, ordered from ${schema}.inbox
  where ${ROWS('$1', '$2')} and held_at is null
    and (lease_token is null or available_at <= clock_timestamp())
  order by seq for update skip locked
), kept as materialized (
  select seq from mine
  where not ordered or not exists (
    select from ${schema}.inbox older
    where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from mine))
)
delete from ${schema}.inbox where seq = any (array(select seq from kept))
returning ${columns}, case when seq = (select min(seq) from kept) then ${BACKEND_TEXT} end as backend`,
      (seqs) => named(seqs),
    )
  const [claimed, claimedAged] = [claim(INBOX), claim(`${INBOX}, ${INBOX_AGE}`)]
  const deleteInboxText = `delete from ${schema}.inbox where ${ROWS('$1', '$2')}`
  const insertInboxText = `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error,
    lane, ordered, failures, history)
select m.consumer, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), m.attempts, m.starts, ${LATER('m.delay_ms')}, nullif(m.error, ''), m.lane, m.ordered,
  case when m.entry = '' then 0 else 1 end, case when m.entry <> '' then ${LINE('m.attempts', 'm.entry')} end
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[], $14::text::smallint[], $15::text::boolean[], $16::text::text[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, lane, ordered, entry, place)
order by m.place`
  return {
    claim: (seqs, _isolation, aged) => (aged ? claimedAged(seqs) : claimed(seqs)),
    claimDeletes: true,
    lockAll: statement(
      `
select ${SEQ('inbox')} as seq, ${BACKEND} from ${schema}.inbox
where ${ROWS('$1', '$2')} order by inbox.seq for update`,
      (seqs) => named(seqs),
    ),
    blocked: statement(
      `
select ${SEQ('mine')} as seq from ${schema}.inbox mine
where mine.seq = any ($1::text::bigint[]) and mine.ordered and exists (
  select from ${schema}.inbox older
  where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq <> all ($2::text::bigint[]))`,
      (seqs) => [array(seqs.map(numberOf)), array(seqs.map(numberOf))],
    ),
    delete: (seqs) => [{ text: deleteInboxText, params: named(seqs) }],
    insert: (rows) => [
      {
        text: insertInboxText,
        prepare: true,
        params: [
          array(rows.map((row) => row.consumer)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.attempts)),
          array(rows.map((row) => row.starts)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => (row.error === null ? '' : errorJson(row.error)))),
          array(rows.map((row) => laneOf(row.message, row.ordered))),
          array(rows.map((row) => String(inOrder(row)))),
          array(rows.map((row) => row.entry ?? '')),
        ],
      },
    ],
    store: store(schema),
    // Repeated, because the answer was lost, it counts once.
    reschedule: statement(
      `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  ${DUE_IN('$3::float8')}, error = $4::text, lease_token = null,
  failures = failures + case when ${REPEATED} then 0 else 1 end,
  history = case when ${REPEATED} then history else ${HISTORY('history', '$1::integer', '$8::text')} end
where seq = $5::bigint and mark = $6::bigint and lease_token is not distinct from $7::uuid`,
      ({ seq, attempts, lost, delayMs, error, entry, leaseToken }) => [
        attempts,
        lost,
        delayMs,
        errorJson(error),
        ...one(seq),
        leaseToken,
        entry,
      ],
    ),
    lock: statement(
      `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where seq = $1::bigint and mark = $2::bigint and lease_token is not distinct from $3::uuid and held_at is null for update`,
      (seq, leaseToken) => [...one(seq), leaseToken],
    ),
    hold: statement(
      `
update ${schema}.inbox set held_at = clock_timestamp(), aside = true, waits = false, attempts = $1::integer, error = $2::text, starts = 0,
  lease_token = null, failures = failures + 1, history = ${HISTORY('history', '$1::integer', '$5::text')}
where seq = $3::bigint and mark = $4::bigint`,
      ({ seq, attempts, error, entry }) => [attempts, errorJson(error), ...one(seq), entry],
    ),
    // In the order of the index: without it, the planner reads the table until it has found enough.
    loose: statement(
      `
select ${SEQ('inbox')} as seq, key from ${schema}.inbox
where consumer = $1::text and not ordered and key is not null order by lane, available_at, seq limit $2::integer`,
      (consumer, limit) => [consumer, limit],
    ),
    addOrder: statement(
      `
update ${schema}.inbox set ordered = true, lane = $1::smallint, key = coalesce($2::text, key)
where ${ROWS('$3', '$4')} and not ordered`,
      (seqs, lane, key) => [lane, key && encodeText(key), ...named(seqs)],
    ),
    find: statement(
      `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,
      (consumer, messageKey) => [consumer, messageKey],
    ),
  }
}

/** Leases on rows of the inbox. */
export function leases(schema: string): LeaseStatements {
  return {
    lockDue: statement(
      `
select ${INBOX}, ${INBOX_AGE} from ${schema}.inbox
where ${ROWS('$1', '$2')} and held_at is null
  and (available_at <= clock_timestamp() or lease_token = $3::uuid)
order by inbox.seq for update skip locked`,
      (seqs, token) => [...named(seqs), token],
    ),
    lease: statement(
      `
update ${schema}.inbox set lease_token = $1::uuid, fence = fence + 1, ${DUE_IN('$2::float8')}
where ${ROWS('$3', '$4')}`,
      (seqs, token, leaseMs) => [token, leaseMs, ...named(seqs)],
    ),
    // A row that is locked cannot be taken over either; the others do not wait for it.
    renew: statement(
      `
update ${schema}.inbox set ${DUE_IN('$1::float8')}
where seq in (
  select seq from ${schema}.inbox
  where seq = any ($2::text::bigint[]) and lease_token = any ($3::text::uuid[]) and held_at is null
  for update skip locked
)`,
      (held, leaseMs) => [leaseMs, ...arrays(held)],
    ),
    release: statement(
      `
update ${schema}.inbox set lease_token = null, ${DUE_IN('$1::float8')}
where seq = $2::bigint and mark = $3::bigint and lease_token = $4::uuid and fence = $5::bigint and held_at is null`,
      ({ seq, token, fence }, delayMs) => [delayMs, ...one(seq), token, fence],
    ),
    leased: statement(
      `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where seq = any ($1::text::bigint[]) and lease_token = any ($2::text::uuid[]) and held_at is null`,
      (held) => arrays(held),
    ),
    settle: statement(
      `
delete from ${schema}.inbox
where seq = $1::bigint and mark = $2::bigint and lease_token = $3::uuid and fence = $4::bigint and held_at is null
returning ${INBOX}, ${BACKEND}`,
      ({ seq, token, fence }) => [...one(seq), token, fence],
    ),
  }
}

function takeOne(text: string, consumer: string, token: string, message: StoredMessage): Statement {
  const { messageKey, source, id, type, fingerprint } = message
  const params = [consumer, messageKey, token, encodeText(source), encodeText(id), encodeText(type), fingerprint]
  return { text, params, prepare: true }
}

function takeMany(text: string, consumer: string, token: string, messages: readonly StoredMessage[]): Statement {
  const params = [
    consumer,
    token,
    array(messages.map((message) => message.messageKey)),
    array(messages.map((message) => encodeText(message.source))),
    array(messages.map((message) => encodeText(message.id))),
    array(messages.map((message) => encodeText(message.type))),
    array(messages.map((message) => message.fingerprint)),
    messages.length,
  ]
  return { text, params, prepare: true }
}

function takenKeys(answer: Result | undefined, count: number): ReadonlySet<string> | 'all' {
  const row = answer?.rows[0]
  const keys = row === undefined ? null : asTextOrNull(row['message_key'])
  if (keys === 'all' || (count === 1 && keys !== null)) return 'all'
  return new Set(keys === null ? [] : keys.split(','))
}

function arrays(held: readonly Lease[]): readonly [string, string] {
  return [array(held.map(({ seq }) => numberOf(seq))), array(held.map(({ token }) => token))]
}
