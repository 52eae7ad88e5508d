// What waits, found by indexes alone. A statement cannot limit what it counts of each scope that it finds: one finds the scopes, and a
// second one counts. What is too much to count is estimated by the optimizer, which looks into the indexes for that.

import type { Origin, Row, Statement } from '../../../contracts/index.ts'
import { LANES } from '../../../message/index.ts'
import {
  asNumber,
  asText,
  COUNTED,
  GROWING,
  plain,
  type Query,
  SAMPLED,
  type StatusStatements,
} from '../../sql/index.ts'
import { BY_KEY, LIMIT, MS, NOW, SILENT, tables } from './fragments.ts'
import { bytes } from './rows.ts'

const QUEUES = [
  { place: 'inbox', scope: 'consumer' },
  { place: 'outbox', scope: 'relay' },
] as const

/** How much there is. `prefix` is that of tables in a statement, with the database; `name` is that of their names alone. */
export function status(prefix: string, database: string, name: string): StatusStatements {
  const first = firstLook(prefix, database, name)
  return {
    receiptConsumers: plain(`select distinct consumer from ${prefix}receipts order by consumer`),
    settings: () => [],
    look: async (query) => {
      const rows = (await query(first)).rows
      const parts = partsOf(rows)
      const counts = parts.length === 0 ? [] : (await query(counting(prefix, parts))).rows
      const large = parts.filter((_, at) => asNumber(counts[at]?.['n']) > COUNTED)
      const shares = large.length === 0 ? [] : await sharesOf(query, prefix, large)
      return [...rows, ...counts.flatMap((row) => countsOf(row)), ...shares]
    },
    exact: plain(exactText(prefix)),
  }
}

/** Since when a row waits: from its first failure on, since it was written; before, since it was due. */
const SINCE = 'if(attempts > 0, created_at, available_at)'
/** Not held, and not delayed. */
const WAITS = `held_at is null and (attempts > 0 or available_at <= ${NOW})`

/** A number of rows with a column n, from 0 on. */
const numbers = (count: number): string =>
  `(${Array.from({ length: count }, (_, n) => `select ${n}${n === 0 ? ' as n' : ''}`).join(' union all ')})`

/** Everything but the counts. Scopes, and what waits longest, are read off an index: one probe for each scope, lane and kind of row. */
function firstLook(prefix: string, database: string, name: string): Statement {
  const table = tables(prefix)
  const scopes = QUEUES.map(
    ({ place, scope }) => `
select 'queue', '${place}', scope, 'first', max(timed = 3 and first is not null),
  ${MS(`min(if(timed <> 3 and first <= ${NOW}, first, null))`)}, null, null
from (
  select s.scope, kind.n as timed, (
    select i.available_at from ${table[place]} as i force index (${place}_lane)
    where i.${scope} = s.scope and i.lane = lane.n and i.timed = kind.n order by i.available_at limit 1) as first
  from (select distinct ${scope} as scope from ${table[place]} force index (${place}_lane)) as s
  straight_join ${numbers(LANES)} as lane straight_join ${numbers(4)} as kind) as ${place}_first group by scope`,
  )
  const fronts = QUEUES.map(
    ({ place, scope }) => `
select 'queue', '${place}', scope, 'front', 0, ${MS(`min(${SINCE})`)}, null, null
from (select ${scope} as scope, held_at, attempts, created_at, available_at from ${table[place]} ${BY_KEY}
  order by seq ${LIMIT(SAMPLED)}) as ${place}_front where ${WAITS} group by scope`,
  )
  const sizes = GROWING.map(([each, time, by]) => {
    const oldest = time === null ? 'null' : `(select ${MS(time)} from ${table[each]} order by ${by} limit 1)`
    return `
select 'rows', '${each}', null, null,
  (select table_rows from information_schema.tables where table_schema = ? and table_name = ?), ${oldest}, null, null`
  })
  return {
    text: [
      `
select 'clock' as what, null as place, null as scope, null as name, null as n, ${MS(NOW)} as at, null as a, null as b`,
      ...scopes,
      ...fronts,
      `
select 'group', origin, consumer, reason, 0, null, null, null
from (select replaced, origin, consumer, reason from ${table.failed} force index (failed_reason)
  group by replaced, origin, consumer, reason) as failed_groups where replaced = 0`,
      `
select 'known', 'receipts', consumer, null, null, null, null, null from (select distinct consumer from ${table.receipts}) as known`,
      `
select 'relay', null, name, null, null, null, destination, null from ${table.relays}`,
      ...sizes,
      `
select 'paused', origin, scope, actor, null, ${MS('at')}, note, null from ${table.pauses}`,
      `
select 'worker', if(${SILENT} <= ttl_ms, 'alive', 'dead'), id, name, ${SILENT}, ${MS('started_at')}, serves, in_hand from ${table.workers}`,
    ].join('\nunion all'),
    params: GROWING.flatMap(([each]) => [database, bytes(`${name}${each}`)]),
  }
}

/** A scope of a table, or a reason of the failed store: its rows are counted. */
interface Part {
  readonly place: 'inbox' | 'outbox' | 'failed'
  readonly origin: Origin
  readonly scope: string
  readonly reason: string
  /** Whether there are held rows. */
  readonly held: boolean
}

