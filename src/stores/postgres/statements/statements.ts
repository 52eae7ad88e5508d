import type { Origin } from '../../../contracts/index.ts'
import { BACKEND, ENTERED, INBOX, LATER, MS, ROWS, SEQ } from './fragments.ts'

type Name =
  | 'migrationTable'
  | 'migrationRows'
  | 'migrationDone'
  | 'takeOne'
  | 'takeMany'
  | 'receipts'
  | 'claim'
  | 'lockAll'
  | 'blocked'
  | 'fate'
  | 'terminate'
  | 'deleteInbox'
  | 'insertInbox'
  | 'insertFailed'
  | 'enter'
  | 'insertOutbox'
  | 'reschedule'
  | 'lockInbox'
  | 'copyToFailed'
  | 'holdInbox'
  | 'inboxSeq'
  | 'outboxRows'
  | 'copyToSent'
  | 'lockFree'
  | 'outboxSeqs'
  | 'deleteConfirmed'
  | 'deleteOutbox'
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

export type Statements = Readonly<Record<Name, string>> & { readonly keepNumber: Readonly<Record<Origin, string>> }

/**
 * Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast.
 * ON CONFLICT names no key: while REINDEX CONCURRENTLY swaps the index, a named one is not found, or is not the only one.
 */
export function statements(schema: string): Statements {
  return {
    migrationTable: `
create table if not exists ${schema}.migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
)`,
    migrationRows: `select version, checksum from ${schema}.migrations`,
    migrationDone: `
insert into ${schema}.migrations (version, name, checksum) values ($1::integer, $2::text, $3::text)`,

    takeOne: `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))
on conflict do nothing
returning message_key::text as message_key, ${BACKEND}`,
    // Sorted, because two groups inserting in different order deadlock. One row comes back: that they are usually all
    // ours is cheaper to say than to list.
    takeMany: `
with taken as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $1::text, m.message_key, $2::uuid, m.source, m.id, m.type, decode(m.fingerprint, 'hex')
  from unnest($3::text::uuid[], $4::text::text[], $5::text::text[], $6::text::text[], $7::text::text[])
    as m (message_key, source, id, type, fingerprint)
  order by m.message_key
  on conflict do nothing
  returning message_key
)
select case when count(*) = $8::integer then 'all' else string_agg(message_key::text, ',') end as message_key, ${BACKEND}
from taken`,
    receipts: `
select message_key::text as message_key, token::text as token, source, id, type,
  encode(fingerprint, 'hex') as fingerprint, ${MS('taken_at')} as taken_at
from ${schema}.receipts where consumer = $1::text and message_key = any ($2::text::uuid[])`,

    // The older rows of a key are only read: nothing ever waits for another worker's row.
    claim: `
with mine as materialized (
  select seq, consumer, lane, key, ordered from ${schema}.inbox
  where ${ROWS('$1', '$2')} and held_at is null
    and (lease_token is null or available_at <= clock_timestamp())
  order by seq for update skip locked
), kept as (
  select seq from mine
  where not ordered or not exists (
    select from ${schema}.inbox older
    where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from mine))
)
delete from ${schema}.inbox where seq = any (array(select seq from kept))
returning ${INBOX}, ${BACKEND}`,
    lockAll: `
select ${SEQ('inbox')} as seq, ${BACKEND} from ${schema}.inbox
where ${ROWS('$1', '$2')} order by inbox.seq for update`,
    blocked: `
select ${SEQ('mine')} as seq from ${schema}.inbox mine
where mine.seq = any ($1::text::bigint[]) and mine.ordered and exists (
  select from ${schema}.inbox older
  where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq <> all ($2::text::bigint[]))`,
    // The transaction's id makes sure that it is still this one.
    fate: `select pg_xact_status($1::text::xid8) as fate`,
    terminate: `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text`,

    deleteInbox: `delete from ${schema}.inbox where ${ROWS('$1', '$2')}`,
    insertInbox: `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), m.attempts, m.starts, ${LATER('m.delay_ms')}, nullif(m.error, ''), m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, lane, ordered, place)
order by m.place`,
    insertFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error, error_hash,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), m.attempts, m.reason, m.error, m.error_hash, m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[],
  $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error,
    error_hash, lane, ordered)
on conflict do nothing`,
    // A list, because several publishes may be under way. It goes with the transaction, and with the savepoint that it was set in.
    enter: `
select set_config('hapax.entered', coalesce(current_setting('hapax.entered', true), '') || $1::text, true) is not null as entered`,
    insertOutbox: `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
select m.relay, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), ${LATER('m.delay_ms')}, m.lane
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[], $11::text::smallint[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, place)
where ${ENTERED('$12')}
order by m.place`,

    reschedule: `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  available_at = ${LATER('$3::float8')}, error = $4::text, lease_token = null
where seq = $5::bigint and mark = $6::bigint and lease_token is not distinct from $7::uuid`,
    lockInbox: `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where seq = $1::bigint and mark = $2::bigint and lease_token is not distinct from $3::uuid and held_at is null for update`,
    copyToFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, held_seq, attempts, reason,
    error, error_hash)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered,
  case when $1::boolean then seq end, $2::integer, $3::text, $4::text, $5::text
from ${schema}.inbox where seq = $6::bigint and mark = $7::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
    holdInbox: `
