// Keys that cannot run. Rows behind a message that is held, or that waits for its next attempt, would be read again by every look.
// They are put aside, out of the index that looks read, and brought forward when the row in front of them has gone.

import type { Origin } from '../../../contracts/index.ts'
import { encodeText, numberOf } from '../../../message/index.ts'
import { type AsideStatements, statement } from '../../sql/index.ts'
import { SEQS } from './fragments.ts'
import { NOW } from './migrations.ts'

/** The statements that keep keys which cannot run out of the way. The transaction holds the only write lock. */
export function aside(prefix: string, origin: Origin): AsideStatements {
  const table = `${prefix}${origin}`
  const scope = origin === 'inbox' ? 'consumer' : 'relay'
  const ordered = (row: string): string => (origin === 'inbox' ? `${row}.ordered = 1` : `${row}.key is not null`)
  const leased = origin === 'inbox' ? ' and i.lease_token is null' : ''
  const behindText = `
with given (most) as (values (cast(? as integer)))
select cast(h.seq as text) as head, cast(i.seq as text) as seq
from ${table} as h join ${table} as i on i.seq in (
  select n.seq from ${table} as n
  where ${ordered('n')} and n.aside = 0 and n.${scope} = h.${scope} and n.lane = h.lane and n.key = h.key and n.seq > h.seq
  order by n.seq limit (select most from given))
where h.seq in ${SEQS}`
  const nextText = `
select cast(i.seq as text) as seq from json_each(?) as k join ${table} as i on i.seq = (
  select n.seq from ${table} as n
  where ${ordered('n')} and n.${scope} = k.value ->> 'scope' and n.lane = k.value ->> 'lane' and n.key = k.value ->> 'key'
    and n.aside = 1 and n.waits = 0 and n.held_at is null
  order by n.seq limit 1)`
  return {
    heads: statement(
      `
select cast(i.seq as text) as seq, i.${scope} as scope, i.lane, i.key from ${table} as i
where i.seq in ${SEQS} and ${ordered('i')}${leased} and (i.held_at is not null or i.available_at > ${NOW} + 1000)`,
      (seqs) => [numbers(seqs)],
    ),
    behind: (heads, limit) => [
      { text: behindText, params: [limit, numbers(heads.map((head) => String(head['seq'])))] },
    ],
    free: statement(
      `select cast(i.seq as text) as seq from ${table} as i where i.seq in ${SEQS} and i.aside = 0`,
      (seqs) => [numbers(seqs)],
    ),
    putHeads: statement(
      `
update ${table} as i set aside = 1, waits = i.held_at is null, followed = max(i.followed, given.followed)
from (select cast(? as integer) as followed) as given
where i.seq in ${SEQS} and not (i.aside = 1 and i.followed >= given.followed)`,
      (seqs, followed) => [Number(followed), numbers(seqs)],
    ),
    putBehind: statement(`update ${table} set aside = 1, followed = 1 where seq in ${SEQS}`, (seqs) => [numbers(seqs)]),
    next: (keys) => [
      {
        text: nextText,
        params: [JSON.stringify(keys.map(({ scope, lane, key }) => ({ scope, lane, key: encodeText(key) })))],
      },
    ],
    forward: statement(
      `update ${table} set aside = 0 where seq in ${SEQS} and waits = 0 and held_at is null`,
      (seqs) => [numbers(seqs)],
    ),
    forwardBehind: statement(
      `
update ${table} set aside = 0 where seq in (
  select (
    select n.seq from ${table} as n
    where ${ordered('n')} and n.${scope} = p.${scope} and n.lane = p.lane and n.key = p.key
      and n.aside = 1 and n.waits = 0 and n.held_at is null and n.seq > p.seq
    order by n.seq limit 1)
  from ${table} as p where p.seq in ${SEQS} and p.followed = 1)`,
      (seqs) => [numbers(seqs)],
    ),
  }
}

/** That a number is another row's by now does no harm: what it is found to be is what is put aside. */
function numbers(seqs: readonly string[]): string {
  return JSON.stringify(seqs.map(numberOf))
}
