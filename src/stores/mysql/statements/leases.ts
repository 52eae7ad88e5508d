import type { EffectRef, Lease, Param } from '../../../contracts/index.ts'
import { type LeaseDialect, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, INBOX, LATER, LINK, MANY, MS, NAME, NOW, ROW, ROWS } from './fragments.ts'
import { bytes, microseconds, named, one, text } from './rows.ts'

/** The statements behind leased work. */
export function leases(prefix: string): LeaseDialect {
  const sql = statements(prefix)
  return {
    lockDue: (seqs, token) => ({ text: sql.lockDue, params: [named(seqs), uuidBytes(token)] }),
    lease: (seqs, token, leaseMs) => ({
      text: sql.lease,
      params: [named(seqs), uuidBytes(token), microseconds(leaseMs)],
    }),
    renewable: (held) => ({ text: sql.renewable(held.length), params: both(held) }),
    renew: (held, leaseMs) => ({ text: sql.renew(held.length), params: renewing(held, leaseMs) }),
    leased: (held) => ({ text: sql.leased(held.length), params: both(held) }),
    settle: ({ seq, token, fence }) => ({ text: sql.settle, params: [...one(seq), uuidBytes(token), fence] }),

    lockEffect: ({ seq, token, fence }, effect) => ({
      text: sql.lockEffect,
      params: [...ofEffect(effect), ...one(seq), uuidBytes(token), fence],
    }),
    beginEffect: (effect, token) => ({ text: sql.beginEffect, params: [...ofEffect(effect), uuidBytes(token)] }),
    endEffect: (effect, token, { state, result, error }) => ({
      text: sql.endEffect,
      params: [
        ...ofEffect(effect),
        uuidBytes(token),
        bytes(state),
        result === null ? null : text(result),
        error && bytes(JSON.stringify(error)),
      ],
    }),
    lockOpenEffect: (effect, { state }) => ({ text: sql.lockOpenEffect, params: [...ofEffect(effect), state] }),
    effects: (consumer, messageKey) => ({ text: sql.effects, params: [bytes(consumer), uuidBytes(messageKey)] }),
    forget: (consumer, after, until) => ({
      text: sql.forget,
      params: [bytes(consumer), uuidBytes(after), uuidBytes(until)],
    }),
  }
}

function ofEffect({ consumer, messageKey, name }: EffectRef): readonly Param[] {
  return [bytes(consumer), uuidBytes(messageKey), text(name)]
}

function both(held: readonly Lease[]): readonly Param[] {
  return [named(held.map(({ seq }) => seq)), ...held.map(({ token }) => uuidBytes(token))]
}

function renewing(held: readonly Lease[], leaseMs: number): readonly Param[] {
  const [rows = null, ...tokens] = both(held)
  return [rows, microseconds(leaseMs), ...tokens]
}

function statements(prefix: string) {
  const [inbox, effects, receipts] = [`${prefix}inbox`, `${prefix}effects`, `${prefix}receipts`]
  const failed = `${prefix}failed`
  return {
    // Rows that are gone are left out before anything is locked, as for a claim.
    lockDue: `
select ${INBOX}
from (select m.seq from ${ROWS(inbox)} limit 1000000) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is null and (m.available_at <= ${NOW} or m.lease_token = ?) order by m.seq for update skip locked`,
    lease: `
update ${ROWS(inbox)} set m.lease_token = ?, m.fence = m.fence + 1, m.available_at = ${LATER}`,
    renewable: (count: number) => `
select ${NAME()} as seq from ${ROWS(inbox)}
where m.lease_token in (${MANY(count)}) and m.held_at is null for update skip locked`,
    renew: (count: number) => `
update ${ROWS(inbox)} set m.available_at = ${LATER}
where m.lease_token in (${MANY(count)}) and m.held_at is null`,
    leased: (count: number) => `
select ${NAME()} as seq from ${ROWS(inbox)}
where m.lease_token in (${MANY(count)}) and m.held_at is null`,
    settle: `
select ${INBOX}, ${LINK} from ${inbox} as m ${BY_KEY}
where ${ROW} and m.lease_token = ? and m.fence = ? and m.held_at is null for update`,

    // The effect is read inside a derived table, which is not locked: the lock of one that is absent would be that of a gap.
    lockEffect: `
select ${NAME()} as seq, e.name, e.state, e.token, e.attempts, e.result, e.error, e.first_at, e.last_at
from ${inbox} as m ${BY_KEY}
left join (
  select name, state, token, attempts, result, error, ${MS('first_at')} as first_at, ${MS('last_at')} as last_at
  from ${effects} where consumer = ? and message_key = ? and name = ? limit 1
) as e on true
where ${ROW} and m.lease_token = ? and m.fence = ? and m.held_at is null for update`,
    beginEffect: `
insert into ${effects} (consumer, message_key, name, token, state, attempts, first_at, last_at)
values (?, ?, ?, ?, 'started', 1, ${NOW}, ${NOW})
on duplicate key update token = values(token), state = 'started', attempts = attempts + 1, last_at = ${NOW}`,
    endEffect: `
insert into ${effects} (consumer, message_key, name, token, state, result, error, attempts, first_at, last_at)
values (?, ?, ?, ?, ?, ?, ?, 1, ${NOW}, ${NOW})
on duplicate key update token = values(token), state = values(state), result = values(result), error = values(error),
  last_at = ${NOW}`,
    lockOpenEffect: `
select e.token, r.source, r.id, r.type from ${effects} as e
join ${receipts} as r on r.consumer = e.consumer and r.message_key = e.message_key
join ${failed} as f on f.consumer = e.consumer and f.message_key = e.message_key and f.origin = 'inbox'
where e.consumer = ? and e.message_key = ? and e.name = ?
  and (e.state in ('started', 'unknown') or (e.state = 'done' and e.result is null and ? = 'done'))
  and f.replaced_by is null for update`,
    effects: `
select name, state, token, attempts, result, error, ${MS('first_at')} as first_at, ${MS('last_at')} as last_at
from ${effects} where consumer = ? and message_key = ? order by ${effects}.first_at, name`,
    forget: `
delete e from ${effects} as e where e.consumer = ? and e.message_key > ? and e.message_key <= ?
  and not exists (select 1 from ${receipts} as r where r.consumer = e.consumer and r.message_key = e.message_key)`,
  } as const
}
