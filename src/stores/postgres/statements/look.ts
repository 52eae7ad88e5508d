import type { Origin, Share, Statement } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { pageOf } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { SEQ } from './fragments.ts'

/** How many rows a look lists of the first key of a lane; of the others less and less, because there may be many. */
const RUN = 100
/** How many suspects of a lane a look lists: few of them run at once, and they must not stand in the way of the rest. */
const SUSPECTS = 10

/**
 * What waits, of all shares by one statement. A table without a share is left out of it: to plan for it would take longer
 * than to look.
 */
export function look(schema: string): (shares: readonly Share[]) => Statement {
  const texts = new Map<string, string>()
  return (shares) => {
    const having = (wanted: readonly Share[]): readonly Origin[] =>
      (['inbox', 'outbox'] as const).filter((table) => wanted.some((share) => share.table === table))
    const tables = having(shares.filter(isUsual))
    const reviewed = having(shares.filter((share) => share.all))
    const overdue = having(shares.filter((share) => !isUsual(share)))
    const name = `${tables.join()} ${reviewed.join()} ${overdue.join()}`
    const text = texts.get(name) ?? statement(schema, tables, reviewed, overdue)
    texts.set(name, text)
    const usual = tables.flatMap((table) => columns(shares, table))
    return { text, params: [...usual, ...overdue.flatMap((table) => overdueColumns(shares, table))] }
  }
}

function isUsual({ overdueMs }: Share): boolean {
  return overdueMs === undefined
}

function sharesOf(
  shares: readonly Share[],
  table: Origin,
  which: (share: Share) => boolean,
): readonly { readonly share: Share; readonly index: number }[] {
  return shares.map((share, index) => ({ share, index })).filter(({ share }) => share.table === table && which(share))
}

/** The shares of overdue rows of a table, column by column: share, scope, page, types, lanes, milliseconds. */
function overdueColumns(shares: readonly Share[], table: Origin): readonly string[] {
  const rows = sharesOf(shares, table, (share) => !isUsual(share))
  return [
    array(rows.map(({ index }) => index)),
    array(rows.map(({ share }) => share.scope)),
    array(rows.map(({ share }) => pageOf(share))),
    array(rows.map(({ share }) => array(share.types.map(encodeText)))),
    array(rows.map(({ share }) => array(share.lanes))),
    array(rows.map(({ share }) => share.overdueMs ?? 0)),
  ]
}

/**
 * The usual shares of a table, column by column: share, scope, page, types, lanes, after, all; types, lanes and after are lists as
 * texts.
 */
function columns(shares: readonly Share[], table: Origin): readonly string[] {
  const rows = sharesOf(shares, table, isUsual)
  return [
    array(rows.map(({ index }) => index)),
    array(rows.map(({ share }) => share.scope)),
    array(rows.map(({ share }) => pageOf(share))),
    array(rows.map(({ share }) => array(share.types.map(encodeText)))),
    array(rows.map(({ share }) => array(share.lanes))),
    array(rows.map(({ share }) => array(share.lanes.map((lane) => encodeText(share.after.get(lane) ?? ''))))),
    array(rows.map(({ share }) => String(share.all === true))),
  ]
}

/** A table, as the parts of a look name it. */
interface Table {
  readonly name: Origin
  readonly table: string
  readonly scope: string
  /** The rows whose key counts. */
  readonly ordered: string
  readonly starts: string
}

function statement(
  schema: string,
  tables: readonly Origin[],
  reviewed: readonly Origin[],
  overdue: readonly Origin[],
): string {
  const before = COLUMNS * tables.length
  const shares = [
    ...tables.map((table, index) => givenShares(table, COLUMNS * index)),
    ...overdue.map((table, index) => givenOverdue(table, before + OVERDUE_COLUMNS * index)),
  ]
  const inbox = {
    name: 'inbox',
    table: `${schema}.inbox`,
    scope: 'consumer',
    ordered: 'i.ordered',
    starts: 'i.starts',
  } as const
  const outbox = {
    name: 'outbox',
    table: `${schema}.outbox`,
    scope: 'relay',
    ordered: 'i.key is not null',
    starts: '0',
  } as const
  const parts = tables.flatMap((name) => {
    const table = name === 'inbox' ? inbox : outbox
    const loose = name === 'inbox' ? looseInbox(schema) : looseOutbox(schema)
    const review = reviewed.includes(name) ? [keyed(table, 's.whole', table.ordered)] : []
    return [loose, keyed(table, 'not s.whole', `${table.ordered} and not i.aside`), ...review, timed(schema, table)]
  })
  const late = overdue.map((table) => (table === 'inbox' ? overdueInbox(schema) : overdueOutbox(schema)))
  return `with ${shares.join(', ')}${[...parts, ...late].join('\nunion all')}`
}

