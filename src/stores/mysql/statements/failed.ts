// The failed store on MariaDB and MySQL. Each filter is a parameter that may be null, so that one text serves every combination of
// filters. Failed messages keep their name (number and mark) through a retry: what a person noted down still finds them.

import type { FrozenFailed, Origin, Param } from '../../../contracts/index.ts'
import { laneOfKey, numberOf } from '../../../message/index.ts'
import { type FailedStatements, type FailingStatements, type HeldStatements, statement } from '../../sql/index.ts'
import {
  AGO,
  ALL,
  AT,
  BY_KEY,
  COLUMNS,
  DUE_NOW,
  HISTORY,
  LIMIT,
  LINE,
  MAX_SEQ,
  MESSAGE,
  MS,
  NAME,
  NOW,
  ROW,
  SEQ,
  tables,
} from './fragments.ts'
import {
  bytes,
  columns,
  errorColumns,
  inserts,
  keyHash,
  microsecondsOrNull,
  one,
  place,
  text,
  textOrNull,
} from './rows.ts'

const FAILED = `${NAME()} as seq, m.origin, m.consumer, ${MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS('m.failed_at')} as failed_at, cast(m.held_seq as char) as held_seq, m.replaced_by, m.failures, m.history`
/** The number of the failure; differs from `seq` if the row kept its `seq` through a retry. */
const FAILURE = 'coalesce(m.failure_seq, m.seq)'
const FAILED_WHERE = `(select ? as origin_, ? as consumer_, ? as type_, ? as reason_, ? as hash_, cast(? as signed) as older_,
  cast(? as signed) as newer_, cast(? as signed) as since_, cast(? as signed) as until_, cast(? as signed) as replaced_,
  cast(? as signed) as failure_) as f
where (f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${AGO('f.older_')}) and (f.newer_ is null or m.failed_at >= ${AGO('f.newer_')})
  and (f.since_ is null or m.failed_at >= ${AT('f.since_')}) and (f.until_ is null or m.failed_at < ${AT('f.until_')})
  and (m.replaced_by is not null) = f.replaced_ and (f.failure_ is null or ${FAILURE} <= f.failure_)`
const UNKNOWN_ERROR = `'{"name":"Error","message":"held for a reason that is not known any more"}'`

/** How messages get into the failed store. */
export function failing(prefix: string): FailingStatements {
  const { inbox, outbox, failed } = tables(prefix)
  const insertFailedText = {
    head: `
insert into ${failed} (consumer, ${COLUMNS}, attempts, reason, error, error_hash, lane, ordered, failed_at, failures, history)
values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, 1, ${LINE('?')})`,
    tail: 'on duplicate key update message_key = message_key',
  }
  return {
    insert: (rows) =>
      inserts(
        insertFailedText,
        rows.map(({ consumer, message, ordered, attempts, reason, error, entry }) => [
          bytes(consumer),
          ...columns(message),
          attempts,
          bytes(reason),
          ...errorColumns(error),
          ...place(message, ordered),
          attempts,
          bytes(entry),
        ]),
      ),
    inbox: statement(
      `
insert into ${failed}
  (consumer, ${COLUMNS}, lane, ordered, held_seq, attempts, reason, error, error_hash, failed_at, failures, history)
select m.consumer, ${MESSAGE}, m.lane, m.ordered, if(? = 1, m.seq, null), ?, ?, ?, ?, ${NOW}, m.failures + 1,
  ${HISTORY('m.history', '?')}
from ${inbox} as m where ${ROW}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null,
  failure_seq = values(seq)`,
      ({ seq, attempts, reason, error, entry, hold }) => [
        Number(hold),
        attempts,
        bytes(reason),
        ...errorColumns(error),
        attempts,
        bytes(entry),
        ...one(seq),
      ],
    ),
    outbox: statement(
      `
insert into ${failed}
  (origin, consumer, ${COLUMNS}, lane, ordered, attempts, held_seq, reason, error, error_hash, failed_at, failures,
    history)
select 'outbox', m.relay, ${MESSAGE}, m.lane, m.\`key\` is not null, m.attempts + 1, if(? = 1, m.seq, null), ?, ?, ?, ${NOW},
  m.failures + 1, ${HISTORY('m.history', 'm.attempts + 1')}
from ${outbox} as m where ${ROW}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null,
  failure_seq = values(seq)`,
      ({ seq, reason, error, entry, hold }) => [
        Number(hold),
        bytes(reason),
        ...errorColumns(error),
        bytes(entry),
        ...one(seq),
      ],
    ),
  }
}

