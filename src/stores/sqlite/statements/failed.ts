// The failed store on SQLite. Each filter is a parameter that may be null, so that one text serves every combination of filters.
// Failed messages keep their name (number and mark) through a retry: what a person noted down still finds them.

import { errorHash } from '../../../base/index.ts'
import type { FrozenFailed, Origin, Param } from '../../../contracts/index.ts'
import { encodeText, laneOfKey, numberOf } from '../../../message/index.ts'
import { type FailedStatements, type FailingStatements, type HeldStatements, statement } from '../../sql/index.ts'
import {
  COLUMNS,
  DUE_NOW,
  HISTORY,
  LINE,
  MAX_SEQ,
  MESSAGE,
  MESSAGE_VALUES,
  NAME,
  ROW,
  ROW_MESSAGE,
  UUID,
} from './fragments.ts'
import { NOW } from './migrations.ts'
import { columns, encoded, one, place } from './rows.ts'

const VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`
const FAILED = `${NAME('m')} as seq, m.origin, m.consumer, ${ROW_MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  m.failed_at, cast(m.held_seq as text) as held_seq, m.replaced_by, m.failures, m.history`
const FAILED_GIVEN = `
with f (origin_, consumer_, type_, reason_, hash_, older_, newer_, since_, until_, replaced_, failure_)
  as (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, cast(? as integer)))`
/** The number of the failure; differs from `seq` if the row kept its `seq` through a retry. */
const FAILURE = 'coalesce(m.failure_seq, m.seq)'
const FAILED_WHERE = `(f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${NOW} - f.older_) and (f.newer_ is null or m.failed_at >= ${NOW} - f.newer_)
  and (f.since_ is null or m.failed_at >= f.since_) and (f.until_ is null or m.failed_at < f.until_)
  and (m.replaced_by is not null) = f.replaced_ and (f.failure_ is null or ${FAILURE} <= f.failure_)`
const UNKNOWN_ERROR = `'{"name":"Error","message":"held for a reason that is not known any more"}'`

/** How messages get into the failed store. */
export function failing(prefix: string): FailingStatements {
  const insertFailedText = `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error, error_hash, lane, ordered, failures, history)
values (?, ${MESSAGE_VALUES}, ?, ?, ?, ?, ?, ?, 1, ${LINE('cast(? as integer)')})
on conflict do nothing`
  return {
    insert: (rows) =>
      rows.map(({ consumer, message, ordered, attempts, reason, error, entry }) => ({
        text: insertFailedText,
        params: [
          consumer,
          ...columns(message),
          attempts,
          reason,
          JSON.stringify(error),
          errorHash(error),
          ...place(message, ordered),
          attempts,
          entry,
        ],
      })),
    inbox: statement(
      `
insert into ${prefix}failed
  (consumer, ${MESSAGE}, lane, ordered, held_seq, attempts, reason, error, error_hash, failures, history)
select consumer, ${MESSAGE}, lane, ordered, iif(?, seq, null), ?, ?, ?, ?, failures + 1, ${HISTORY('cast(? as integer)')}
from ${prefix}inbox where ${ROW}
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null, failure_seq = excluded.seq`,
      ({ seq, attempts, reason, error, entry, hold }) => [
        Number(hold),
        attempts,
        reason,
        JSON.stringify(error),
        errorHash(error),
        attempts,
        entry,
        ...one(seq),
      ],
    ),
    outbox: statement(
      `
insert into ${prefix}failed
  (origin, consumer, ${MESSAGE}, lane, ordered, attempts, held_seq, reason, error, error_hash, failures, history)
select 'outbox', relay, ${MESSAGE}, lane, key is not null, attempts + 1, iif(?, seq, null), ?, ?, ?, failures + 1,
  ${HISTORY('(attempts + 1)')}
from ${prefix}outbox where ${ROW}
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null, failure_seq = excluded.seq`,
      ({ seq, reason, error, entry, hold }) => [
        Number(hold),
        reason,
        JSON.stringify(error),
        errorHash(error),
        entry,
        ...one(seq),
      ],
    ),
  }
}

/** The failed store. */
export function failed(prefix: string): FailedStatements {
  return {
    list: statement(
      `${FAILED_GIVEN}
