import type { Origin } from '../../../contracts/index.ts'
import { type ClockStatements, plain, statement } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { LATER, MS } from './fragments.ts'

/** How many of the newest rows are checked for timestamps in the future. */
const NEWEST = 100

/** Recovery from a clock that went back. */
export function clock(schema: string): ClockStatements {
  const newest = (table: Origin): string =>
    `(select max(n.set_at) filter (where n.held_at is null) as at
    from (select set_at, held_at from ${schema}.${table} order by seq desc limit ${NEWEST}) as n)`
  const of = (table: Origin) => ({
    // Ordered by the primary key, the only index that is guaranteed to exist.
    waiting: statement(
      `
select seq::text as seq from ${schema}.${table} as m
where seq > $1::bigint and held_at is null and set_at > clock_timestamp() and available_at > clock_timestamp()
order by m.seq limit $2::integer`,
      (after: string, limit: number) => [after, limit],
    ),
    recount: statement(
      `
update ${schema}.${table} set available_at = clock_timestamp() + (available_at - set_at), set_at = clock_timestamp()
where seq in (
  select seq from ${schema}.${table}
  where seq = any ($1::text::bigint[]) and held_at is null and set_at > clock_timestamp()
  order by seq for update skip locked)`,
      (numbers: readonly string[]) => [array(numbers)],
    ),
  })
  const tables = { inbox: of('inbox'), outbox: of('outbox') }
  return {
    ahead: plain(`
select ${MS('max(at) - clock_timestamp()')} as ms from (
  select max(heartbeat_at) as at from ${schema}.workers union all select max(at) from ${schema}.samples
  union all ${newest('inbox')} union all ${newest('outbox')}) as known`),
    waiting: (origin, after, limit) => tables[origin].waiting(after, limit),
    recount: (origin, numbers) => tables[origin].recount(numbers),
    heartbeats: plain(`
update ${schema}.workers set heartbeat_at = clock_timestamp()
where id in (select id from ${schema}.workers where heartbeat_at > clock_timestamp() order by id for update skip locked)`),
    operations: statement(
      `
update ${schema}.operations set leased_until = ${LATER('$1::float8')}
where id in (
  select id from ${schema}.operations
  where state = 'running' and leased_until > ${LATER('$2::float8')} order by id for update skip locked)`,
      (leaseMs) => [leaseMs, leaseMs],
    ),
  }
}