function partsOf(rows: readonly Row[]): readonly Part[] {
  return rows.flatMap(({ what, place, scope, name, n }) => {
    const kind = asText(what)
    const counted = kind === 'group' || (kind === 'queue' && asText(name) === 'first')
    if (!counted) return []
    const origin: Origin = asText(place) === 'outbox' ? 'outbox' : 'inbox'
    const failed = kind === 'group'
    return [
      {
        place: failed ? 'failed' : origin,
        origin,
        scope: asText(scope),
        reason: failed ? asText(name) : '',
        held: !failed && asNumber(n) > 0,
      },
    ]
  })
}

const scopeOf = (place: Origin): string => (place === 'inbox' ? 'consumer' : 'relay')

/** The rows of a part, by an index that has all that is asked for. */
function rowsOf(prefix: string, { place, origin, scope, reason }: Part): Statement {
  if (place === 'failed') {
    return {
      text: `${prefix}failed force index (failed_reason) where replaced = 0 and origin = ? and consumer = ? and reason = ?`,
      params: [bytes(origin), bytes(scope), bytes(reason)],
    }
  }
  return {
    text: `${prefix}${place} force index (${place}_lane) where ${scopeOf(place)} = ?`,
    params: [bytes(scope)],
  }
}

/**
 * Counts each part; a row of the answer has n, and of inbox and outbox how many of those retry (a), since when the first one does (at),
 * and how many are held (b).
 */
function counting(prefix: string, parts: readonly Part[]): Statement {
  const limit = LIMIT(COUNTED + 1)
  const statements = parts.map((part): Statement => {
    const { text, params } = rowsOf(prefix, part)
    const { place, origin, scope, reason, held } = part
    if (place === 'failed') {
      return {
        text: `
select 'failed' as what, ? as place, ? as scope, ? as name, count(*) as n, null as at, null as a, null as b
from (select 1 from ${text} ${limit}) as counted`,
        params: [bytes(origin), bytes(scope), bytes(reason), ...params],
      }
    }
    // Held rows come last in their lane, behind what may be too many to count.
    const kept = `
(select count(*) from (
  select 1 from (select distinct lane from ${text}) as l straight_join ${prefix}${place} as m force index (${place}_lane)
    on m.${scopeOf(place)} = ? and m.lane = l.lane and m.timed = 3 ${limit}) as held)`
    return {
      text: `
select 'queue' as what, ? as place, ? as scope, '' as name, n, (
  select ${MS('m.created_at')} from ${prefix}${place} as m ${BY_KEY} where m.seq = tried) as at, a, ${held ? kept : '0'} as b
from (
  select count(*) as n, coalesce(sum(timed <> 3 and attempts > 0), 0) as a, min(if(timed <> 3 and attempts > 0, seq, null)) as tried
  from (select timed, attempts, seq from ${text} ${limit}) as counted) as ${place}_counted`,
      params: [bytes(place), bytes(scope), ...(held ? [...params, bytes(scope)] : []), ...params],
    }
  })
  return {
    text: statements.map(({ text }) => text).join('\nunion all'),
    params: statements.flatMap(({ params }) => [...params]),
  }
}

/** The counts of a part as `look` returns them. Those that retry are a sample if there are more than were read. */
function countsOf(row: Row): readonly Row[] {
  if (asText(row['what']) === 'failed') return [row]
  const [n, retrying, held] = [asNumber(row['n']), asNumber(row['a']), asNumber(row['b'])]
  const queue = { ...row, at: null, a: null, b: null }
  const more = n > COUNTED && retrying > 0
  return [
    { ...queue, name: 'loose', n },
    { ...queue, name: 'retrying', n: more ? COUNTED + 1 : retrying, at: row['at'] ?? null },
    { ...queue, name: 'held', n: held },
    ...(more ? [{ ...queue, what: 'share', name: 'retrying', n: retrying / n }] : []),
  ]
}

/** How many rows the optimizer expects of each part: it looks into the index. */
async function sharesOf(query: Query, prefix: string, parts: readonly Part[]): Promise<readonly Row[]> {
  const statements = parts.map((part) => rowsOf(prefix, part))
  const { rows } = await query({
    text: `explain ${statements.map(({ text }) => `select 1 from ${text}`).join(' union all ')}`,
    params: statements.flatMap(({ params }) => [...params]),
  })
  return parts.flatMap(({ place, scope, reason }, at) => {
    const expected = rows[at]?.['rows']
    if (expected === undefined || expected === null) return []
    const name = place === 'failed' ? reason : null
    return [{ what: 'share', place, scope, name, n: expected, at: null, a: null, b: null }]
  })
}

/** Every row is counted. */
function exactText(prefix: string): string {
  const queue = ({ place, scope }: (typeof QUEUES)[number]): string => `
select 'queue' as what, '${place}' as place, ${scope} as scope, state as name, count(*) as n,
  ${MS(`min(if(${WAITS}, ${SINCE}, null))`)} as at, null as a, null as b
from (
  select ${scope}, held_at, attempts, created_at, available_at,
    case when held_at is not null then 'held' when attempts > 0 then 'retrying' else 'waiting' end as state
  from ${prefix}${place}) as ${place}_rows group by ${scope}, state`
  return `${QUEUES.map(queue).join('\nunion all')}
union all
select 'failed', origin, consumer, reason, count(*), null, null, null from ${prefix}failed
where replaced_by is null group by origin, consumer, reason
union all
select 'receipts', 'receipts', consumer, null, count(*), null, null, null from ${prefix}receipts group by consumer
${['failed', 'sent', 'audit', 'effects', 'responses'].map((table) => `union all select 'rows', '${table}', null, null, count(*), null, null, null from ${prefix}${table}`).join('\n')}`
}
