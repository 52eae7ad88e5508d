// Workers and subscriptions on SQLite. Whether a worker is alive is decided by the clock of SQLite, which is that of the machine.

import { isRunning, processMark } from '../../../base/index.ts'
import { encodeText } from '../../../message/index.ts'
import { plain, type SubscriptionStatements, statement, type WorkerStatements } from '../../sql/index.ts'
import { ROWS } from './fragments.ts'
import { NOW } from './migrations.ts'
import { named } from './rows.ts'

/** The workers. */
export function workers(prefix: string): WorkerStatements {
  const noteText = `update ${prefix}workers set in_hand = ?, alone = ? where id = ?`
  const beatText = `update ${prefix}workers set in_hand = ?, alone = ?, heartbeat_at = ${NOW} where id = ?`
  return {
    join: statement(
      `insert into ${prefix}workers (id, ttl_ms, name, serves) values (?, ?, ?, ?) on conflict do nothing`,
      ({ id, name, ttlMs, serves }) => [id, ttlMs, name, serves],
    ),
    note: (id, inHand, alone, beat) => ({ text: beat ? beatText : noteText, params: [inHand, Number(alone), id] }),
    list: plain(`
select id, name, serves, started_at, ${NOW} - heartbeat_at as silent_ms, ${NOW} - heartbeat_at <= ttl_ms as alive, in_hand,
  ${NOW} as listed_at, session
from ${prefix}workers order by id`),
    attend: statement(
      `update ${prefix}workers set session = ? where id in (select value from json_each(?))`,
      (ids, session) => [session, JSON.stringify(ids)],
    ),
    session: { own: processMark, isThere: isRunning },
    lockDead: statement(
      `
select id, in_hand, alone from ${prefix}workers
where ${NOW} - heartbeat_at > ttl_ms or id in (select value from json_each(?)) order by id`,
      (ended) => [JSON.stringify(ended)],
    ),
    // No row is locked: a transaction that works on one holds the only write lock.
    suspect: statement(`update ${prefix}inbox set starts = starts + 1 where ${ROWS}`, (seqs) => named(seqs)),
    crashed: statement(`update ${prefix}inbox set starts = starts + 1, crashes = crashes + 1 where ${ROWS}`, (seqs) =>
      named(seqs),
    ),
    leave: statement(`delete from ${prefix}workers where id in (select value from json_each(?))`, (ids) => [
      JSON.stringify(ids),
    ]),
  }
}

/** Which types consumers handle. */
export function subscriptions(prefix: string): SubscriptionStatements {
  return {
    add: statement(
      `
insert into ${prefix}subscriptions (consumer, type, ordered) values (?, ?, ?)
on conflict (consumer, type) do update set ordered = max(ordered, excluded.ordered)`,
      (consumer, type, ordered) => [consumer, encodeText(type), Number(ordered)],
    ),
    get: statement(`select ordered from ${prefix}subscriptions where consumer = ? and type = ?`, (consumer, type) => [
      consumer,
      encodeText(type),
    ]),
    list: plain(`select consumer, type, ordered from ${prefix}subscriptions order by consumer, type`),
    lock: statement(`select type from ${prefix}subscriptions where consumer = ?`, (consumer) => [consumer]),
    remove: statement(`delete from ${prefix}subscriptions where consumer = ?`, (consumer) => [consumer]),
  }
}
