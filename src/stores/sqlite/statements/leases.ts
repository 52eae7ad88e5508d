import type { EffectRef, Lease } from '../../../contracts/index.ts'
import { encodeText, numberOf } from '../../../message/index.ts'
import type { LeaseDialect } from '../../sql/index.ts'
import { INBOX, LATER, NAME, ROW, ROWS, SEQ, SEQS, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'
import { named, one } from './rows.ts'

const UUIDS = `(select unhex(value, '-') from json_each(?))`

/** The statements behind leased work. Whoever runs one inside a transaction holds the only write lock. */
export function leases(prefix: string): LeaseDialect {
  const sql = statements(prefix)
  return {
    lockDue: (seqs, token) => ({ text: sql.lockDue, params: [...named(seqs), token] }),
    lease: (seqs, token, leaseMs) => ({ text: sql.lease, params: [token, leaseMs, ...named(seqs)] }),
    renew: (held, leaseMs) => ({ text: sql.renew, params: [leaseMs, ...lists(held)] }),
    leased: (held) => ({ text: sql.leased, params: lists(held) }),
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
        error && JSON.stringify(error),
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

function lists(held: readonly Lease[]): readonly [string, string] {
  return [JSON.stringify(held.map(({ seq }) => numberOf(seq))), JSON.stringify(held.map(({ token }) => token))]
}

function statements(prefix: string) {
  const [inbox, effects, receipts] = [`${prefix}inbox`, `${prefix}effects`, `${prefix}receipts`]
  return {
    lockDue: `
select ${INBOX} from ${inbox} as i
where ${ROWS} and i.held_at is null and (i.available_at <= ${NOW} or i.lease_token = ${UUID})
order by i.seq`,
    lease: `
update ${inbox} set lease_token = ${UUID}, fence = fence + 1, available_at = ${LATER} where ${ROWS}`,
    renew: `
update ${inbox} set available_at = ${LATER} where seq in ${SEQS} and lease_token in ${UUIDS} and held_at is null`,
    leased: `select ${SEQ} from ${inbox} where seq in ${SEQS} and lease_token in ${UUIDS} and held_at is null`,
    settle: `
delete from ${inbox} where ${ROW} and lease_token = ${UUID} and fence = ? and held_at is null returning ${INBOX}`,

    lockEffect: `
select ${NAME('i')} as seq, e.name, e.state, e.token, e.attempts, e.result, e.error, e.first_at, e.last_at
from ${inbox} as i
left join ${effects} as e on e.consumer = ? and e.message_key = ${UUID} and e.name = ?
where ${ROW} and i.lease_token = ${UUID} and i.fence = ? and i.held_at is null`,
    beginEffect: `
insert into ${effects} (consumer, message_key, name, token, state, attempts)
values (?, ${UUID}, ?, ${UUID}, 'started', 1)
on conflict (consumer, message_key, name) do update set token = excluded.token, state = 'started',
  attempts = attempts + 1, last_at = ${NOW}`,
    endEffect: `
insert into ${effects} (consumer, message_key, name, token, state, attempts, result, error)
values (?, ${UUID}, ?, ${UUID}, ?, 1, ?, ?)
on conflict (consumer, message_key, name) do update set token = excluded.token, state = excluded.state,
  result = excluded.result, error = excluded.error, last_at = ${NOW}`,
    lockOpenEffect: `
select e.token, r.source, r.id, r.type from ${effects} as e
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
join ${prefix}failed as f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = ? and e.message_key = ${UUID} and e.name = ?
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and ? = 'done'))
  and f.replaced_by is null`,
    effects: `
select name, state, token, attempts, result, error, first_at, last_at from ${effects}
where consumer = ? and message_key = ${UUID} order by first_at, name`,
    forget: `
delete from ${effects} as e where e.consumer = ? and e.message_key > ${UUID} and e.message_key <= ${UUID}
  and not exists (select 1 from ${receipts} as r where r.consumer = e.consumer and r.message_key = e.message_key)`,
  } as const
}