/** The failed store. */
export function failed(prefix: string): FailedStatements {
  const { inbox, outbox, failed } = tables(prefix)
  const failedListText = (limit: number) => `
select ${FAILED} from ${failed} as m join ${FAILED_WHERE} and m.seq < ${SEQ}
order by m.seq desc ${LIMIT(limit)}`
  const failedGroupsText = (limit: number) => `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, ${NAME('newest')} as seq,
  newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS('min(m.failed_at)')} as first_at, ${MS('max(m.failed_at)')} as last_at, max(m.seq) as seq
  from ${failed} as m join ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc ${LIMIT(limit)}
) as g join ${failed} as newest on newest.seq = g.seq
order by g.count desc, g.seq desc`
  const failedSeqsText = (limit: number) => `
select ${NAME()} as seq from ${failed} as m join ${FAILED_WHERE} and m.seq > ${SEQ}
order by m.seq ${LIMIT(limit)}`
  const freezeText = (limit: number) => `
select c.count, ${NAME('newest')} as last, cast(c.failure as char) as failure from (
  select count(*) as count, max(seq) as seq, max(failure) as failure from (
    select m.seq, ${FAILURE} as failure from ${failed} as m join ${FAILED_WHERE} order by m.seq ${LIMIT(limit)}) as chosen
) as c left join ${failed} as newest on newest.seq = c.seq`
  return {
    list: ({ before, limit, ...where }) => ({
      text: failedListText(limit),
      params: [...failedParams(where), before === undefined ? MAX_SEQ : numberOf(before)],
    }),
    count: statement(`select count(*) as count from ${failed} as m join ${FAILED_WHERE}`, (where) =>
      failedParams(where),
    ),
    groups: (where, limit) => ({ text: failedGroupsText(limit), params: failedParams(where) }),
    seqs: (where, after, limit) => ({
      text: failedSeqsText(limit),
      params: [...failedParams(where), numberOf(after ?? '0')],
    }),
    freeze: (where, limit) => ({ text: freezeText(limit ?? ALL), params: failedParams(where) }),
    get: statement(`select ${FAILED} from ${failed} as m where ${ROW}`, (seq) => one(seq)),
    lock: statement(
      `
select ${NAME()} as seq, m.origin, m.consumer, cast(${FAILURE} as char) as failure, m.replaced_by,
  case when m.origin = 'outbox'
    then (select ${NAME('o')} from ${outbox} as o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${NAME('i')} from ${inbox} as i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${failed} as m where ${ROW} and (m.replaced_by is null or cast(? as signed) = 1) for update`,
      (seq, replaced) => [...one(seq), replaced ? 1 : 0],
    ),
    delete: statement(`delete from ${failed} where ${ROW}`, (seq) => one(seq)),
    replaced: statement(`update ${failed} set replaced_by = ?, held_seq = null where ${ROW}`, (seq, id) => [
      text(id),
      ...one(seq),
    ]),
    letGo: statement(
      `update ${failed} set held_seq = null where origin = ? and held_seq = ${SEQ}`,
      (origin, heldSeq) => [bytes(origin), numberOf(heldSeq)],
    ),
  }
}

