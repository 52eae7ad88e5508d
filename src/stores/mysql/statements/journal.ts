// The journal of outside calls on MariaDB and MySQL. A call is begun and ended only while the row of its lease is locked and still
// has the token: a process that has lost its lease writes nothing.

import type { EffectRef, Param } from '../../../contracts/index.ts'
import { type JournalStatements, statement, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, MS, NAME, NOW, ROW, tables } from './fragments.ts'
import { bytes, one, text } from './rows.ts'

/** The journal of outside calls. */
export function journal(prefix: string): JournalStatements {
  const { receipts, inbox, failed, effects } = tables(prefix)
  // After the existing ones; writers hold the lock of the lease row. MySQL reads the table that it writes only as a derived one.
  const place = `(select count(*) from (select name from ${effects} where consumer = ? and message_key = ?) as others)`

  return {
    // The effect is read inside a derived table, which is not locked: the lock of one that is absent would be that of a gap.
    lock: statement(
      `
select ${NAME()} as seq, e.name, e.state, e.token, e.attempts, e.result, e.error, e.first_at, e.last_at
from ${inbox} as m ${BY_KEY}
left join (
  select name, state, token, attempts, result, error, ${MS('first_at')} as first_at, ${MS('last_at')} as last_at
  from ${effects} where consumer = ? and message_key = ? and name = ? limit 1
) as e on true
where ${ROW} and m.lease_token = ? and m.fence = ? and m.held_at is null for update`,
      ({ seq, token, fence }, effect) => [...ofEffect(effect), ...one(seq), uuidBytes(token), fence],
    ),
    begin: statement(
      `
insert into ${effects} (consumer, message_key, name, token, state, attempts, first_at, last_at, place)
values (?, ?, ?, ?, 'started', 1, ${NOW}, ${NOW}, ${place})
on duplicate key update token = values(token), state = 'started', attempts = attempts + 1, last_at = ${NOW}`,
      (effect, token) => [...ofEffect(effect), uuidBytes(token), ...ofMessage(effect)],
    ),
    end: statement(
      `
insert into ${effects} (consumer, message_key, name, token, state, result, error, attempts, first_at, last_at, place)
values (?, ?, ?, ?, ?, ?, ?, 1, ${NOW}, ${NOW}, ${place})
on duplicate key update token = values(token), state = values(state), result = values(result), error = values(error),
  last_at = ${NOW}`,
      (effect, token, { state, result, error }) => [
        ...ofEffect(effect),
        uuidBytes(token),
        bytes(state),
        result === null ? null : text(result),
        error && bytes(JSON.stringify(error)),
        ...ofMessage(effect),
      ],
    ),
    lockOpen: statement(
      `
select e.token, r.source, r.id, r.type from ${effects} as e
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
join ${failed} as f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = ? and e.message_key = ? and e.name = ?
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and ? = 'done')
    or (e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'))
  and f.replaced_by is null for update`,
      (effect, { state }) => [...ofEffect(effect), state],
    ),
    lockSettled: statement(
      `
select e.token, r.source, r.id, r.type from ${inbox} as i
straight_join ${effects} as e on e.consumer = i.consumer and e.message_key = i.message_key
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
where i.consumer = ? and i.message_key = ? and e.name = ?
  and e.state in ('done', 'not-done') and e.error like '{"name":"Settled"%'
  and i.held_at is null and i.lease_token is null for update`,
      (effect) => ofEffect(effect),
    ),
    of: statement(
      `
select name, state, token, attempts, result, error, ${MS('first_at')} as first_at, ${MS('last_at')} as last_at
from ${effects} where consumer = ? and message_key = ? order by place, name`,
      (consumer, messageKey) => [bytes(consumer), uuidBytes(messageKey)],
    ),
    forget: statement(
      `
delete e from ${effects} as e where e.consumer = ? and e.message_key > ? and e.message_key <= ?
  and not exists (select 1 from ${receipts} as r where r.consumer = e.consumer and r.message_key = e.message_key)`,
      (consumer, after, until) => [bytes(consumer), uuidBytes(after), uuidBytes(until)],
    ),
  }
}

function ofEffect(effect: EffectRef): readonly Param[] {
  return [...ofMessage(effect), text(effect.name)]
}

function ofMessage({ consumer, messageKey }: EffectRef): readonly Param[] {
  return [bytes(consumer), uuidBytes(messageKey)]
}
