import type { Origin, Row, Share } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { type Dialect, pageOf, type Query } from '../../sql/index.ts'
import { NAME } from './fragments.ts'
import { NOW } from './migrations.ts'

/** What waits. One statement for each share: there is no round trip to save. */
export function look(prefix: string): Dialect['look'] {
  const texts = { inbox: lookTexts(prefix, 'inbox'), outbox: lookTexts(prefix, 'outbox') }
  return async (query, shares) => {
    const rows: Row[] = []
    for (const [index, share] of shares.entries()) rows.push(...(await lookAt(texts[share.table], query, share, index)))
    return { rows, affected: rows.length }
  }
}

async function lookAt(texts: LookTexts, query: Query, share: Share, index: number): Promise<readonly Row[]> {
  const { scope, types, lanes, after, all = false } = share
  const page = pageOf(share)
  if (share.overdueMs !== undefined) {
    const params = [index, JSON.stringify(lanes), scope, page, JSON.stringify(types.map(encodeText)), share.overdueMs]
    return (await query({ text: texts.overdue, params })).rows
  }
  const from = lanes.map((lane) => ({ lane, after: encodeText(after.get(lane) ?? '') }))
  const which = [index, JSON.stringify(from), scope]
  const text = texts[all ? 'all' : 'front']
  const answer = await query({ text, params: [...which, page, JSON.stringify(types.map(encodeText))] })
  return answer.rows
}

/** A look at one share: without the keys that stand aside, or at all of them. */
interface LookTexts {
  readonly front: string
  readonly all: string
  /** Only overdue rows without order. */
  readonly overdue: string
}

/** How many rows of one key a look lists at most. */
const RUN = 100
const LAST = '9223372036854775807'
const READY = `i.held_at is null and i.available_at <= ${NOW}`

function lookTexts(prefix: string, origin: Origin): LookTexts {
  return {
    front: lookText(prefix, origin, false),
    all: lookText(prefix, origin, true),
    overdue: overdueText(prefix, origin),
  }
}

/** Rows without order: those of one lane, in the order of the index. */
function looseRows(prefix: string, origin: Origin): string {
  return origin === 'inbox'
    ? `n.ordered = 0 and n.consumer = ?3 and n.lane = lane.lane and ${ofTypes(prefix, 'n')}`
    : `n.key is null and n.relay = ?3 and n.lane = lane.lane and ?5 is not null`
}

/** Parameters: 1 share, 2 lanes, 3 scope, 4 page, 5 types, 6 milliseconds. */
function overdueText(prefix: string, origin: Origin): string {
  const table = `${prefix}${origin}`
  return `
with lane (lane) as materialized (select value from json_each(?2))
select ?1 as share, ${NAME('i')} as seq, i.type, i.lane, null as key, length(i.data) as bytes,
  i.available_at - ${NOW} as ms, 0 as held, 0 as starts, 0 as timed
from lane join ${table} as i on i.seq in (
  select n.seq from ${table} as n where ${looseRows(prefix, origin)} and n.available_at <= ${NOW} - ?6
  ${origin === 'inbox' ? 'and n.starts = 0' : ''} order by n.available_at, n.seq limit ?4)`
}

/**
 * Lane by lane through the index, so that what belongs to others costs nothing; keys are skipped through one by one, so
 * that a million rows behind one of them cost as much as one. Which share: 1, lanes: 2, scope: 3, page: 4, types: 5.
 */
function lookText(prefix: string, origin: Origin, all: boolean): string {
  const table = `${prefix}${origin}`
  const inbox = origin === 'inbox'
  const scope = inbox ? 'consumer' : 'relay'
  const loose = looseRows(prefix, origin)
  const keyed = inbox ? `n.ordered = 1 and n.consumer = ?3` : `n.key is not null and n.relay = ?3`
  const seen = all ? keyed : `${keyed} and n.aside = 0`
  const starts = inbox ? 'i.starts' : '0'
  const run = `
select ?1, ${NAME('i')}, i.type, i.lane, i.key, length(i.data), i.available_at - ${NOW}, i.held_at is not null, ${starts}`
  return `
with recursive lane (lane, after) as materialized (
  select value ->> 'lane', value ->> 'after' from json_each(?2)
), head (lane, seq, key, ready, nth) as (
  select i.lane, i.seq, i.key, ${READY}, 1
  from lane join ${table} as i on i.seq = (
    select n.seq from ${table} as n where ${seen} and n.lane = lane.lane and n.key > lane.after
    order by n.key, n.seq limit 1)
  union all
  select i.lane, i.seq, i.key, ${READY}, head.nth + 1
  from head join ${table} as i on i.seq = (
    select n.seq from ${table} as n where ${seen} and n.lane = head.lane and n.key > head.key
    order by n.key, n.seq limit 1)
  where head.nth < ?4
)
select ?1 as share, ${NAME('i')} as seq, i.type, i.lane, null as key, length(i.data) as bytes,
  i.available_at - ${NOW} as ms, 0 as held, ${starts} as starts, 0 as timed
from lane join ${table} as i on i.seq in (
  select n.seq from ${table} as n where ${loose} and n.available_at <= ${NOW}
  order by n.available_at, n.seq limit ?4)
union all
select ?1, ${NAME('i')}, i.type, i.lane, null, 0, i.available_at - ${NOW}, 0, 0, 0
from lane join ${table} as i on i.seq = (
  select n.seq from ${table} as n where ${loose} and n.available_at > ${NOW}
  order by n.available_at, n.seq limit 1)
union all${run}, 0
from head join ${table} as i on i.seq in (
  select n.seq from ${table} as n where ${keyed} and n.lane = head.lane and n.key = head.key
    and n.seq <= iif(head.ready, ${LAST}, head.seq)
  order by n.seq limit ${RUN})${all ? '' : timed(prefix, table, scope, keyed, run)}`
}

/** Of the types of the share; '' stands for all that are not in `subscriptions`. */
function ofTypes(prefix: string, row: string): string {
  return `(${row}.type in (select value from json_each(?5)) or '' in (select value from json_each(?5))
    and ${row}.type not in (select s.type from ${prefix}subscriptions as s where s.consumer = ?3))`
}

/**
 * Keys that stand aside until their first row is due: those for which that is now, and when the next one is. Not those of types that the
 * share lacks: they would stay in front of the others.
 */
function timed(prefix: string, table: string, scope: string, keyed: string, run: string): string {
  const types = scope === 'consumer' ? ` and ${ofTypes(prefix, 'w')}` : ''
  const waits = `w.waits = 1 and w.${scope} = ?3 and w.lane = lane.lane${types}`
  return `
union all${run}, 1
from lane join ${table} as h on h.seq in (
  select w.seq from ${table} as w where ${waits} and w.available_at <= ${NOW}
  order by w.available_at, w.seq limit ?4)
join ${table} as i on i.seq in (
  select n.seq from ${table} as n where ${keyed} and n.lane = h.lane and n.key = h.key order by n.seq limit ${RUN})
union all
select ?1, ${NAME('i')}, i.type, i.lane, null, 0, i.available_at - ${NOW}, 0, 0, 1
from lane join ${table} as i on i.seq = (
  select w.seq from ${table} as w where ${waits} and w.available_at > ${NOW}
  order by w.available_at, w.seq limit 1)`
}
