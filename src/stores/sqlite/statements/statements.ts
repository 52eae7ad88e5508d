import type { Origin } from '../../../contracts/index.ts'
import { INBOX, LATER, MESSAGE, NAME, ROW, ROWS, SEQ, SEQS, UUID } from './fragments.ts'
import { type LookTexts, lookTexts } from './look.ts'
import { NOW } from './migrations.ts'

const MESSAGE_VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`

type Name =
  | 'migrationTable'
  | 'migrationRows'
  | 'migrationDone'
  | 'take'
  | 'receipts'
  | 'lock'
  | 'claim'
  | 'blocked'
  | 'deleteInbox'
  | 'insertInbox'
  | 'insertFailed'
  | 'insertOutbox'
  | 'listening'
  | 'reschedule'
  | 'lockInbox'
  | 'copyToFailed'
  | 'holdInbox'
  | 'inboxSeq'
  | 'outboxRows'
  | 'copyToSent'
  | 'outboxSeqs'
  | 'deleteOutbox'
  | 'deleteConfirmed'
  | 'lockFree'
  | 'postpone'
  | 'lockOutbox'
  | 'refuseToFailed'
  | 'holdOutbox'
  | 'recordRelay'
  | 'relay'
  | 'join'
  | 'note'
  | 'beat'
  | 'workers'
  | 'lockDead'
  | 'suspect'
  | 'crashed'
  | 'leave'
  | 'subscribe'
  | 'subscription'

/** The statements by name. */
export type Statements = Readonly<Record<Name, string>> & {
  readonly look: Readonly<Record<Origin, LookTexts>>
  readonly keepNumber: Readonly<Record<Origin, string>>
}

/** Every statement, whole and by name. Parameters are scalars; a list is the text of a JSON array. */
export function statements(prefix: string): Statements {
  return {
    // Not NOW: the sqlite3 of an older system (before 3.42) has to be able to run the printed migrations.
    migrationTable: `
create table if not exists ${prefix}migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000)
) strict`,
    migrationRows: `select version, checksum from ${prefix}migrations`,
    migrationDone: `insert into ${prefix}migrations (version, name, checksum) values (?, ?, ?)`,

    take: `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)
on conflict (consumer, message_key) do nothing`,
    receipts: `
select message_key, token, source, id, type, fingerprint, taken_at from ${prefix}receipts
where consumer = ? and message_key in (select unhex(value, '-') from json_each(?))`,

    // The transaction holds the only write lock: what it reads is its own.
    lock: `select ${SEQ} from ${prefix}inbox as i where ${ROWS} order by i.seq`,
    claim: `
with given (seq) as materialized (
  select i.seq from ${prefix}inbox as i where ${ROWS} and i.held_at is null
    and (i.lease_token is null or i.available_at <= ${NOW})
)
delete from ${prefix}inbox where seq in (
  select mine.seq from ${prefix}inbox as mine
  where mine.seq in (select seq from given) and (mine.ordered = 0 or not exists (
    select 1 from ${prefix}inbox as older
    where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from given))))
returning ${INBOX}`,
    blocked: `
with given (seq) as materialized ${SEQS}
select ${NAME('mine')} as seq from ${prefix}inbox as mine
where mine.seq in (select seq from given) and mine.ordered = 1 and exists (
  select 1 from ${prefix}inbox as older
  where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq not in (select seq from given))`,

    deleteInbox: `delete from ${prefix}inbox where ${ROW}`,
    insertInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, attempts, starts, available_at, error, lane, ordered)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ?, ?, ?)`,
    insertFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error, error_hash, lane, ordered)
values (?, ${MESSAGE_VALUES}, ?, ?, ?, ?, ?, ?)
on conflict do nothing`,
    insertOutbox: `
insert into ${prefix}outbox (relay, ${MESSAGE}, available_at, lane)
values (?, ${MESSAGE_VALUES}, ${LATER}, ?)`,
    listening: `
with known (consumer, ordered) as (
  select distinct value ->> 'name', value ->> 'ordered' from json_each(?)
)
select consumer, max(ordered) as ordered from (
  select consumer, ordered from known
  union all
  select consumer, ordered from ${prefix}subscriptions where type = ?
)
group by consumer order by 1`,

    look: {
      inbox: lookTexts(prefix, 'inbox'),
      outbox: lookTexts(prefix, 'outbox'),
    },
    reschedule: `
