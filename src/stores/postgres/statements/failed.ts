// The failed store on PostgreSQL. Each filter is a parameter that may be null, so that one text serves every combination of filters.
// Failed messages keep their name (number and mark) through a retry: what a person noted down still finds them.

import { errorHash } from '../../../base/index.ts'
import type { FrozenFailed, Origin, Param } from '../../../contracts/index.ts'
import { encodeText, laneOf, laneOfKey, numberOf, type StoredMessage } from '../../../message/index.ts'
import {
  errorJson,
  type FailedStatements,
  type FailingStatements,
  type HeldStatements,
  statement,
} from '../../sql/index.ts'
import { array } from '../literal.ts'
import { AGO, AT, COLUMNS, DUE_NOW, HISTORY, LINE, MS, ROW_MESSAGE, SEQ } from './fragments.ts'
import { encoded, inOrder, messageArrays, numberOrNull, one } from './rows.ts'

/** A message as eight parameters. */
const VALUES = `$1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea, decode($8::text, 'hex')`
const FAILED = `${SEQ('m')} as seq, m.origin, m.consumer, ${ROW_MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS('m.failed_at')} as failed_at, m.held_seq::text as held_seq, m.replaced_by, m.failures, m.history`
/** The number of the failure; differs from `seq` if the row kept its `seq` through a retry. */
const FAILURE = 'coalesce(m.failure_seq, m.seq)'
const FAILED_WHERE = `(values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::float8, $7::float8, $8::float8, $9::float8,
  $10::boolean, $11::bigint)) as f (origin, consumer, type, reason, error_hash, older, newer, since, until, replaced, failure)
where (f.origin is null or m.origin = f.origin) and (f.consumer is null or m.consumer = f.consumer)
  and (f.type is null or m.type = f.type) and (f.reason is null or m.reason = f.reason)
  and (f.error_hash is null or m.error_hash = f.error_hash)
  and (f.older is null or m.failed_at < ${AGO('f.older')}) and (f.newer is null or m.failed_at >= ${AGO('f.newer')})
  and (f.since is null or m.failed_at >= ${AT('f.since')}) and (f.until is null or m.failed_at < ${AT('f.until')})
  and (m.replaced_by is not null) = f.replaced and (f.failure is null or ${FAILURE} <= f.failure)`

/** How messages get into the failed store. */
export function failing(schema: string): FailingStatements {
  const insertFailedText = `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error, error_hash,
    lane, ordered, failures, history)
select m.consumer, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), m.attempts, m.reason, m.error, m.error_hash, m.lane, m.ordered, 1,
  ${LINE('m.attempts', 'm.entry')}
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[],
  $13::text::text[], $14::text::smallint[], $15::text::boolean[], $16::text::text[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error,
    error_hash, lane, ordered, entry)
on conflict do nothing`
  return {
    insert: (rows) => [
      {
        text: insertFailedText,
        params: [
          array(rows.map((row) => row.consumer)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.attempts)),
          array(rows.map((row) => row.reason)),
          array(rows.map((row) => errorJson(row.error))),
          array(rows.map((row) => errorHash(row.error))),
          array(rows.map((row) => laneOf(row.message, row.ordered))),
          array(rows.map((row) => String(inOrder(row)))),
          array(rows.map((row) => row.entry)),
        ],
      },
    ],
    inbox: statement(
      `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, held_seq, attempts, reason,
    error, error_hash, failures, history)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered,
  case when $1::boolean then seq end, $2::integer, $3::text, $4::text, $5::text, failures + 1,
  ${HISTORY('history', '$2::integer', '$8::text')}
from ${schema}.inbox where seq = $6::bigint and mark = $7::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null, failure_seq = excluded.seq`,
      ({ seq, attempts, reason, error, entry, hold }) => [
        String(hold),
        attempts,
        reason,
        errorJson(error),
        errorHash(error),
        ...one(seq),
        entry,
      ],
    ),
    outbox: statement(
      `
insert into ${schema}.failed
  (origin, consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, attempts, held_seq,
    reason, error, error_hash, failures, history)
select 'outbox', relay, message_key, source, id, type, key, attributes, data, fingerprint, lane, key is not null,
  attempts + 1, case when $1::boolean then seq end, $2::text, $3::text, $4::text, failures + 1,
  ${HISTORY('history', 'attempts + 1', '$7::text')}
from ${schema}.outbox where seq = $5::bigint and mark = $6::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null, failure_seq = excluded.seq`,
      ({ seq, reason, error, entry, hold }) => [
        String(hold),
        reason,
        errorJson(error),
        errorHash(error),
        ...one(seq),
        entry,
      ],
    ),
  }
}

