// Keys that cannot run. Rows behind a message that is held, or that waits for its next attempt, would be read again by every look.
// They are put aside, out of the index that looks read, and brought forward when the row in front of them has gone.

import type { Origin } from '../../../contracts/index.ts'
import { encodeText, numberOf } from '../../../message/index.ts'
import { type AsideStatements, statement } from '../../sql/index.ts'
import { array } from '../literal.ts'

/** The statements that keep keys which cannot run out of the way. */
export function aside(schema: string, origin: Origin): AsideStatements {
  // A key is given as a range of one, and the order names it: so the index by key is the only one that has this order, and a table
  // is never walked through by seq.
  const table = `${schema}.${origin}`
  const scope = origin === 'inbox' ? 'consumer' : 'relay'
  const ordered = origin === 'inbox' ? 'i.ordered' : 'i.key is not null'
  const leased = origin === 'inbox' ? ' and i.lease_token is null' : ''
  const behindText = `
select h.seq::text as head, n.seq::text as seq from ${table} h
cross join lateral (
  select i.seq from ${table} i
  where i.${scope} = h.${scope} and i.lane = h.lane and i.key between h.key and h.key and ${ordered} and not i.aside
    and i.seq > h.seq
  order by i.key, i.seq limit $1::integer
) as n
where h.seq = any ($2::text::bigint[])`
  const nextText = `
select n.seq::text as seq
from unnest($1::text::text[], $2::text::smallint[], $3::text::text[]) as k (scope, lane, key)
cross join lateral (
  select i.seq from ${table} i
  where i.${scope} = k.scope and i.lane = k.lane and i.key between k.key and k.key and ${ordered}
    and i.aside and not i.waits and i.held_at is null
  order by i.key, i.seq limit 1
) as n`
  return {
    heads: statement(
      `
select i.seq::text as seq, i.${scope} as scope, i.lane, i.key from ${table} i
where i.seq = any ($1::text::bigint[]) and ${ordered}${leased}
  and (i.held_at is not null or i.available_at > clock_timestamp() + interval '1 second')
order by i.seq for update skip locked`,
      (seqs) => [numbers(seqs)],
    ),
    behind: (heads, limit) => [
      { text: behindText, params: [limit, numbers(heads.map((head) => String(head['seq'])))] },
    ],
    free: statement(
      `
select i.seq::text as seq from ${table} i
where i.seq = any ($1::text::bigint[]) and not i.aside order by i.seq for update skip locked`,
      (seqs) => [numbers(seqs)],
    ),
    putHeads: statement(
      `
update ${table} as i set aside = true, waits = i.held_at is null, followed = i.followed or given.followed
from (select $1::boolean as followed) as given
where i.seq = any ($2::text::bigint[]) and not (i.aside and i.followed >= given.followed)`,
      (seqs, followed) => [String(followed), numbers(seqs)],
    ),
    putBehind: statement(
      `update ${table} set aside = true, followed = true where seq = any ($1::text::bigint[])`,
      (seqs) => [numbers(seqs)],
    ),
    next: (keys) => [
      {
        text: nextText,
        params: [
          array(keys.map(({ scope }) => scope)),
          array(keys.map(({ lane }) => lane)),
          array(keys.map(({ key }) => encodeText(key))),
        ],
      },
    ],
    forward: statement(
      `
update ${table} set aside = false where seq = any ($1::text::bigint[]) and not waits and held_at is null`,
      (seqs) => [numbers(seqs)],
    ),
    forwardBehind: statement(
      `
update ${table} set aside = false where seq in (
  select n.seq from ${table} p
  cross join lateral (
    select i.seq from ${table} i
    where i.${scope} = p.${scope} and i.lane = p.lane and i.key between p.key and p.key and ${ordered}
      and i.aside and not i.waits and i.held_at is null and i.seq > p.seq
    order by i.key, i.seq limit 1
  ) as n
  where p.seq = any ($1::text::bigint[]) and p.followed)`,
      (seqs) => [numbers(seqs)],
    ),
  }
}

/** That a number is another row's by now does no harm: what it is found to be is what is put aside. */
function numbers(seqs: readonly string[]): string {
  return array(seqs.map(numberOf))
}