/** Rows of one table that hold their key, and how failed ones get back into it. */
export function held(prefix: string, origin: Origin): HeldStatements {
  const table = tables(prefix)
  const { inbox, outbox, failed } = table
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }
  const scope = { inbox: 'consumer', outbox: 'relay' }

  const free = origin === 'inbox' ? ' and m.lease_token is null' : ''

  return {
    retrying: statement(
      `
select ${NAME()} as seq, m.${scope[origin]} as scope, m.source, m.id, m.type from ${table[origin]} as m
where ${ROW} and m.held_at is null and (m.attempts > 0 or m.error is not null) and m.available_at > ${NOW}${free} for update`,
      (seq) => one(seq),
    ),
    hasten: statement(`update ${table[origin]} set aside = 0, waits = 0, ${DUE_NOW} where ${ROW}`, (seq) => one(seq)),
    // Looked for without locks first: a locking search would lock every row that it passes.
    lock: statement(
      `
select ${NAME()} as seq, m.source, m.id, m.type,
  (select ${NAME('f')} from ${failed} as f
    where f.held_seq = m.seq and f.origin = '${origin}' and f.message_key = m.message_key limit 1) as failed_seq
from (select seq from ${table[origin]} force index (${origin}_key)
    where ${scope[origin]} = ? and lane = ? and key_hash = ? and held_at is not null order by seq limit 1) as there
  straight_join ${table[origin]} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is not null for update`,
      (scope, key) => [bytes(scope), laneOfKey(key), keyHash(key)],
    ),
    unhold: statement(
      `
update ${table[origin]} set failed_seq = ${SEQ}, failed_mark = ${SEQ}, held_at = null, aside = 0, waits = 0, error = null,
  ${DUE_NOW}, ${counts[origin]} where ${ROW}`,
      (seq, failedSeq) => [...one(failedSeq), ...one(seq)],
    ),
    replace: statement(
      `
update ${table[origin]} set message_key = ?, source = ?, id = ?, type = ?, \`key\` = ?, attributes = ?, data = ?,
  fingerprint = ?, failures = 0, history = null, failed_seq = null, failed_mark = null, held_at = null, aside = 0, waits = 0, error = null, ${DUE_NOW}, ${counts[origin]}
where ${ROW}`,
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    delete: statement(`delete from ${table[origin]} where ${ROW}`, (seq) => one(seq)),
    toFailed: statement(
      {
        inbox: `
insert into ${failed} (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, error_hash, failed_at, failures,
  history)
select 'inbox', m.consumer, ${MESSAGE}, m.lane, m.ordered, m.attempts, 'permanent', coalesce(m.error, ${UNKNOWN_ERROR}), '',
  ${NOW}, m.failures, m.history
from ${inbox} as m where ${ROW}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
        outbox: `
insert into ${failed} (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, error_hash, failed_at, failures,
  history)
select 'outbox', m.relay, ${MESSAGE}, m.lane, m.\`key\` is not null, m.attempts, 'permanent',
  coalesce(m.error, ${UNKNOWN_ERROR}), '', ${NOW}, m.failures, m.history
from ${outbox} as m where ${ROW}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
      }[origin],
      (seq) => one(seq),
    ),
    back: statement(
      {
        inbox: `
insert into ${inbox} (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, created_at, available_at, fence, failures, history)
select m.consumer, ${MESSAGE}, m.lane, m.ordered, m.seq, m.mark, ${NOW}, ${NOW}, 1, m.failures, m.history
from ${failed} as m where ${ROW}`,
        outbox: `
insert into ${outbox} (relay, ${COLUMNS}, lane, failed_seq, failed_mark, created_at, available_at, failures, history)
select m.consumer, ${MESSAGE}, m.lane, m.seq, m.mark, ${NOW}, ${NOW}, m.failures, m.history from ${failed} as m where ${ROW}`,
      }[origin],
      (seq) => one(seq),
    ),
    backEdited: statement(
      {
        inbox: `
insert into ${inbox} (${COLUMNS}, consumer, lane, ordered, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, m.ordered, ${NOW}, ${NOW} from ${failed} as m where ${ROW}`,
        outbox: `
insert into ${outbox} (${COLUMNS}, relay, lane, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, ${NOW}, ${NOW} from ${failed} as m where ${ROW}`,
      }[origin],
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    keepNumber: statement(
      { inbox: keepNumber(failed, inbox, 'inbox'), outbox: keepNumber(failed, outbox, 'outbox') }[origin],
      (seq) => one(seq),
    ),
  }
}

/** Unless another row has the number, as after a fail-over. */
function keepNumber(failed: string, table: string, origin: Origin): string {
  return `
update ${table} as m ${BY_KEY}
  straight_join ${failed} as f on f.consumer = m.${origin === 'inbox' ? 'consumer' : 'relay'} and f.message_key = m.message_key
    and f.fingerprint = m.fingerprint and f.origin = '${origin}'
  left join ${failed} as other on other.seq = m.failed_seq
set f.failure_seq = coalesce(f.failure_seq, f.seq), f.seq = m.failed_seq, f.mark = m.failed_mark
where m.seq = ${SEQ} and m.mark = ${SEQ} and m.failed_seq is not null and other.seq is null`
}

/** The parameters of `FAILED_WHERE`. */
function failedParams(where: FrozenFailed): readonly Param[] {
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, since, until } = where
  const { replaced, lastFailure = null } = where
  return [
    ...[origin, consumer, type, reason, errorHash].map(textOrNull),
    microsecondsOrNull(olderThanMs),
    microsecondsOrNull(newerThanMs),
    since?.getTime() ?? null,
    until?.getTime() ?? null,
    replaced ? 1 : 0,
    lastFailure,
  ]
}