/** The failed store. */
export function failed(schema: string): FailedStatements {
  return {
    list: statement(
      `
select ${FAILED} from ${schema}.failed m, ${FAILED_WHERE}
  and m.seq < coalesce($12::bigint, 9223372036854775807)
order by m.seq desc limit $13::integer`,
      ({ before, limit, ...where }) => [...failedParams(where), numberOrNull(before), limit],
    ),
    count: statement(`select count(*) as count from ${schema}.failed m, ${FAILED_WHERE}`, (where) =>
      failedParams(where),
    ),
    groups: statement(
      `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, ${SEQ('newest')} as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS('min(m.failed_at)')} as first_at, ${MS('max(m.failed_at)')} as last_at, max(m.seq) as seq
  from ${schema}.failed m, ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit $12::integer
) as g join ${schema}.failed newest on newest.seq = g.seq
order by g.count desc, g.seq desc`,
      (where, limit) => [...failedParams(where), limit],
    ),
    seqs: statement(
      `
select ${SEQ('m')} as seq from ${schema}.failed m, ${FAILED_WHERE}
  and m.seq > coalesce($12::bigint, 0)
order by m.seq limit $13::integer`,
      (where, after, limit) => [...failedParams(where), numberOrNull(after), limit],
    ),
    freeze: statement(
      `
select c.count, ${SEQ('newest')} as last, c.failure::text as failure from (
  select count(*) as count, max(seq) as seq, max(failure) as failure from (
    select m.seq, ${FAILURE} as failure from ${schema}.failed m, ${FAILED_WHERE} order by m.seq limit $12::bigint) as rows
) as c left join ${schema}.failed newest on newest.seq = c.seq`,
      (where, limit) => [...failedParams(where), limit],
    ),
    get: statement(`select ${FAILED} from ${schema}.failed m where m.seq = $1::bigint and m.mark = $2::bigint`, (seq) =>
      one(seq),
    ),
    lock: statement(
      `
select ${SEQ('m')} as seq, m.origin, m.consumer, ${FAILURE}::text as failure, m.replaced_by,
  case m.origin
    when 'outbox' then (select ${SEQ('o')} from ${schema}.outbox o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${SEQ('i')} from ${schema}.inbox i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${schema}.failed m
where m.seq = $1::bigint and m.mark = $2::bigint and (m.replaced_by is null or $3::boolean) for update`,
      (seq, replaced) => [...one(seq), String(replaced)],
    ),
    delete: statement(`delete from ${schema}.failed where seq = $1::bigint and mark = $2::bigint`, (seq) => one(seq)),
    replaced: statement(
      `
update ${schema}.failed set replaced_by = $1::text, held_seq = null where seq = $2::bigint and mark = $3::bigint`,
      (seq, id) => [encodeText(id), ...one(seq)],
    ),
    letGo: statement(
      `update ${schema}.failed set held_seq = null where origin = $1::text and held_seq = $2::bigint`,
      (origin, heldSeq) => [origin, numberOf(heldSeq)],
    ),
  }
}

