// What waits, found by indexes alone: a look takes as long with ten million receipts and a million waiting rows as with few. Every index is
// named by the order that only it has, so that a planner without statistics takes it too.

import type { Origin } from '../../../contracts/index.ts'
import { COUNTED, GROWING, plain, SAMPLED, type StatusStatements, statement } from '../../sql/index.ts'
import { MS } from './fragments.ts'

/**
 * To a planner that does not know how few rows it takes, scanning and sorting a table may seem as good as its index; and it would compile
 * the statement, which takes seconds.
 */
const settings = statement(
  `select ${['jit', 'enable_seqscan', 'enable_bitmapscan', 'enable_sort'].map((name) => `set_config('${name}', 'off', true)`).join(', ')},
  set_config('statement_timeout', $1::text, true)`,
  (limitMs: number) => [String(limitMs)],
)

/** A table of messages, and its indexes by what they are for. */
interface Queue {
  readonly name: Origin
  readonly table: string
  readonly scope: string
  readonly loose: string
  readonly keyed: string
}

/** How much there is. */
export function status(schema: string): StatusStatements {
  const queues: readonly Queue[] = [
    { name: 'inbox', table: `${schema}.inbox`, scope: 'consumer', loose: 'not i.ordered', keyed: 'i.ordered' },
    { name: 'outbox', table: `${schema}.outbox`, scope: 'relay', loose: 'i.key is null', keyed: 'i.key is not null' },
  ]
  const look = plain(`
with recursive ${[...queues.flatMap(scopesOf), receiptScopes(schema), failedGroups(schema)].join(', ')}
select 'clock' as what, null as place, null as scope, null as name, null::numeric as n, ${MS('clock_timestamp()')} as at,
  null as a, null as b
${[...queues.flatMap((queue) => partsOf(queue, schema)), ...smallParts(schema)].map((part) => `union all\n${part}`).join('\n')}`)
  return {
    receiptConsumers: plain(`with recursive ${receiptScopes(schema)} select scope as consumer from receipt_scope`),
    settings: (limitMs) => [settings(limitMs)],
    look: async (query) => (await query(look)).rows,
    exact: plain(exactText(schema)),
  }
}

/** The scopes of a table, by one probe each: those of rows without order, and those of rows with it. */
function scopesOf({ name, table, scope, loose, keyed }: Queue): readonly string[] {
  const skip = (kind: string, where: string, order: string): string => `${name}_${kind} (scope) as (
  (select i.${scope} from ${table} i where ${where} order by ${order} limit 1)
  union all
  select next.scope from ${name}_${kind} as known cross join lateral (
    select i.${scope} as scope from ${table} i where ${where} and i.${scope} > known.scope order by ${order} limit 1) as next
)`
  return [
    skip('loose', loose, `i.${scope}, i.lane, i.available_at, i.seq`),
    skip('keyed', keyed, `i.${scope}, i.lane, i.key, i.seq`),
    `${name}_scope as (select scope from ${name}_loose union select scope from ${name}_keyed)`,
  ]
}

function receiptScopes(schema: string): string {
  return `receipt_scope (scope) as (
  (select r.consumer from ${schema}.receipts r order by r.consumer, r.message_key limit 1)
  union all
  select next.scope from receipt_scope as known cross join lateral (
    select r.consumer as scope from ${schema}.receipts r where r.consumer > known.scope
    order by r.consumer, r.message_key limit 1) as next
)`
}

function failedGroups(schema: string): string {
  return `failed_group (origin, scope, reason) as (
  (select f.origin, f.consumer, f.reason from ${schema}.failed f where f.replaced_by is null
  order by f.origin, f.consumer, f.reason limit 1)
  union all
  select next.* from failed_group as known cross join lateral (
    select f.origin, f.consumer, f.reason from ${schema}.failed f
    where f.replaced_by is null and (f.origin, f.consumer, f.reason) > (known.origin, known.scope, known.reason)
    order by f.origin, f.consumer, f.reason limit 1) as next
)`
}

/** Since when a row waits: from its first failure on, since it was written; before, since it was due. */
const SINCE = 'case when i.attempts > 0 then i.created_at else i.available_at end as since'
/** Not held, and not delayed. */
const WAITS = 'i.held_at is null and (i.attempts > 0 or i.available_at <= now())'

const counted = (from: string, order: string): string =>
  `(select count(*) from (select from ${from} order by ${order} limit ${COUNTED + 1}) as counted)`