update ${schema}.inbox set held_at = clock_timestamp(), aside = true, waits = false, attempts = $1::integer, error = $2::text, starts = 0,
  lease_token = null
where seq = $3::bigint and mark = $4::bigint`,
    inboxSeq: `
select ${SEQ('inbox')} as seq from ${schema}.inbox
where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,

    outboxRows: `
select ${SEQ('outbox')} as seq, source, id, type, key, attributes, data, attempts from ${schema}.outbox
where ${ROWS('$1', '$2')} order by outbox.seq`,
    copyToSent: `
insert into ${schema}.sent (message_key, fingerprint, relay, source, id, type, key, attributes, data)
select message_key, fingerprint, relay, source, id, type, key, attributes, data from (
  select * from ${schema}.outbox where ${ROWS('$1', '$2')} order by outbox.seq
) as confirmed`,
    lockFree: `
select ${SEQ('outbox')} as seq, followed from ${schema}.outbox
where ${ROWS('$1', '$2')} order by outbox.seq for update skip locked`,
    outboxSeqs: `select ${SEQ('outbox')} as seq from ${schema}.outbox where ${ROWS('$1', '$2')}`,
    // A server that crashes may bring back what was deleted in its last moment; then it is sent again.
    deleteConfirmed: `
with settings as materialized (
  select set_config('synchronous_commit', 'off', true) as eventually, set_config('lock_timeout', '1s', true) as impatient
)
delete from ${schema}.outbox using settings
where ${ROWS('$1', '$2')} and not followed and eventually = 'off' and impatient = '1s'`,
    deleteOutbox: `delete from ${schema}.outbox where ${ROWS('$1', '$2')}`,
    postpone: `
update ${schema}.outbox set attempts = attempts + 1, available_at = ${LATER('m.delay_ms')}, error = m.error
from unnest($1::text::bigint[], $2::text::bigint[], $3::text::float8[], $4::text::text[]) as m (seq, mark, delay_ms, error)
where outbox.seq = m.seq and outbox.mark = m.mark`,
    lockOutbox: `
select ${SEQ('outbox')} as seq from ${schema}.outbox where seq = $1::bigint and mark = $2::bigint for update`,
    refuseToFailed: `
insert into ${schema}.failed
  (origin, consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, attempts, held_seq,
    reason, error, error_hash)
select 'outbox', relay, message_key, source, id, type, key, attributes, data, fingerprint, lane, key is not null,
  attempts + 1, case when $1::boolean then seq end, $2::text, $3::text, $4::text
from ${schema}.outbox where seq = $5::bigint and mark = $6::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
    holdOutbox: `
update ${schema}.outbox set held_at = clock_timestamp(), aside = true, waits = false, attempts = attempts + 1, error = $1::text
where seq = $2::bigint and mark = $3::bigint`,
    keepNumber: { inbox: keepNumber(schema, 'inbox', 'consumer'), outbox: keepNumber(schema, 'outbox', 'relay') },
    recordRelay: `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text) on conflict do nothing`,
    relay: `select destination from ${schema}.relays where name = $1::text`,

    join: `
insert into ${schema}.workers (id, ttl_ms, name, serves) values ($1::text, $2::integer, $3::text, $4::text)
on conflict do nothing`,
    // Nobody waits for the disk: if the server loses the last moments, no process has died.
    note: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
    beat: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean, heartbeat_at = clock_timestamp()
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
    workers: `
select id, name, serves, ${MS('started_at')} as started_at, ${MS('clock_timestamp() - heartbeat_at')} as silent_ms,
  clock_timestamp() - heartbeat_at <= ttl_ms * interval '1 millisecond' as alive, in_hand
from ${schema}.workers order by id`,
    lockDead: `
select id, in_hand, alone from ${schema}.workers
where clock_timestamp() - heartbeat_at > ttl_ms * interval '1 millisecond' order by id for update skip locked`,
    // A row that is locked is being worked on: its worker is slow to be heard, not dead.
    suspect: `
update ${schema}.inbox set starts = starts + 1 where seq in (
  select seq from ${schema}.inbox where ${ROWS('$1', '$2')} order by seq for update skip locked)`,
    crashed: `
update ${schema}.inbox set starts = starts + 1, crashes = crashes + 1 where seq in (
  select seq from ${schema}.inbox where ${ROWS('$1', '$2')} order by seq for update skip locked)`,
    leave: `delete from ${schema}.workers where id = any ($1::text::text[])`,

    subscribe: `
insert into ${schema}.subscriptions (consumer, type, ordered) values ($1::text, $2::text, $3::boolean)
on conflict (consumer, type) do update set ordered = subscriptions.ordered or excluded.ordered`,
    subscription: `select ordered from ${schema}.subscriptions where consumer = $1::text and type = $2::text`,
  }
}

/** Unless another row has the number, as after a fail-over. */
function keepNumber(schema: string, table: Origin, scope: string): string {
  return `
update ${schema}.failed as f set seq = m.failed_seq, mark = m.failed_mark from ${schema}.${table} as m
where m.seq = $1::bigint and m.mark = $2::bigint and m.failed_seq is not null
  and f.consumer = m.${scope} and f.message_key = m.message_key and f.fingerprint = m.fingerprint and f.origin = '${table}'
  and not exists (select 1 from ${schema}.failed as other where other.seq = m.failed_seq)`
}
