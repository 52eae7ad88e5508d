// Workers and subscriptions on PostgreSQL. Whether a worker is alive is decided by the clock of the database alone: those of the
// processes may differ.

import { encodeText } from '../../../message/index.ts'
import { plain, type SubscriptionStatements, statement, type WorkerStatements } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { MS, ROWS } from './fragments.ts'
import { named } from './rows.ts'

/** Whether the session of a worker exists. Every role may see pids; one that was reused only delays the notice of a death. */
const THERE = 'coalesce(session in (select pid from pg_stat_activity), true)'

/** The workers. */
export function workers(schema: string): WorkerStatements {
  // The commit does not wait for the disk: if the server loses the last moments, no process has died.
  const noteText = `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`
  const beatText = `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean, heartbeat_at = clock_timestamp()
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`
  return {
    join: statement(
      `
insert into ${schema}.workers (id, ttl_ms, name, serves) values ($1::text, $2::integer, $3::text, $4::text)
on conflict do nothing`,
      ({ id, name, ttlMs, serves }) => [id, ttlMs, name, serves],
    ),
    note: (id, inHand, alone, beat) => ({
      text: beat ? beatText : noteText,
      params: [inHand, String(alone), id],
      prepare: true,
    }),
    list: plain(`
select id, name, serves, ${MS('started_at')} as started_at, ${MS('clock_timestamp() - heartbeat_at')} as silent_ms,
  clock_timestamp() - heartbeat_at <= ttl_ms * interval '1 millisecond' as alive, in_hand,
  ${MS('clock_timestamp()')} as listed_at, session, ${THERE} as there
from ${schema}.workers order by id`),
    attend: statement(
      `update ${schema}.workers set session = $1::integer where id = any ($2::text::text[])`,
      (ids, session) => [session, array(ids)],
    ),
    lockDead: statement(
      `
select id, in_hand, alone from ${schema}.workers
where clock_timestamp() - heartbeat_at > ttl_ms * interval '1 millisecond'
  or id = any ($1::text::text[]) and not ${THERE} order by id for update skip locked`,
      (ended) => [array(ended)],
    ),
    // A row that is locked is being worked on: its worker is slow to be heard, not dead.
    suspect: statement(
      `
update ${schema}.inbox set starts = starts + 1 where seq in (
  select seq from ${schema}.inbox where ${ROWS('$1', '$2')} order by seq for update skip locked)`,
      (seqs) => named(seqs),
    ),
    crashed: statement(
      `
update ${schema}.inbox set starts = starts + 1, crashes = crashes + 1 where seq in (
  select seq from ${schema}.inbox where ${ROWS('$1', '$2')} order by seq for update skip locked)`,
      (seqs) => named(seqs),
    ),
    leave: statement(`delete from ${schema}.workers where id = any ($1::text::text[])`, (ids) => [array(ids)]),
  }
}

/** Which types consumers handle. */
export function subscriptions(schema: string): SubscriptionStatements {
  return {
    add: statement(
      `
insert into ${schema}.subscriptions (consumer, type, ordered) values ($1::text, $2::text, $3::boolean)
on conflict (consumer, type) do update set ordered = subscriptions.ordered or excluded.ordered`,
      (consumer, type, ordered) => [consumer, encodeText(type), String(ordered)],
    ),
    get: statement(
      `select ordered from ${schema}.subscriptions where consumer = $1::text and type = $2::text`,
      (consumer, type) => [consumer, encodeText(type)],
    ),
    list: plain(`select consumer, type, ordered from ${schema}.subscriptions order by consumer, type`),
    lock: statement(
      `select type from ${schema}.subscriptions where consumer = $1::text order by type for update`,
      (consumer) => [consumer],
    ),
    remove: statement(`delete from ${schema}.subscriptions where consumer = $1::text`, (consumer) => [consumer]),
  }
}