/** Parameter counts: of the usual shares of a table, and of those of overdue rows. */
const COLUMNS = 7
const OVERDUE_COLUMNS = 6

/** The time before which a row is overdue, constant for the whole statement. */
function givenOverdue(table: Origin, before: number): string {
  const [share, scope, page, types, lanes, ms] = [1, 2, 3, 4, 5, 6].map((nth) => `$${before + nth}::text`)
  return `${table}_overdue as (
  select share, scope, page, types::text[] as types, lanes, now() - ms * interval '1 millisecond' as due
  from unnest(${share}::integer[], ${scope}::text[], ${page}::integer[], ${types}::text[], ${lanes}::text[],
    ${ms}::integer[]) as s (share, scope, page, types, lanes, ms)
  offset 0
)`
}

function givenShares(table: Origin, before: number): string {
  const [share, scope, page, types, lanes, afters, whole] = [1, 2, 3, 4, 5, 6, 7].map((nth) => `$${before + nth}::text`)
  return `${table}_share as (
  select share, scope, page, types::text[] as types, lanes, afters, whole
  from unnest(${share}::integer[], ${scope}::text[], ${page}::integer[], ${types}::text[], ${lanes}::text[],
    ${afters}::text[], ${whole}::boolean[]) as s (share, scope, page, types, lanes, afters, whole)
  offset 0
)`
}

/** Milliseconds until a row is due. Not exact numbers, as elsewhere: a look computes this for thousands of rows, and they take their time. */
const WAIT = `floor(date_part('epoch', i.available_at - now()) * 1000)::bigint`

/** Of the types of the share; '' stands for all that are not in `subscriptions`. */
const OF_TYPES = (schema: string): string => `(i.type = any (s.types) or '' = any (s.types)
    and not exists (select from ${schema}.subscriptions as u where u.consumer = i.consumer and u.type = i.type))`

/**
 * Rows without order, lane by lane through the index, so that what belongs to others costs nothing; those of a lane are one
 * row of the answer. Whether there is anything at all is asked in the order of the index: without one, a large table would be
 * scanned for it.
 */
function looseInbox(schema: string): string {
  return `
select s.share, string_agg(${SEQ('r')}, ',') as seq, r.type, l.lane, null as key, string_agg(r.bytes::text, ',') as bytes,
  string_agg(r.ms::text, ',') as ms, false as held, r.starts, false as timed
from inbox_share as s
cross join lateral (
  select from ${schema}.inbox i where i.consumer = s.scope and not i.ordered
  order by i.consumer, i.lane, i.available_at, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.mark, i.type, octet_length(i.data) as bytes, ${WAIT} as ms, 0 as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and ${OF_TYPES(schema)}
    and i.starts = 0
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.mark, i.type, octet_length(i.data), ${WAIT}, i.starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and ${OF_TYPES(schema)}
    and i.starts > 0
  order by i.available_at, i.seq limit ${SUSPECTS})
  union all
  (select i.seq, i.mark, i.type, 0, ${WAIT}, 0
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at > now() and ${OF_TYPES(schema)}
  order by i.available_at, i.seq limit 1)
) as r
group by s.share, l.lane, r.type, r.starts`
}

function looseOutbox(schema: string): string {
  return `
select s.share, string_agg(${SEQ('r')}, ',') as seq, r.type, l.lane, null as key, string_agg(r.bytes::text, ',') as bytes,
  string_agg(r.ms::text, ',') as ms, false as held, 0 as starts, false as timed
from outbox_share as s
cross join lateral (
  select from ${schema}.outbox i where i.relay = s.scope and i.key is null
  order by i.relay, i.lane, i.available_at, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.mark, i.type, octet_length(i.data) as bytes, ${WAIT} as ms
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at <= now()
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.mark, i.type, 0, ${WAIT}
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at > now()
  order by i.available_at, i.seq limit 1)
) as r
group by s.share, l.lane, r.type`
}