select ${FAILED} from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq < cast(? as integer)
order by m.seq desc limit ?`,
      ({ before, limit, ...where }) => [
        ...failedParams(where),
        before === undefined ? MAX_SEQ : numberOf(before),
        limit,
      ],
    ),
    count: statement(
      `${FAILED_GIVEN}
select count(*) as count from ${prefix}failed as m, f where ${FAILED_WHERE}`,
      (where) => failedParams(where),
    ),
    groups: statement(
      `${FAILED_GIVEN}
select g.*, ${NAME('newest')} as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count, min(m.failed_at) as first_at,
    max(m.failed_at) as last_at, max(m.seq) as last
  from ${prefix}failed as m, f where ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit ?
) as g join ${prefix}failed as newest on newest.seq = g.last
order by g.count desc, g.last desc`,
      (where, limit) => [...failedParams(where), limit],
    ),
    seqs: statement(
      `${FAILED_GIVEN}
select ${NAME('m')} as seq from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq > cast(? as integer)
order by m.seq limit ?`,
      (where, after, limit) => [...failedParams(where), numberOf(after ?? '0'), limit],
    ),
    freeze: statement(
      `${FAILED_GIVEN}
select c.count, ${NAME('newest')} as last, cast(c.failure as text) as failure from (
  select count(*) as count, max(seq) as seq, max(failure) as failure from (
    select m.seq, ${FAILURE} as failure from ${prefix}failed as m, f where ${FAILED_WHERE} order by m.seq limit ?)
) as c left join ${prefix}failed as newest on newest.seq = c.seq`,
      (where, limit) => [...failedParams(where), limit ?? -1],
    ),
    get: statement(`select ${FAILED} from ${prefix}failed as m where ${ROW}`, (seq) => one(seq)),
    lock: statement(
      `
select ${NAME('m')} as seq, m.origin, m.consumer, cast(${FAILURE} as text) as failure, m.replaced_by,
  case m.origin
    when 'outbox' then (select ${NAME('o')} from ${prefix}outbox as o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${NAME('i')} from ${prefix}inbox as i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${prefix}failed as m where ${ROW} and (m.replaced_by is null or ? = 1)`,
      (seq, replaced) => [...one(seq), replaced ? 1 : 0],
    ),
    delete: statement(`delete from ${prefix}failed where ${ROW}`, (seq) => one(seq)),
    replaced: statement(`update ${prefix}failed set replaced_by = ?, held_seq = null where ${ROW}`, (seq, id) => [
      encodeText(id),
      ...one(seq),
    ]),
    letGo: statement(
      `update ${prefix}failed set held_seq = null where origin = ? and held_seq = cast(? as integer)`,
      (origin, heldSeq) => [origin, numberOf(heldSeq)],
    ),
  }
}

/** Rows of one table that hold their key, and how failed ones get back into it. */
export function held(prefix: string, origin: Origin): HeldStatements {
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }
  const scope = { inbox: 'consumer', outbox: 'relay' }
  const keyed = { inbox: 'm.ordered = 1', outbox: 'm.key is not null' }
  const free = origin === 'inbox' ? ' and m.lease_token is null' : ''

  return {
    retrying: statement(
      `
select ${NAME('m')} as seq, m.${scope[origin]} as scope, m.source, m.id, m.type from ${prefix}${origin} as m
where ${ROW} and m.held_at is null and (m.attempts > 0 or m.error is not null) and m.available_at > ${NOW}${free}`,
      (seq) => one(seq),
    ),
    hasten: statement(`update ${prefix}${origin} set aside = 0, waits = 0, ${DUE_NOW} where ${ROW}`, (seq) => one(seq)),
    lock: statement(
      `
select ${NAME('m')} as seq, m.source, m.id, m.type,
  (select ${NAME('f')} from ${prefix}failed as f
    where f.origin = '${origin}' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${prefix}${origin} as m
where m.${scope[origin]} = ? and m.lane = ? and m.key = ? and ${keyed[origin]} and m.held_at is not null order by m.seq limit 1`,
      (scope, key) => [scope, laneOfKey(key), encodeText(key)],
    ),
    unhold: statement(
      `
update ${prefix}${origin} set failed_seq = ?, failed_mark = ?, held_at = null, aside = 0, waits = 0, error = null,
  ${DUE_NOW}, ${counts[origin]} where ${ROW}`,
      (seq, failedSeq) => [...one(failedSeq), ...one(seq)],
    ),
    replace: statement(
      `
update ${prefix}${origin} set (${COLUMNS}) = (${VALUES}),
  failures = 0, history = null, failed_seq = null, failed_mark = null, held_at = null, aside = 0, waits = 0, error = null,
  ${DUE_NOW},
  ${counts[origin]}
where ${ROW}`,
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    delete: statement(`delete from ${prefix}${origin} where ${ROW}`, (seq) => one(seq)),
    toFailed: statement(
      {
        inbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, failures, history)
select 'inbox', consumer, ${COLUMNS}, lane, ordered, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR}), failures, history
from ${prefix}inbox where ${ROW}
on conflict do nothing`,
        outbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, failures, history)
select 'outbox', relay, ${COLUMNS}, lane, key is not null, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR}), failures, history
from ${prefix}outbox where ${ROW}
on conflict do nothing`,
      }[origin],
      (seq) => one(seq),
    ),
    back: statement(
      {
        inbox: `
