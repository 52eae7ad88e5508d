import type { Origin } from '../../../contracts/index.ts'
import { type ClockStatements, plain, statement } from '../../sql/index.ts'
import { BY_KEY, LATER, LIMIT, MS, NOW, NUMBERED, SEQ, tables } from './fragments.ts'
import { microseconds, numbered } from './rows.ts'

/** How many of the newest rows are checked for timestamps in the future. */
const NEWEST = 100

/** Recovery from a clock that went back. Rows are found without locks, so that nothing waits, and then locked by primary key. */
export function clock(prefix: string): ClockStatements {
  const names = tables(prefix)
  const newest = (table: Origin): string =>
    `select max(if(n.held_at is null, n.set_at, null))
  from (select m.set_at, m.held_at from ${names[table]} as m ${BY_KEY} order by m.seq desc limit ${NEWEST}) as n`
  const of = (table: Origin) => ({
    waiting: (after: string, limit: number) => ({
      text: `
select cast(m.seq as char) as seq from ${names[table]} as m ${BY_KEY}
where m.seq > ${SEQ} and m.held_at is null and m.set_at > ${NOW} and m.available_at > ${NOW}
order by m.seq ${LIMIT(limit)}`,
      params: [after],
    }),
    // The wait is read in a derived table first, because the order of assignments in a joined update is unspecified.
    recount: statement(
      `
update (
  select f.seq, timestampdiff(microsecond, f.set_at, f.available_at) as wait from ${NUMBERED(names[table], 'f')}
  where f.held_at is null and f.set_at > ${NOW} order by f.seq limit 1000000 for update skip locked
) as free straight_join ${names[table]} as m ${BY_KEY} on m.seq = free.seq
set m.available_at = ${NOW} + interval free.wait microsecond, m.set_at = ${NOW}`,
      (numbers: readonly string[]) => [numbered(numbers)],
    ),
  })
  const queues = { inbox: of('inbox'), outbox: of('outbox') }
  return {
    ahead: plain(`
select ${MS('max(at)')} - ${MS(NOW)} as ms from (
  select max(heartbeat_at) as at from ${names.workers} union all select max(at) from ${names.samples}
  union all ${newest('inbox')} union all ${newest('outbox')}) as known`),
    waiting: (origin, after, limit) => queues[origin].waiting(after, limit),
    recount: (origin, numbers) => queues[origin].recount(numbers),
    heartbeats: plain(`
update (select id from ${names.workers} where heartbeat_at > ${NOW} limit 1000) as early
  straight_join ${names.workers} as m ${BY_KEY} on m.id = early.id
set m.heartbeat_at = ${NOW}`),
    operations: statement(
      `
update (
  select id from ${names.operations} force index (operations_state)
  where state = 'running' and leased_until > ${LATER} limit 1000
) as early straight_join ${names.operations} as m ${BY_KEY} on m.id = early.id
set m.leased_until = ${LATER}`,
      (leaseMs) => [microseconds(leaseMs), microseconds(leaseMs)],
    ),
  }
}