/** Lanes of other workers: uses the same index, whose first entry is usually not overdue. */
function overdueInbox(schema: string): string {
  return `
select s.share, string_agg(${SEQ('r')}, ',') as seq, r.type, l.lane, null as key, string_agg(r.bytes::text, ',') as bytes,
  string_agg(r.ms::text, ',') as ms, false as held, 0 as starts, false as timed
from inbox_overdue as s
cross join lateral (
  select from ${schema}.inbox i where i.consumer = s.scope and not i.ordered
  order by i.consumer, i.lane, i.available_at, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  select i.seq, i.mark, i.type, octet_length(i.data) as bytes, ${WAIT} as ms
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= s.due and ${OF_TYPES(schema)}
    and i.starts = 0
  order by i.available_at, i.seq limit s.page
) as r
group by s.share, l.lane, r.type`
}

function overdueOutbox(schema: string): string {
  return `
select s.share, string_agg(${SEQ('r')}, ',') as seq, r.type, l.lane, null as key, string_agg(r.bytes::text, ',') as bytes,
  string_agg(r.ms::text, ',') as ms, false as held, 0 as starts, false as timed
from outbox_overdue as s
cross join lateral (
  select from ${schema}.outbox i where i.relay = s.scope and i.key is null
  order by i.relay, i.lane, i.available_at, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  select i.seq, i.mark, i.type, octet_length(i.data) as bytes, ${WAIT} as ms
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at <= s.due
  order by i.available_at, i.seq limit s.page
) as r
group by s.share, l.lane, r.type`
}

/**
 * Keys are skipped through one by one, so that a million rows behind one of them cost as much as one. The rows of a key are listed
 * from its first one on, also if that stands aside. A key is given as a range of one, and the order names it: so the index by key
 * is the only one that has this order, and a table is never walked through by seq.
 */
function keyed({ name, table, scope, starts, ordered }: Table, which: string, seen: string): string {
  return `
select s.share, ${SEQ('r')} as seq, r.type, r.lane, r.key, r.bytes::text as bytes, r.ms::text as ms, r.held, r.starts, false as timed
from ${name}_share as s
cross join lateral (
  select from ${table} i where i.${scope} = s.scope and ${seen} order by i.${scope}, i.lane, i.key, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${table} i
    where i.${scope} = s.scope and i.lane = l.lane and ${seen} and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${table} i
      where i.${scope} = s.scope and i.lane = l.lane and ${seen} and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.mark, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${WAIT} as ms,
    i.held_at is not null as held, ${starts} as starts
  from ${table} i
  where i.${scope} = s.scope and i.lane = l.lane and ${ordered} and i.key between head.key and head.key
  order by i.key, i.seq limit case when head.ready then greatest(1, ${RUN} / head.rank ^ 2)::integer else 1 end
) as r
where ${which}`
}

/**
 * Keys that stand aside until their first row is due: those for which that is now, and when the next one is. Not those of types that the
 * share lacks: they would stay in front of the others.
 */
function timed(schema: string, { name, table, scope, starts, ordered }: Table): string {
  const waits = `i.waits${name === 'inbox' ? ` and ${OF_TYPES(schema)}` : ''}`
  const lanes = `
from ${name}_share as s
cross join lateral (
  select from ${table} i where i.${scope} = s.scope and i.waits order by i.${scope}, i.lane, i.available_at, i.seq limit 1
) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)`
  return `
select s.share, ${SEQ('r')} as seq, r.type, r.lane, r.key, r.bytes::text as bytes, r.ms::text as ms, r.held, r.starts, true as timed${lanes}
cross join lateral (
  select due.key, row_number() over (order by due.available_at, due.seq) as rank from (
    select i.key, i.available_at, i.seq from ${table} i
    where i.${scope} = s.scope and i.lane = l.lane and ${waits} and i.available_at <= now()
    order by i.available_at, i.seq limit s.page
  ) as due
) as head
cross join lateral (
  select i.seq, i.mark, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${WAIT} as ms,
    i.held_at is not null as held, ${starts} as starts
  from ${table} i
  where i.${scope} = s.scope and i.lane = l.lane and ${ordered} and i.key between head.key and head.key
  order by i.key, i.seq limit greatest(1, ${RUN} / head.rank ^ 2)::integer
) as r
where not s.whole
union all
select s.share, ${SEQ('r')}, r.type, l.lane, null, '0', r.ms::text, false, 0, true${lanes}
cross join lateral (
  select i.seq, i.mark, i.type, ${WAIT} as ms from ${table} i
  where i.${scope} = s.scope and i.lane = l.lane and ${waits} and i.available_at > now()
  order by i.available_at, i.seq limit 1
) as r
where not s.whole`
}