insert into ${prefix}inbox (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, available_at, fence, failures, history)
select consumer, ${COLUMNS}, lane, ordered, seq, mark, ${NOW}, 1, failures, history from ${prefix}failed where ${ROW}`,
        outbox: `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, failed_seq, failed_mark, available_at, failures, history)
select consumer, ${COLUMNS}, lane, seq, mark, ${NOW}, failures, history from ${prefix}failed where ${ROW}`,
      }[origin],
      (seq) => one(seq),
    ),
    backEdited: statement(
      {
        inbox: `
insert into ${prefix}inbox (${COLUMNS}, consumer, lane, ordered, available_at)
select ${VALUES}, consumer, lane, ordered, ${NOW} from ${prefix}failed where ${ROW}`,
        outbox: `
insert into ${prefix}outbox (${COLUMNS}, relay, lane, available_at)
select ${VALUES}, consumer, lane, ${NOW} from ${prefix}failed where ${ROW}`,
      }[origin],
      (seq, message) => [...columns(message), ...one(seq)],
    ),
    keepNumber: statement(
      { inbox: keepNumber(prefix, 'inbox', 'consumer'), outbox: keepNumber(prefix, 'outbox', 'relay') }[origin],
      (seq) => [...one(seq), ...one(seq)],
    ),
  }
}

/** What cannot be had back is ignored: after a fail-over, another row may have the number. */
function keepNumber(prefix: string, table: Origin, scope: string): string {
  const its = (columns: string): string =>
    `(select ${columns} from ${prefix}${table} where ${ROW} and failed_seq is not null)`
  return `
update or ignore ${prefix}failed set failure_seq = coalesce(failure_seq, seq), (seq, mark) = ${its('failed_seq, failed_mark')}
where origin = '${table}' and (consumer, message_key, fingerprint) = ${its(`${scope}, message_key, fingerprint`)}`
}

/** The parameters of `FAILED_WHERE`. */
function failedParams(where: FrozenFailed): readonly Param[] {
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, since, until } = where
  const { replaced, lastFailure = null } = where
  const texts = [origin ?? null, consumer ?? null, encoded(type), reason ?? null, errorHash ?? null]
  const times = [olderThanMs ?? null, newerThanMs ?? null, since?.getTime() ?? null, until?.getTime() ?? null]
  return [...texts, ...times, replaced ? 1 : 0, lastFailure]
}
