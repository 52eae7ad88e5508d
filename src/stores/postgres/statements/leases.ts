import type { EffectRef, Lease } from '../../../contracts/index.ts'
import { encodeText, numberOf } from '../../../message/index.ts'
import { errorJson, type LeaseDialect } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { BACKEND, INBOX, LATER, MS, ROWS, SEQ } from './fragments.ts'
import { named, one } from './rows.ts'

/** The statements behind leased work. */
export function leases(schema: string): LeaseDialect {
  const sql = statements(schema)
  return {
    lockDue: (seqs, token) => ({ text: sql.lockDue, params: [...named(seqs), token] }),
    lease: (seqs, token, leaseMs) => ({ text: sql.lease, params: [token, leaseMs, ...named(seqs)] }),
    renew: (held, leaseMs) => ({ text: sql.renew, params: [leaseMs, ...arrays(held)] }),
    leased: (held) => ({ text: sql.leased, params: arrays(held) }),
    settle: ({ seq, token, fence }) => ({ text: sql.settle, params: [...one(seq), token, fence] }),

    lockEffect: ({ seq, token, fence }, effect) => ({
      text: sql.lockEffect,
      params: [...ofEffect(effect), ...one(seq), token, fence],
    }),
    beginEffect: (effect, token) => ({ text: sql.beginEffect, params: [...ofEffect(effect), token] }),
    endEffect: (effect, token, { state, result, error }) => ({
      text: sql.endEffect,
      params: [
        ...ofEffect(effect),
        token,
        state,
        result === null ? null : encodeText(result),
        error && errorJson(error),
      ],
    }),
    lockOpenEffect: (effect, { state }) => ({ text: sql.lockOpenEffect, params: [...ofEffect(effect), state] }),
    effects: (consumer, messageKey) => ({ text: sql.effects, params: [consumer, messageKey] }),
    forget: (consumer, after, until) => ({ text: sql.forget, params: [consumer, after, until] }),
  }
}

function ofEffect({ consumer, messageKey, name }: EffectRef): readonly [string, string, string] {
  return [consumer, messageKey, encodeText(name)]
}

function arrays(held: readonly Lease[]): readonly [string, string] {
  return [array(held.map(({ seq }) => numberOf(seq))), array(held.map(({ token }) => token))]
}

function statements(schema: string) {
  return {
    lockDue: `
select ${INBOX} from ${schema}.inbox
where ${ROWS('$1', '$2')} and held_at is null
  and (available_at <= clock_timestamp() or lease_token = $3::uuid)
order by inbox.seq for update skip locked`,
    lease: `
update ${schema}.inbox set lease_token = $1::uuid, fence = fence + 1, available_at = ${LATER('$2::float8')}
where ${ROWS('$3', '$4')}`,
    // What somebody has locked nobody can take either; the others do not wait for it.
    renew: `
update ${schema}.inbox set available_at = ${LATER('$1::float8')}
where seq in (
  select seq from ${schema}.inbox
  where seq = any ($2::text::bigint[]) and lease_token = any ($3::text::uuid[]) and held_at is null
  for update skip locked
)`,
    leased: `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where seq = any ($1::text::bigint[]) and lease_token = any ($2::text::uuid[]) and held_at is null`,
    settle: `
delete from ${schema}.inbox
where seq = $1::bigint and mark = $2::bigint and lease_token = $3::uuid and fence = $4::bigint and held_at is null
returning ${INBOX}, ${BACKEND}`,

    lockEffect: `
select ${SEQ('i')} as seq, e.name, e.state, e.token::text as token, e.attempts, e.result, e.error,
  ${MS('e.first_at')} as first_at, ${MS('e.last_at')} as last_at
from ${schema}.inbox i
left join ${schema}.effects e on e.consumer = $1::text and e.message_key = $2::uuid and e.name = $3::text
where i.seq = $4::bigint and i.mark = $5::bigint and i.lease_token = $6::uuid and i.fence = $7::bigint and i.held_at is null
for update of i`,
    beginEffect: `
insert into ${schema}.effects (consumer, message_key, name, token, state, attempts)
values ($1::text, $2::uuid, $3::text, $4::uuid, 'started', 1)
on conflict (consumer, message_key, name) do update set token = excluded.token, state = 'started',
  attempts = effects.attempts + 1, last_at = clock_timestamp()`,
    endEffect: `
insert into ${schema}.effects (consumer, message_key, name, token, state, attempts, result, error)
values ($1::text, $2::uuid, $3::text, $4::uuid, $5::text, 1, $6::text, $7::text)
on conflict (consumer, message_key, name) do update set token = excluded.token, state = excluded.state,
  result = excluded.result, error = excluded.error, last_at = clock_timestamp()`,
    lockOpenEffect: `
select e.token::text as token, r.source, r.id, r.type from ${schema}.effects e
join ${schema}.receipts r on r.consumer = e.consumer and r.message_key = e.message_key
join ${schema}.failed f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = $1::text and e.message_key = $2::uuid and e.name = $3::text
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and $4::text = 'done'))
  and f.replaced_by is null
for update of e, f`,
    effects: `
select name, state, token::text as token, attempts, result, error, ${MS('first_at')} as first_at,
  ${MS('last_at')} as last_at
from ${schema}.effects where consumer = $1::text and message_key = $2::uuid order by effects.first_at, name`,
    forget: `
delete from ${schema}.effects e where e.consumer = $1::text and e.message_key > $2::uuid and e.message_key <= $3::uuid
  and not exists (select from ${schema}.receipts r where r.consumer = e.consumer and r.message_key = e.message_key)`,
  } as const
}
