import type { Origin } from '../../../contracts/index.ts'
import { encodeText, numberOf } from '../../../message/index.ts'
import type { AsideDialect } from '../../sql/index.ts'
import { SEQS } from './fragments.ts'
import { NOW } from './migrations.ts'

/** The statements that keep keys which cannot run out of the way. The transaction holds the only write lock. */
export function aside(prefix: string): AsideDialect {
  const sql = { inbox: statements(`${prefix}inbox`, 'inbox'), outbox: statements(`${prefix}outbox`, 'outbox') }
  return {
    heads: (table, seqs) => ({ text: sql[table].heads, params: [numbers(seqs)] }),
    behind: (table, heads, limit) => [
      { text: sql[table].behind, params: [limit, numbers(heads.map((head) => String(head['seq'])))] },
    ],
    free: (table, seqs) => ({ text: sql[table].free, params: [numbers(seqs)] }),
    putHeads: (table, seqs, followed) => ({
      text: sql[table].putHeads,
      params: [Number(followed), numbers(seqs)],
    }),
    putBehind: (table, seqs) => ({ text: sql[table].putBehind, params: [numbers(seqs)] }),
    next: (table, keys) => [
      {
        text: sql[table].next,
        params: [JSON.stringify(keys.map(({ scope, lane, key }) => ({ scope, lane, key: encodeText(key) })))],
      },
    ],
    forward: (table, seqs) => ({ text: sql[table].forward, params: [numbers(seqs)] }),
    forwardBehind: (table, seqs) => ({ text: sql[table].forwardBehind, params: [numbers(seqs)] }),
  }
}

/** That a number is another row's by now does no harm: what it is found to be is what is put aside. */
function numbers(seqs: readonly string[]): string {
  return JSON.stringify(seqs.map(numberOf))
}

function statements(table: string, origin: Origin) {
  const scope = origin === 'inbox' ? 'consumer' : 'relay'
  const ordered = (row: string): string => (origin === 'inbox' ? `${row}.ordered = 1` : `${row}.key is not null`)
  const leased = origin === 'inbox' ? ' and i.lease_token is null' : ''
  return {
    heads: `
select cast(i.seq as text) as seq, i.${scope} as scope, i.lane, i.key from ${table} as i
where i.seq in ${SEQS} and ${ordered('i')}${leased} and (i.held_at is not null or i.available_at > ${NOW} + 1000)`,
    behind: `
with given (most) as (values (cast(? as integer)))
select cast(h.seq as text) as head, cast(i.seq as text) as seq
from ${table} as h join ${table} as i on i.seq in (
  select n.seq from ${table} as n
  where ${ordered('n')} and n.aside = 0 and n.${scope} = h.${scope} and n.lane = h.lane and n.key = h.key and n.seq > h.seq
  order by n.seq limit (select most from given))
where h.seq in ${SEQS}`,
    free: `select cast(i.seq as text) as seq from ${table} as i where i.seq in ${SEQS} and i.aside = 0`,
    putHeads: `
update ${table} as i set aside = 1, waits = i.held_at is null, followed = max(i.followed, given.followed)
from (select cast(? as integer) as followed) as given
where i.seq in ${SEQS} and not (i.aside = 1 and i.followed >= given.followed)`,
    putBehind: `update ${table} set aside = 1, followed = 1 where seq in ${SEQS}`,
    next: `
select cast(i.seq as text) as seq from json_each(?) as k join ${table} as i on i.seq = (
  select n.seq from ${table} as n
  where ${ordered('n')} and n.${scope} = k.value ->> 'scope' and n.lane = k.value ->> 'lane' and n.key = k.value ->> 'key'
    and n.aside = 1 and n.waits = 0 and n.held_at is null
  order by n.seq limit 1)`,
    forward: `update ${table} set aside = 0 where seq in ${SEQS} and waits = 0 and held_at is null`,
    forwardBehind: `
update ${table} set aside = 0 where seq in (
  select (
    select n.seq from ${table} as n
    where ${ordered('n')} and n.${scope} = p.${scope} and n.lane = p.lane and n.key = p.key
      and n.aside = 1 and n.waits = 0 and n.held_at is null and n.seq > p.seq
    order by n.seq limit 1)
  from ${table} as p where p.seq in ${SEQS} and p.followed = 1)`,
  } as const
}