function partsOf({ name, table, scope, loose, keyed }: Queue, schema: string): readonly string[] {
  const byTime = `i.${scope}, i.lane, i.available_at, i.seq`
  const byKey = `i.${scope}, i.lane, i.key, i.seq`
  // A range of one, so that the order is not that of the numbers alone.
  const tried = `${table} i where i.${scope} between s.scope and s.scope and (i.attempts > 0 or i.held_at is not null)`
  const bySeq = `i.${scope}, i.held_at, i.seq`
  const head = (kind: string): string => `select 'queue', '${name}', s.scope, '${kind}'`
  return [
    `${head('loose')}, ${counted(`${table} i where i.${scope} = s.scope and ${loose}`, byTime)}, ${MS(`(
  select min(first.available_at) from generate_series(0, 63) as l (lane) cross join lateral (
    select i.available_at from ${table} i
    where i.${scope} = s.scope and i.lane = l.lane and ${loose} and i.available_at <= now()
    order by i.available_at, i.seq limit 1) as first)`)}, null, null
from ${name}_loose as s`,
    `${head('keyed')}, ${counted(`${table} i where i.${scope} = s.scope and ${keyed}`, byKey)}, ${MS(`(
  select min(since) from (
    select ${WAITS} as waits, ${SINCE} from ${table} i where i.${scope} = s.scope and ${keyed}
    order by ${byKey} limit ${SAMPLED}) as sample where waits)`)}, null, null
from ${name}_keyed as s`,
    `${head('retrying')}, ${counted(`${tried} and i.held_at is null`, bySeq)}, ${MS(`(
  select i.created_at from ${tried} and i.held_at is null order by ${bySeq} limit 1)`)}, null, null
from ${name}_scope as s`,
    `${head('held')}, ${counted(`${tried} and i.held_at is not null`, bySeq)}, null, null, null from ${name}_scope as s`,
    // The oldest rows of all.
    `select 'queue', '${name}', first.scope, 'front', 0, ${MS('min(since)')}, null, null from (
  select i.${scope} as scope, ${WAITS} as waits, ${SINCE} from ${table} i order by i.seq limit ${SAMPLED}) as first
where waits group by first.scope`,
    `select 'share', '${name}', common.value, null, common.part::numeric, null, null, null ${common(schema, name, scope)}`,
    `select 'rows', '${name}_tried', null, null, ${ROWS(`${schema}.${name}_tried`)}, null, null, null`,
  ]
}

/** What the planner knows of the values of a column that are common. */
function common(schema: string, table: string, column: string): string {
  return `from pg_stats cross join lateral unnest(most_common_vals::text::text[], most_common_freqs) as common (value, part)
where schemaname = '${schema.replaceAll('"', '')}' and tablename = '${table}' and attname = '${column}'`
}

/** About how many rows an index has. */
const ROWS = (relation: string): string =>
  `(select greatest(0, reltuples)::numeric from pg_class where oid = '${relation}'::regclass)`

function smallParts(schema: string): readonly string[] {
  return [
    `select 'known', 'receipts', scope, null, null, null, null, null from receipt_scope`,
    `select 'relay', null, name, null, null, null, destination, null from ${schema}.relays`,
    `select 'failed', g.origin, g.scope, g.reason, ${counted(
      `${schema}.failed f where f.replaced_by is null and f.origin = g.origin and f.consumer = g.scope and f.reason between g.reason and g.reason`,
      'f.origin, f.consumer, f.reason',
    )}, null, null, null
from failed_group as g`,
    `select 'share', 'failed', g.scope, g.reason, (c.part * r.part)::numeric, null, null, null from failed_group as g
  join (select common.value, common.part ${common(schema, 'failed', 'consumer')}) as c on c.value = g.scope
  join (select common.value, common.part ${common(schema, 'failed', 'reason')}) as r on r.value = g.reason`,
    ...GROWING.map(([table, time, by]) => {
      const oldest = time === null ? 'null' : `(select ${MS(time)} from ${schema}.${table} order by ${by} limit 1)`
      // What inserts and deletes add up to, or, after a crash of the server, what vacuum has seen.
      const live = `nullif(pg_stat_get_live_tuples('${schema}.${table}'::regclass), 0)`
      const rows = `case when pg_relation_size('${schema}.${table}'::regclass) = 0 then 0 else coalesce(${live},
  (select nullif(reltuples, -1)::bigint from pg_class where oid = '${schema}.${table}'::regclass)) end`
      return `select 'rows', '${table}', null, null, ${rows}, ${oldest}, null, null`
    }),
    `select 'paused', origin, scope, actor, null, ${MS('at')}, note, null from ${schema}.pauses`,
    `select 'worker', case when clock_timestamp() - heartbeat_at <= ttl_ms * interval '1 millisecond' then 'alive' else 'dead' end,
  id, name, ${MS('clock_timestamp() - heartbeat_at')}, ${MS('started_at')}, serves, in_hand from ${schema}.workers`,
  ]
}

/** Every row is counted. */
function exactText(schema: string): string {
  const queue = (name: Origin, scope: string): string => `
select 'queue' as what, '${name}' as place, ${scope} as scope, state as name, count(*)::numeric as n,
  ${MS('min(since) filter (where waits)')} as at, null as a, null as b
from (
  select ${scope}, ${WAITS} as waits, ${SINCE},
    case when i.held_at is not null then 'held' when i.attempts > 0 then 'retrying' else 'waiting' end as state
  from ${schema}.${name} i) as counted group by ${scope}, state`
  return `${queue('inbox', 'consumer')}
union all${queue('outbox', 'relay')}
union all
select 'failed', origin, consumer, reason, count(*), null, null, null from ${schema}.failed
where replaced_by is null group by origin, consumer, reason
union all
select 'receipts', 'receipts', consumer, null, count(*), null, null, null from ${schema}.receipts group by consumer
${['failed', 'sent', 'audit', 'effects', 'responses'].map((table) => `union all select 'rows', '${table}', null, null, count(*), null, null, null from ${schema}.${table}`).join('\n')}`
}
