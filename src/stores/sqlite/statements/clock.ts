import type { Origin } from '../../../contracts/index.ts'
import { type ClockStatements, plain, statement } from '../../sql/index.ts'
import { LATER, SEQS } from './fragments.ts'
import { NOW } from './migrations.ts'

/** How many of the newest rows are checked for timestamps in the future. */
const NEWEST = 100

/** Recovery from a clock that went back: that of the machine. */
export function clock(prefix: string): ClockStatements {
  const newest = (table: Origin): string =>
    `select max(iif(held_at is null, set_at, null))
  from (select set_at, held_at from ${prefix}${table} order by seq desc limit ${NEWEST})`
  const of = (table: Origin) => ({
    waiting: statement(
      `
select cast(seq as text) as seq from ${prefix}${table} as m
where m.seq > cast(? as integer) and held_at is null and set_at > ${NOW} and available_at > ${NOW}
order by m.seq limit ?`,
      (after: string, limit: number) => [after, limit],
    ),
    recount: statement(
      `
update ${prefix}${table} set available_at = ${NOW} + available_at - set_at, set_at = ${NOW}
where seq in ${SEQS} and held_at is null and set_at > ${NOW}`,
      (numbers: readonly string[]) => [JSON.stringify(numbers)],
    ),
  })
  const tables = { inbox: of('inbox'), outbox: of('outbox') }
  return {
    ahead: plain(`
select max(at) - ${NOW} as ms from (
  select max(heartbeat_at) as at from ${prefix}workers union all select max(at) from ${prefix}samples
  union all ${newest('inbox')} union all ${newest('outbox')})`),
    waiting: (origin, after, limit) => tables[origin].waiting(after, limit),
    recount: (origin, numbers) => tables[origin].recount(numbers),
    heartbeats: plain(`update ${prefix}workers set heartbeat_at = ${NOW} where heartbeat_at > ${NOW}`),
    operations: statement(
      `update ${prefix}operations set leased_until = ${LATER} where state = 'running' and leased_until > ${LATER}`,
      (leaseMs) => [leaseMs, leaseMs],
    ),
  }
}