/** Rows of one table that hold their key, and how failed ones get back into it. */
export function held(schema: string, origin: Origin): HeldStatements {
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }

  const [scope, free] = { inbox: ['consumer', ' and m.lease_token is null'], outbox: ['relay', ''] }[origin]

  return {
    retrying: statement(
      `
select ${SEQ('m')} as seq, m.${scope} as scope, m.source, m.id, m.type from ${schema}.${origin} m
where m.seq = $1::bigint and m.mark = $2::bigint and m.held_at is null and (m.attempts > 0 or m.error is not null)
  and m.available_at > clock_timestamp()${free} for update`,
      (seq) => one(seq),
    ),
    hasten: statement(
      `
update ${schema}.${origin} set aside = false, waits = false, ${DUE_NOW} where seq = $1::bigint and mark = $2::bigint`,
      (seq) => one(seq),
    ),
    lock: statement(
      {
        inbox: `
select ${SEQ('m')} as seq, m.source, m.id, m.type,
  (select ${SEQ('f')} from ${schema}.failed f
    where f.origin = 'inbox' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${schema}.inbox m
where m.consumer = $1::text and m.lane = $2::smallint and m.key between $3::text and $4::text and m.ordered
  and m.held_at is not null
order by m.key, m.seq limit 1 for update`,
        outbox: `
select ${SEQ('m')} as seq, m.source, m.id, m.type,
  (select ${SEQ('f')} from ${schema}.failed f
    where f.origin = 'outbox' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${schema}.outbox m
where m.relay = $1::text and m.lane = $2::smallint and m.key between $3::text and $4::text and m.key is not null
  and m.held_at is not null
order by m.key, m.seq limit 1 for update`,
      }[origin],
      (scope, key) => [scope, laneOfKey(key), encodeText(key), encodeText(key)],
    ),
    unhold: statement(
      `
update ${schema}.${origin} set failed_seq = $3::bigint, failed_mark = $4::bigint, held_at = null, aside = false, waits = false,
  error = null, ${DUE_NOW}, ${counts[origin]}
where seq = $1::bigint and mark = $2::bigint`,
      (seq, failedSeq) => [...one(seq), ...one(failedSeq)],
    ),
    replace: statement(
      `
update ${schema}.${origin} set (${COLUMNS}) = row (${VALUES}),
  failed_seq = null, failed_mark = null, held_at = null, aside = false, waits = false, error = null,
  failures = 0, history = null, ${DUE_NOW}, ${counts[origin]}
where seq = $9::bigint and mark = $10::bigint`,
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    delete: statement(`delete from ${schema}.${origin} where seq = $1::bigint and mark = $2::bigint`, (seq) =>
      one(seq),
    ),
    toFailed: statement(
      {
        inbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, failures, history)
select 'inbox', consumer, ${COLUMNS}, lane, ordered, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}'), failures, history
from ${schema}.inbox where seq = $1::bigint and mark = $2::bigint
on conflict do nothing`,
        outbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, failures, history)
select 'outbox', relay, ${COLUMNS}, lane, key is not null, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}'), failures, history
from ${schema}.outbox where seq = $1::bigint and mark = $2::bigint
on conflict do nothing`,
      }[origin],
      (seq) => one(seq),
    ),
    back: statement(
      {
        inbox: `
insert into ${schema}.inbox (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, available_at, fence, failures, history)
select consumer, ${COLUMNS}, lane, ordered, seq, mark, clock_timestamp(), 1, failures, history from ${schema}.failed
where seq = $1::bigint and mark = $2::bigint`,
        outbox: `
insert into ${schema}.outbox (relay, ${COLUMNS}, lane, failed_seq, failed_mark, available_at, failures, history)
select consumer, ${COLUMNS}, lane, seq, mark, clock_timestamp(), failures, history from ${schema}.failed
where seq = $1::bigint and mark = $2::bigint`,
      }[origin],
      (seq) => one(seq),
    ),
    backEdited: statement(
      {
        inbox: `
insert into ${schema}.inbox (${COLUMNS}, consumer, lane, ordered, available_at)
select ${VALUES}, consumer, lane, ordered, clock_timestamp() from ${schema}.failed
where seq = $9::bigint and mark = $10::bigint`,
        outbox: `
insert into ${schema}.outbox (${COLUMNS}, relay, lane, available_at)
select ${VALUES}, consumer, lane, clock_timestamp() from ${schema}.failed
where seq = $9::bigint and mark = $10::bigint`,
      }[origin],
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    keepNumber: statement(
      { inbox: keepNumber(schema, 'inbox', 'consumer'), outbox: keepNumber(schema, 'outbox', 'relay') }[origin],
      (seq) => one(seq),
    ),
  }
}

/** Unless another row has the number, as after a fail-over. */
function keepNumber(schema: string, table: Origin, scope: string): string {
  return `
update ${schema}.failed as f
set seq = m.failed_seq, mark = m.failed_mark, failure_seq = coalesce(f.failure_seq, f.seq) from ${schema}.${table} as m
where m.seq = $1::bigint and m.mark = $2::bigint and m.failed_seq is not null
  and f.consumer = m.${scope} and f.message_key = m.message_key and f.fingerprint = m.fingerprint and f.origin = '${table}'
  and not exists (select 1 from ${schema}.failed as other where other.seq = m.failed_seq)`
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns(message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, key, attributes, data, fingerprint } = message
  const encodedKey = key === null ? null : encodeText(key)
  return [messageKey, encodeText(source), encodeText(id), encodeText(type), encodedKey, attributes, data, fingerprint]
}

/** The parameters of `FAILED_WHERE`. */
function failedParams(where: FrozenFailed): readonly Param[] {
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, since, until } = where
  const { replaced = false, lastFailure = null } = where
  const texts = [origin ?? null, consumer ?? null, encoded(type), reason ?? null, errorHash ?? null]
  const times = [olderThanMs ?? null, newerThanMs ?? null, since?.getTime() ?? null, until?.getTime() ?? null]
  return [...texts, ...times, String(replaced), lastFailure]
}
