// What waits, found by indexes alone. SQLite keeps no statistics of its own accord: what is too much to count is estimated from a sample.

import type { Origin } from '../../../contracts/index.ts'
import { COUNTED, plain, SAMPLED, type StatusStatements } from '../../sql/index.ts'
import { NOW } from './migrations.ts'

/** A table of messages. */
interface Queue {
  readonly name: Origin
  readonly table: string
  readonly scope: string
  readonly loose: string
  readonly keyed: string
}

/** How much there is. */
export function status(prefix: string): StatusStatements {
  const queues: readonly Queue[] = [
    { name: 'inbox', table: `${prefix}inbox`, scope: 'consumer', loose: 'i.ordered = 0', keyed: 'i.ordered = 1' },
    { name: 'outbox', table: `${prefix}outbox`, scope: 'relay', loose: 'i.key is null', keyed: 'i.key is not null' },
  ]
  const receipts = scopesOf('receipt_scope', `${prefix}receipts as i`, 'consumer', 'true')
  const failed = `${prefix}failed`
  const look = plain(`
with recursive lane (lane) as (select 0 union all select lane + 1 from lane where lane < 63),
${[...queues.flatMap(queueScopes), receipts, failedGroups(prefix), ...queues.flatMap(sampleOf), ...sampleOf({ name: 'failed', table: failed, scope: 'consumer' })].join(', ')}
select 'clock' as what, null as place, null as scope, null as name, null as n, ${NOW} as at, null as a, null as b
${[...queues.flatMap(partsOf), ...smallParts(prefix)].map((part) => `union all\n${part}`).join('\n')}`)
  return {
    receiptConsumers: plain(
      `with recursive ${receipts} select scope as consumer from receipt_scope where scope is not null`,
    ),
    settings: () => [],
    look: async (query) => (await query(look)).rows,
    exact: plain(exactText(prefix)),
  }
}

/** The values of the first column of an index, by one probe each; the last one is null. */
function scopesOf(name: string, from: string, column: string, where: string): string {
  const next = (after: string): string =>
    `(select i.${column} from ${from} where ${where} and i.${column} > ${after} order by i.${column} limit 1)`
  return `${name} (scope) as (
  select ${next(`''`)} union all select ${next('known.scope')} from ${name} as known where known.scope is not null
)`
}

function queueScopes({ name, table, scope, loose, keyed }: Queue): readonly string[] {
  return [
    scopesOf(`${name}_loose`, `${table} as i indexed by ${table}_lane`, scope, loose),
    scopesOf(`${name}_keyed`, `${table} as i indexed by ${table}_key`, scope, keyed),
    `${name}_scope (scope) as (
  select scope from ${name}_loose where scope is not null union select scope from ${name}_keyed where scope is not null)`,
  ]
}

/** Origins, scopes and reasons of failed messages, by one probe each. */
function failedGroups(prefix: string): string {
  const after = (column: string): string => `(select f.seq from ${prefix}failed as f indexed by ${prefix}failed_reason
  where f.replaced_by is null and (f.origin, f.consumer, f.reason) > ${column} order by f.origin, f.consumer, f.reason limit 1)`
  return `failed_head (seq) as (
  select ${after(`('', '', '')`)}
  union all
  select ${after('(g.origin, g.consumer, g.reason)')} from failed_head as h cross join ${prefix}failed as g on g.seq = h.seq
), failed_group (origin, scope, reason) as (
  select g.origin, g.consumer, g.reason from failed_head as h cross join ${prefix}failed as g on g.seq = h.seq
)`
}

/** Since when a row waits: from its first failure on, since it was written; before, since it was due. */
const SINCE = 'case when attempts > 0 then created_at else available_at end'
/** Not held, and not delayed. */
const WAITS = `held_at is null and (attempts > 0 or available_at <= ${NOW})`
const TRIED = '(i.attempts > 0 or i.held_at is not null)'

const counted = (from: string): string => `(select count(*) from (select 1 from ${from} limit ${COUNTED + 1}))`

function partsOf({ name, table, scope, loose, keyed }: Queue): readonly string[] {
  const mine = `i.${scope} = s.scope`
  const [byLane, byKey, tried] = ['lane', 'key', 'tried'].map((index) => `${table} as i indexed by ${table}_${index}`)
  const head = (kind: string): string => `select 'queue', '${name}', s.scope, '${kind}'`
  return [
    `${head('loose')}, ${counted(`${byLane} where ${mine} and ${loose}`)}, (
  select min(first) from (select (
    select i.available_at from ${byLane} where ${mine} and i.lane = lane.lane and ${loose} and i.available_at <= ${NOW}
    order by i.available_at limit 1) as first from lane)), null, null
from ${name}_loose as s where s.scope is not null`,
    `${head('keyed')}, ${counted(`${byKey} where ${mine} and ${keyed}`)}, (
  select min(${SINCE}) from (
    select held_at, attempts, created_at, available_at from ${byKey} where ${mine} and ${keyed} limit ${SAMPLED}) where ${WAITS}), null, null
from ${name}_keyed as s where s.scope is not null`,
    `${head('retrying')}, ${counted(`${tried} where ${mine} and ${TRIED} and i.held_at is null`)}, (
  select i.created_at from ${tried} where ${mine} and ${TRIED} and i.held_at is null order by i.seq limit 1), null, null
from ${name}_scope as s`,
    `${head('held')}, ${counted(`${tried} where ${mine} and ${TRIED} and i.held_at is not null`)}, null, null, null
from ${name}_scope as s`,
    // The oldest rows of all.
    `select 'queue', '${name}', scope, 'front', 0, min(${SINCE}), null, null from (
  select ${scope} as scope, held_at, attempts, created_at, available_at from ${table} order by seq limit ${SAMPLED})
where ${WAITS} group by scope`,
    `select 'rows', '${name}', null, null, ${estimate(name, table)}, (select created_at from ${table} order by seq limit 1), null, null`,
    `select 'share', '${name}', scope, null, rows, null, null, null from ${name}_sample`,
    `select 'share', '${name}', scope, 'retrying', retrying / rows, null, null, null from ${name}_sample`,
  ]
}

