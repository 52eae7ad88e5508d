import type { Statement } from '../../core/connection.ts'
import { encodeText, pageOf } from '../../core/sql/index.ts'
import type { Share } from '../../core/store.ts'
import { MS } from './fragments.ts'
import { array } from './literal.ts'

/** How many rows a look lists of the first key of a lane; of the others less and less, because there may be many. */
const RUN = 100
/** How many suspects of a lane a look lists: they run one after the other, and must not stand in the way of the rest. */
const SUSPECTS = 2

/** What waits, of all shares by one statement. */
export function look(schema: string): (shares: readonly Share[]) => Statement {
  const text = statement(schema)
  return (shares) => ({ text, params: [...columns(shares, 'inbox'), ...columns(shares, 'outbox')] })
}

/** The shares of a table, column by column: share, scope, page, types, lanes, after; the last three are lists as texts. */
function columns(shares: readonly Share[], table: Share['table']): readonly string[] {
  const rows = shares.map((share, index) => ({ share, index })).filter(({ share }) => share.table === table)
  return [
    array(rows.map(({ index }) => index)),
    array(rows.map(({ share }) => share.scope)),
    array(rows.map(({ share }) => pageOf(share))),
    array(rows.map(({ share }) => array(share.types.map(encodeText)))),
    array(rows.map(({ share }) => array(share.lanes))),
    array(rows.map(({ share }) => array(share.lanes.map((lane) => encodeText(share.after.get(lane) ?? ''))))),
  ]
}

/**
 * Lane by lane through the index, so that what belongs to others costs nothing, and not at all where nothing waits;
 * keys are skipped through one by one, so that a million rows behind one of them cost as much as one. A relay may have
 * thousands of rows without a key at once: those of a lane are one row of the answer.
 */
function statement(schema: string): string {
  return `
with inbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($1::text::integer[], $2::text::text[], $3::text::integer[], $4::text::text[],
    $5::text::text[], $6::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
), outbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($7::text::integer[], $8::text::text[], $9::text::integer[], $10::text::text[],
    $11::text::text[], $12::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
)
select s.share, r.seq::text as seq, r.type, r.lane, null as key, r.bytes::text as bytes, r.ms::text as ms, false as held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and not i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, i.lane, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts = 0
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, i.lane, octet_length(i.data), ${MS('i.available_at - now()')}, i.starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts > 0
  order by i.available_at, i.seq limit ${SUSPECTS})
  union all
  (select i.seq, i.type, i.lane, 0, ${MS('i.available_at - now()')}, 0
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at > now() and i.type = any (s.types)
  order by i.available_at, i.seq limit 1)
) as r
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes::text, r.ms::text, r.held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.inbox i
    where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.inbox i
      where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms,
    i.held_at is not null as held, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN} / head.rank ^ 2)::integer else 1 end
) as r
union all
select s.share, string_agg(r.seq::text, ','), r.type, l.lane, null, string_agg(r.bytes::text, ','), string_agg(r.ms::text, ','), false, 0
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is null limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at <= now()
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, 0, ${MS('i.available_at - now()')}
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at > now()
  order by i.available_at, i.seq limit 1)
) as r
group by s.share, l.lane, r.type
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes::text, r.ms::text, r.held, r.starts
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is not null limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.outbox i
    where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.outbox i
      where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms,
    i.held_at is not null as held, 0 as starts
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN} / head.rank ^ 2)::integer else 1 end
) as r`
}