update ${prefix}inbox set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ?, lease_token = null
where ${ROW} and lease_token is ${UUID}`,
    lockInbox: `select ${SEQ} from ${prefix}inbox where ${ROW} and lease_token is ${UUID} and held_at is null`,
    copyToFailed: `
insert into ${prefix}failed
  (consumer, ${MESSAGE}, lane, ordered, held_seq, attempts, reason, error, error_hash)
select consumer, ${MESSAGE}, lane, ordered, iif(?, seq, null), ?, ?, ?, ? from ${prefix}inbox where ${ROW}
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null`,
    holdInbox: `update ${prefix}inbox set held_at = ${NOW}, aside = 1, waits = 0, attempts = ?, error = ?, starts = 0, lease_token = null
where ${ROW}`,
    inboxSeq: `
select ${SEQ} from ${prefix}inbox as i where consumer = ? and message_key = ${UUID} order by i.seq limit 1`,

    outboxRows: `
select ${SEQ}, source, id, type, key, attributes, data, attempts from ${prefix}outbox as o where ${ROWS} order by o.seq`,
    copyToSent: `
insert into ${prefix}sent (relay, ${MESSAGE})
select relay, ${MESSAGE} from ${prefix}outbox where ${ROWS} order by seq`,
    outboxSeqs: `select ${SEQ} from ${prefix}outbox where ${ROWS}`,
    lockFree: `select ${SEQ}, followed from ${prefix}outbox where ${ROWS}`,
    deleteOutbox: `delete from ${prefix}outbox where ${ROWS}`,
    deleteConfirmed: `delete from ${prefix}outbox where ${ROWS} and followed = 0`,
    postpone: `update ${prefix}outbox set attempts = attempts + 1, available_at = ${LATER}, error = ? where ${ROW}`,
    lockOutbox: `select ${SEQ} from ${prefix}outbox where ${ROW}`,
    refuseToFailed: `
insert into ${prefix}failed
  (origin, consumer, ${MESSAGE}, lane, ordered, attempts, held_seq, reason, error, error_hash)
select 'outbox', relay, ${MESSAGE}, lane, key is not null, attempts + 1, iif(?, seq, null), ?, ?, ?
from ${prefix}outbox where ${ROW}
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null`,
    holdOutbox: `update ${prefix}outbox set held_at = ${NOW}, aside = 1, waits = 0, attempts = attempts + 1, error = ? where ${ROW}`,
    keepNumber: { inbox: keepNumber(prefix, 'inbox', 'consumer'), outbox: keepNumber(prefix, 'outbox', 'relay') },
    recordRelay: `insert into ${prefix}relays (name, destination) values (?, ?) on conflict do nothing`,
    relay: `select destination from ${prefix}relays where name = ?`,

    join: `insert into ${prefix}workers (id, ttl_ms, name, serves) values (?, ?, ?, ?) on conflict do nothing`,
    note: `update ${prefix}workers set in_hand = ?, alone = ? where id = ?`,
    beat: `update ${prefix}workers set in_hand = ?, alone = ?, heartbeat_at = ${NOW} where id = ?`,
    workers: `
select id, name, serves, started_at, ${NOW} - heartbeat_at as silent_ms, ${NOW} - heartbeat_at <= ttl_ms as alive, in_hand
from ${prefix}workers order by id`,
    lockDead: `select id, in_hand, alone from ${prefix}workers where ${NOW} - heartbeat_at > ttl_ms order by id`,
    // Nobody has a row locked: whoever works on one holds the only write lock.
    suspect: `update ${prefix}inbox set starts = starts + 1 where ${ROWS}`,
    crashed: `update ${prefix}inbox set starts = starts + 1, crashes = crashes + 1 where ${ROWS}`,
    leave: `delete from ${prefix}workers where id in (select value from json_each(?))`,

    subscribe: `
insert into ${prefix}subscriptions (consumer, type, ordered) values (?, ?, ?)
on conflict (consumer, type) do update set ordered = max(ordered, excluded.ordered)`,
    subscription: `select ordered from ${prefix}subscriptions where consumer = ? and type = ?`,
  }
}

/** What cannot be had back is ignored: after a fail-over, another row may have the number. */
function keepNumber(prefix: string, table: Origin, scope: string): string {
  const its = (columns: string): string =>
    `(select ${columns} from ${prefix}${table} where ${ROW} and failed_seq is not null)`
  return `
update or ignore ${prefix}failed set (seq, mark) = ${its('failed_seq, failed_mark')}
where origin = '${table}' and (consumer, message_key, fingerprint) = ${its(`${scope}, message_key, fingerprint`)}`
}