/** Rows of one window, and windows of one layer. */
const WINDOW = 64
const WINDOWS = 16

/**
 * Windows of rows for a sample: numbers are given out in turn, so that rows are where numbers were given out lately. Layer by layer from
 * the highest number down, each twice as wide as the one before, with as many windows in it; a row stands for as many as its layer is wider
 * than its windows. Empty while the table can be counted.
 */
function sampleOf({
  name,
  table,
  scope,
}: Pick<Queue, 'table' | 'scope'> & { readonly name: string }): readonly string[] {
  const by = name === 'failed' ? 'i.reason' : 'null'
  const first = WINDOW * WINDOWS
  return [
    `${name}_layer (high, width) as (
  select max(seq), ${first} from ${table} where exists (select 1 from ${table} limit 1 offset ${COUNTED})
  union all
  select high - width, 2 * width from ${name}_layer where high - width >= (select min(seq) from ${table})
)`,
    `${name}_window (low, weight) as materialized (
  select l.high - l.width + 1 + n.lane * (l.width / ${WINDOWS}), l.width * 1.0 / ${first}
  from ${name}_layer as l cross join lane as n where n.lane < ${WINDOWS} and l.high is not null
)`,
    `${name}_sample (scope, name, rows, retrying) as materialized (
  select i.${scope}, ${by}, sum(w.weight), sum(iif(i.attempts > 0, w.weight, 0))
  from ${name}_window as w cross join ${table} as i on i.seq between w.low and w.low + ${WINDOW - 1} group by 1, 2
)`,
  ]
}

/** The number of rows: counted while that is quick, else what the sample stands for. */
function estimate(name: string, table: string): string {
  return `coalesce((select cast(sum(rows) as integer) from ${name}_sample), (select count(*) from ${table}))`
}

function smallParts(prefix: string): readonly string[] {
  const failed = `${prefix}failed`
  // Numbers are given out in turn, and the oldest rows are deleted first.
  const dense = (table: string, time: string): string =>
    `select 'rows', '${table}', null, null, coalesce((select max(seq) from ${prefix}${table}) - (select min(seq) from ${prefix}${table}) + 1, 0),
  (select ${time} from ${prefix}${table} order by seq limit 1), null, null`
  // Rows without numbers: what cannot be counted quickly stays unknown.
  const unnumbered = (table: string, oldest = 'null'): string =>
    `select 'rows', '${table}', null, null, nullif(${counted(`${prefix}${table}`)}, ${COUNTED + 1}), ${oldest}, null, null`
  return [
    `select 'known', 'receipts', scope, null, null, null, null, null from receipt_scope where scope is not null`,
    `select 'relay', null, name, null, null, null, destination, null from ${prefix}relays`,
    `select 'failed', g.origin, g.scope, g.reason, ${counted(
      `${failed} as f indexed by ${failed}_reason
  where f.replaced_by is null and f.origin = g.origin and f.consumer = g.scope and f.reason = g.reason`,
    )}, null, null, null from failed_group as g`,
    `select 'rows', 'failed', null, null, ${estimate('failed', failed)}, (select failed_at from ${failed} order by seq limit 1), null, null`,
    `select 'share', 'failed', scope, name, rows, null, null, null from failed_sample`,
    dense('sent', 'sent_at'),
    dense('audit', 'at'),
    unnumbered('receipts'),
    unnumbered('responses', `(select min(expires_at) from ${prefix}responses)`),
    unnumbered('effects'),
    `select 'paused', origin, scope, actor, null, at, note, null from ${prefix}pauses`,
    `select 'worker', iif(${NOW} - heartbeat_at <= ttl_ms, 'alive', 'dead'), id, name, ${NOW} - heartbeat_at, started_at, serves, in_hand
from ${prefix}workers`,
  ]
}

/** Every row is counted. */
function exactText(prefix: string): string {
  const queue = (name: Origin, scope: string): string => `
select 'queue' as what, '${name}' as place, ${scope} as scope, state as name, count(*) as n, min(iif(${WAITS}, ${SINCE}, null)) as at,
  null as a, null as b
from (
  select ${scope}, held_at, attempts, created_at, available_at,
    case when held_at is not null then 'held' when attempts > 0 then 'retrying' else 'waiting' end as state
  from ${prefix}${name}) group by ${scope}, state`
  return `${queue('inbox', 'consumer')}
union all${queue('outbox', 'relay')}
union all
select 'failed', origin, consumer, reason, count(*), null, null, null from ${prefix}failed
where replaced_by is null group by origin, consumer, reason
union all
select 'receipts', 'receipts', consumer, null, count(*), null, null, null from ${prefix}receipts group by consumer
${['failed', 'sent', 'audit', 'effects', 'responses'].map((table) => `union all select 'rows', '${table}', null, null, count(*), null, null, null from ${prefix}${table}`).join('\n')}`
}
