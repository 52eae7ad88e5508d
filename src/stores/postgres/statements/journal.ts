// The journal of outside calls on PostgreSQL. A call is begun and ended only while the row of its lease is locked and still has the
// token: a process that has lost its lease writes nothing.

import type { EffectRef } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { errorJson, type JournalStatements, statement } from '../../sql/index.ts'
import { MS, SEQ } from './fragments.ts'
import { one } from './rows.ts'

/** The journal of outside calls. */
export function journal(schema: string): JournalStatements {
  // After the existing ones; writers hold the lock of the lease row.
  const place = `(select count(*) from ${schema}.effects e where e.consumer = $1::text and e.message_key = $2::uuid)`
  return {
    lock: statement(
      `
select ${SEQ('i')} as seq, e.name, e.state, e.token::text as token, e.attempts, e.result, e.error,
  ${MS('e.first_at')} as first_at, ${MS('e.last_at')} as last_at
from ${schema}.inbox i
left join ${schema}.effects e on e.consumer = $1::text and e.message_key = $2::uuid and e.name = $3::text
where i.seq = $4::bigint and i.mark = $5::bigint and i.lease_token = $6::uuid and i.fence = $7::bigint and i.held_at is null
for update of i`,
      ({ seq, token, fence }, effect) => [...ofEffect(effect), ...one(seq), token, fence],
    ),
    begin: statement(
      `
insert into ${schema}.effects (consumer, message_key, name, token, state, attempts, place)
values ($1::text, $2::uuid, $3::text, $4::uuid, 'started', 1, ${place})
on conflict (consumer, message_key, name) do update set token = excluded.token, state = 'started',
  attempts = effects.attempts + 1, last_at = clock_timestamp()`,
      (effect, token) => [...ofEffect(effect), token],
    ),
    end: statement(
      `
insert into ${schema}.effects (consumer, message_key, name, token, state, attempts, result, error, place)
values ($1::text, $2::uuid, $3::text, $4::uuid, $5::text, 1, $6::text, $7::text, ${place})
on conflict (consumer, message_key, name) do update set token = excluded.token, state = excluded.state,
  result = excluded.result, error = excluded.error, last_at = clock_timestamp()`,
      (effect, token, { state, result, error }) => [
        ...ofEffect(effect),
        token,
        state,
        result === null ? null : encodeText(result),
        error && errorJson(error),
      ],
    ),
    lockOpen: statement(
      `
select e.token::text as token, r.source, r.id, r.type from ${schema}.effects e
join ${schema}.receipts r on r.consumer = e.consumer and r.message_key = e.message_key
join ${schema}.failed f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = $1::text and e.message_key = $2::uuid and e.name = $3::text
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and $4::text = 'done')
    or (e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'))
  and f.replaced_by is null
for update of e, f`,
      (effect, { state }) => [...ofEffect(effect), state],
    ),
    lockSettled: statement(
      `
select e.token::text as token, r.source, r.id, r.type from ${schema}.inbox i
join ${schema}.effects e on e.consumer = i.consumer and e.message_key = i.message_key
join ${schema}.receipts r on r.consumer = e.consumer and r.message_key = e.message_key
where i.consumer = $1::text and i.message_key = $2::uuid and e.name = $3::text
  and e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'
  and i.held_at is null and i.lease_token is null
for update of i, e`,
      (effect) => ofEffect(effect),
    ),
    of: statement(
      `
select name, state, token::text as token, attempts, result, error, ${MS('first_at')} as first_at,
  ${MS('last_at')} as last_at
from ${schema}.effects where consumer = $1::text and message_key = $2::uuid order by place, name`,
      (consumer, messageKey) => [consumer, messageKey],
    ),
    // One lookup for each of them: as a join, it may be planned to read all receipts of the consumer, once for each effect.
    forget: statement(
      `
delete from ${schema}.effects e where e.consumer = $1::text and e.message_key > $2::uuid and e.message_key <= $3::uuid
  and (select true from ${schema}.receipts r where r.consumer = e.consumer and r.message_key = e.message_key limit 1) is null`,
      (consumer, after, until) => [consumer, after, until],
    ),
  }
}

function ofEffect({ consumer, messageKey, name }: EffectRef): readonly [string, string, string] {
  return [consumer, messageKey, encodeText(name)]
}
