// The journal of outside calls on SQLite. A call is begun and ended only if the row of its lease still has the token, in one
// transaction with that check: a process that has lost its lease writes nothing.

import type { EffectRef } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { type JournalStatements, statement } from '../../sql/index.ts'
import { NAME, ROW, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'
import { one } from './rows.ts'

/** The journal of outside calls. */
export function journal(prefix: string): JournalStatements {
  const key = `unhex(?2, '-')`
  // After the existing ones.
  const place = `(select count(*) from ${prefix}effects where consumer = ?1 and message_key = ${key})`
  const [inbox, effects, receipts] = [`${prefix}inbox`, `${prefix}effects`, `${prefix}receipts`]

  return {
    lock: statement(
      `
select ${NAME('i')} as seq, e.name, e.state, e.token, e.attempts, e.result, e.error, e.first_at, e.last_at
from ${inbox} as i
left join ${effects} as e on e.consumer = ? and e.message_key = ${UUID} and e.name = ?
where ${ROW} and i.lease_token = ${UUID} and i.fence = ? and i.held_at is null`,
      ({ seq, token, fence }, effect) => [...ofEffect(effect), ...one(seq), token, fence],
    ),
    begin: statement(
      `
insert into ${effects} (consumer, message_key, name, token, state, attempts, place)
values (?1, ${key}, ?3, unhex(?4, '-'), 'started', 1, ${place})
on conflict (consumer, message_key, name) do update set token = excluded.token, state = 'started',
  attempts = attempts + 1, last_at = ${NOW}`,
      (effect, token) => [...ofEffect(effect), token],
    ),
    end: statement(
      `
insert into ${effects} (consumer, message_key, name, token, state, attempts, result, error, place)
values (?1, ${key}, ?3, unhex(?4, '-'), ?5, 1, ?6, ?7, ${place})
on conflict (consumer, message_key, name) do update set token = excluded.token, state = excluded.state,
  result = excluded.result, error = excluded.error, last_at = ${NOW}`,
      (effect, token, { state, result, error }) => [
        ...ofEffect(effect),
        token,
        state,
        result === null ? null : encodeText(result),
        error && JSON.stringify(error),
      ],
    ),
    lockOpen: statement(
      `
select e.token, r.source, r.id, r.type from ${effects} as e
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
join ${prefix}failed as f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = ? and e.message_key = ${UUID} and e.name = ?
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and ? = 'done')
    or (e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'))
  and f.replaced_by is null`,
      (effect, { state }) => [...ofEffect(effect), state],
    ),
    lockSettled: statement(
      `
select e.token, r.source, r.id, r.type from ${prefix}inbox as i
join ${effects} as e on e.consumer = i.consumer and e.message_key = i.message_key
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
where i.consumer = ? and i.message_key = ${UUID} and e.name = ?
  and e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'
  and i.held_at is null and i.lease_token is null`,
      (effect) => ofEffect(effect),
    ),
    of: statement(
      `
select name, state, token, attempts, result, error, first_at, last_at from ${effects}
where consumer = ? and message_key = ${UUID} order by place, name`,
      (consumer, messageKey) => [consumer, messageKey],
    ),
    forget: statement(
      `
delete from ${effects} as e where e.consumer = ? and e.message_key > ${UUID} and e.message_key <= ${UUID}
  and not exists (select 1 from ${receipts} as r where r.consumer = e.consumer and r.message_key = e.message_key)`,
      (consumer, after, until) => [consumer, after, until],
    ),
  }
}

function ofEffect({ consumer, messageKey, name }: EffectRef): readonly [string, string, string] {
  return [consumer, messageKey, encodeText(name)]
}
