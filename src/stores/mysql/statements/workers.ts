// Workers and subscriptions on MariaDB and MySQL. Whether a worker is alive is decided by the clock of the database alone: those of the
// processes may differ.

import { plain, type SubscriptionStatements, statement, type WorkerStatements } from '../../sql/index.ts'
import { BY_KEY, KEYED, MS, NOW, ROWS, SILENT, tables } from './fragments.ts'
import { bytes, list, named, text } from './rows.ts'

/** The workers. */
export function workers(prefix: string): WorkerStatements {
  const { inbox, workers } = tables(prefix)

  return {
    join: statement(
      `
insert into ${workers} (id, ttl_ms, name, serves, in_hand, started_at, heartbeat_at)
values (?, ?, ?, ?, '[]', ${NOW}, ${NOW})
on duplicate key update id = id`,
      ({ id, name, ttlMs, serves }) => [bytes(id), ttlMs, text(name), text(serves)],
    ),
    // Also without a heartbeat the time changes: what is written anew as it was may count as no row at all.
    note: statement(
      `update ${workers} set in_hand = ?, alone = ?, heartbeat_at = ${NOW} where id = ?`,
      (id, inHand, alone) => [bytes(inHand), Number(alone), bytes(id)],
    ),
    list: plain(`
select id, name, serves, ${MS('started_at')} as started_at, ${SILENT} as silent_ms, ${SILENT} <= ttl_ms as alive, in_hand,
  ${MS(NOW)} as listed_at
from ${workers} order by id`),
    // Found without locks, so that those who are alive never wait.
    // Workers keep no session whose end the server could report.
    attend: undefined,
    lockDead: statement(
      `
select m.id, m.in_hand, m.alone
from (select id from ${workers} where ${SILENT} > ttl_ms limit 1000) as dead
  straight_join ${workers} as m ${BY_KEY} on m.id = dead.id
where ${SILENT} > ttl_ms order by m.id for update skip locked`,
      () => [],
    ),
    // A row that is locked is being worked on: its worker is slow to be heard, not dead.
    suspect: statement(
      `
update (
  select f.seq from ${ROWS(inbox, 'f')} order by f.seq limit 1000000 for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY} on m.seq = free.seq
set m.starts = m.starts + 1`,
      (seqs) => [named(seqs)],
    ),
    crashed: statement(
      `
update (
  select f.seq from ${ROWS(inbox, 'f')} order by f.seq limit 1000000 for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY} on m.seq = free.seq
set m.starts = m.starts + 1, m.crashes = m.crashes + 1`,
      (seqs) => [named(seqs)],
    ),
    leave: statement(`delete m from ${KEYED(workers, 'id')}`, (ids) => [list(ids.map(bytes))]),
  }
}

/** Which types consumers handle. */
export function subscriptions(prefix: string): SubscriptionStatements {
  const { subscriptions } = tables(prefix)

  return {
    add: statement(
      `
insert into ${subscriptions} (type, consumer, ordered) values (?, ?, ?)
on duplicate key update ordered = greatest(ordered, values(ordered))`,
      (consumer, type, ordered) => [text(type), bytes(consumer), Number(ordered)],
    ),
    get: statement(`select ordered from ${subscriptions} where type = ? and consumer = ?`, (consumer, type) => [
      text(type),
      bytes(consumer),
    ]),
    list: plain(`select consumer, type, ordered from ${subscriptions} order by consumer, type`),
    // Found without locks: a search by consumer reads the subscriptions of all, which publishers have locked.
    lock: statement(
      `
select m.type from (select type, consumer from ${subscriptions} where consumer = ? limit 1000000) as there
  straight_join ${subscriptions} as m ${BY_KEY} on m.type = there.type and m.consumer = there.consumer
order by m.type for update`,
      (consumer) => [bytes(consumer)],
    ),
    remove: statement(
      `
delete m from (select type, consumer from ${subscriptions} where consumer = ? limit 1000000) as there
  straight_join ${subscriptions} as m ${BY_KEY} on m.type = there.type and m.consumer = there.consumer`,
      (consumer) => [bytes(consumer)],
    ),
  }
}
