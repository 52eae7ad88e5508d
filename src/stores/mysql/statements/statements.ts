import type { Origin } from '../../../contracts/index.ts'
import type { MultiRow } from './batch.ts'
import {
  BY_KEY,
  COLUMNS,
  INBOX,
  KEYED,
  LATER,
  LINK,
  MANY,
  MESSAGE,
  MS,
  NAME,
  NOW,
  ROW,
  ROWS,
  SEQ,
  SEQS,
  SILENT,
} from './fragments.ts'
import { type LookTexts, lookTexts } from './look-texts.ts'

/** A lock timeout in whole seconds, as the servers have it; 0 would mean not to wait at all. */
export function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** Marks a statement that only MySQL runs; to MariaDB it is empty. */
export const MYSQL_ONLY = '/*!80000'

/** The lock timeout of one statement, on MariaDB. */
const LOCK_WAIT = (timeout: number): string => `/*M!100100 set statement innodb_lock_wait_timeout = ${timeout} for */`

/** MySQL has it only by session. The first value that a session had is remembered, whatever happens in between. */
export const lockWaitSet = (ms: number): string =>
  `${MYSQL_ONLY} set @hapax_lock_wait = coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout), session innodb_lock_wait_timeout = ${seconds(ms)} */`
export const LOCK_WAIT_RESET: string = `${MYSQL_ONLY} set session innodb_lock_wait_timeout = cast(coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout) as unsigned) */`

type Text =
  | 'migrationLock'
  | 'migrationUnlock'
  | 'migrationTable'
  | 'migrationRows'
  | 'migrationDone'
  | 'terminate'
  | 'reschedule'
  | 'lockInbox'
  | 'copyToFailed'
  | 'holdInbox'
  | 'inboxSeq'
  | 'postpone'
  | 'lockOutbox'
  | 'refuseToFailed'
  | 'holdOutbox'
  | 'recordRelay'
  | 'relay'
  | 'join'
  | 'note'
  | 'workers'
  | 'lockDead'
  | 'subscribe'
  | 'subscription'
  | 'claim'
  | 'claimSerializable'
  | 'deleteInbox'
  | 'outboxRows'
  | 'outboxSeqs'
  | 'lockFree'
  | 'copyToSent'
  | 'deleteOutbox'
  | 'deleteConfirmed'
  | 'suspect'
  | 'crashed'
  | 'leave'
  | 'listening'
type Counted = 'taken' | 'receipts' | 'blocked' | 'fresh'
type Rows = 'receipt' | 'insertInbox' | 'insertFailed' | 'insertOutbox'

/** The statements by name: whole ones, those with a number of placeholders, and those with many rows. */
export interface Statements
  extends Readonly<Record<Text, string> & Record<Counted, (count: number) => string> & Record<Rows, MultiRow>> {
  take(timeout: number): MultiRow
  lockAll(timeout: number): string
  readonly look: Readonly<Record<Origin, LookTexts>>
  readonly keepNumber: Readonly<Record<Origin, string>>
}

/** Every statement, whole and by name, valid on MariaDB 10.6 and MySQL 8. */
export function statements(prefix: string): Statements {
  const [receipts, inbox, outbox, failed] = [
    `${prefix}receipts`,
    `${prefix}inbox`,
    `${prefix}outbox`,
    `${prefix}failed`,
  ]
  const [subscriptions, workers, relays] = [`${prefix}subscriptions`, `${prefix}workers`, `${prefix}relays`]
  const [applied, sent] = [`${prefix}migrations`, `${prefix}sent`]
  // A name has 64 characters at most, and MySQL 9 has no sha1().
  const lockName = `concat('hapax_', left(sha2(concat(database(), '.', ?), 256), 40))`
  const receipt: MultiRow = {
    head: `insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at) values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ${NOW})`,
    // Not INSERT IGNORE: that would also ignore values that do not fit.
    tail: 'on duplicate key update message_key = message_key',
  }
  return {
    // Without the lock the subquery fails: a lock that was not got is no error by itself.
    migrationLock: `select if(get_lock(${lockName}, 60) = 1, 1, (select 1 union select 2)) as locked`,
    migrationUnlock: `do release_lock(${lockName})`,
    migrationTable: `
create table if not exists ${applied} (
  version int not null primary key,
  name varbinary(255) not null,
  checksum varbinary(64) not null,
  applied_at datetime(6) not null
) engine = innodb row_format = dynamic`,
    migrationRows: `select version, checksum from ${applied}`,
    migrationDone: `insert into ${applied} (version, name, checksum, applied_at) values (?, ?, ?, ${NOW})`,

    receipt,
    take: (timeout: number): MultiRow => ({ ...receipt, head: `${LOCK_WAIT(timeout)} ${receipt.head}` }),
    taken: (count: number) => `
select message_key, token, ${LINK} from ${receipts} ${BY_KEY}
where consumer = ? and message_key in (${MANY(count)})`,
    receipts: (count: number) => `
select message_key, token, source, id, type, fingerprint, ${MS('taken_at')} as taken_at
from ${receipts} ${BY_KEY} where consumer = ? and message_key in (${MANY(count)})`,

    // Rows that are gone are left out before anything is locked: a locking read of one locks the gap where it was, and
    // every insert into the inbox would wait for this transaction.
    claim: `
select ${INBOX}, ${LINK}
from (select m.seq from ${ROWS(inbox)} limit 1000000) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is null and (m.lease_token is null or m.available_at <= ${NOW})
order by m.seq for update skip locked`,
    // Every read locks on this level, also that of the rows that are there, and it would wait for them.
    claimSerializable: `
select ${INBOX}, ${LINK} from ${ROWS(inbox)}
where m.held_at is null and (m.lease_token is null or m.available_at <= ${NOW})
order by m.seq for update skip locked`,
    lockAll: (timeout: number) => `
${LOCK_WAIT(timeout)} select ${NAME()} as seq, ${LINK} from ${ROWS(inbox)}
order by m.seq for update`,
    // A plain read, which waits for nobody; where the server is set to SERIALIZABLE it locks, but does not wait for long.
    // The oldest row of the key outside these is found from the front: what waits behind them costs nothing.
    blocked: (count: number) => `
${LOCK_WAIT(1)} select ${NAME()} as seq from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) and m.key_hash is not null and m.seq > (
  select older.seq from ${inbox} as older force index (inbox_key)
  where older.consumer = m.consumer and older.lane = m.lane and older.key_hash = m.key_hash
    and older.seq not in (${SEQS(count)})
  order by older.seq limit 1)`,
    // Whoever holds the lock of that name is the one; if nobody does, this is an error, and nobody is hit.
    terminate: 'kill is_used_lock(?)',

    deleteInbox: `delete m from ${ROWS(inbox)}`,
    insertInbox: {
      head: `
insert into ${inbox} (consumer, ${COLUMNS}, attempts, starts, created_at, available_at, error, lane, ordered) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER}, ?, ?, ?)`,
      tail: '',
    },
    insertFailed: {
      head: `
insert into ${failed} (consumer, ${COLUMNS}, attempts, reason, error, error_hash, lane, ordered, failed_at) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW})`,
      tail: 'on duplicate key update message_key = message_key',
    },
    insertOutbox: {
      head: `insert into ${outbox} (relay, ${COLUMNS}, created_at, available_at, lane) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER}, ?)`,
      tail: '',
    },

    // A locking read sees what is committed now; the snapshot of the user's transaction may be too old.
    listening: `
select m.type, m.consumer, m.ordered from ${KEYED(subscriptions, 'type')} lock in share mode`,
    fresh: (count: number) => `
select message_key from ${receipts} ${BY_KEY} where consumer = ? and token = ? and message_key in (${MANY(count)})`,

    look: {
      inbox: lookTexts({ table: inbox, subscriptions }, 'inbox', 'consumer', 'm.starts'),
      outbox: lookTexts({ table: outbox, subscriptions }, 'outbox', 'relay', '0'),
    },
    reschedule: `
update ${inbox} set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ?, lease_token = null
where ${ROW} and lease_token <=> ?`,
    lockInbox: `
select ${NAME()} as seq from ${inbox} as m where ${ROW} and m.lease_token <=> ? and m.held_at is null for update`,
    copyToFailed: `
insert into ${failed}
  (consumer, ${COLUMNS}, lane, ordered, held_seq, attempts, reason, error, error_hash, failed_at)
select m.consumer, ${MESSAGE}, m.lane, m.ordered, if(? = 1, m.seq, null), ?, ?, ?, ?, ${NOW}
from ${inbox} as m where ${ROW}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null`,
    holdInbox: `update ${inbox} set held_at = ${NOW}, aside = 1, waits = 0, attempts = ?, error = ?, starts = 0, lease_token = null
where ${ROW}`,
    inboxSeq: `
select ${NAME()} as seq from ${inbox} as m
where m.consumer = ? and m.message_key = ? order by m.seq limit 1`,

    outboxRows: `
select ${NAME()} as seq, m.source, m.id, m.type, m.\`key\`, m.attributes, m.data, m.attempts from ${ROWS(outbox)}
order by m.seq`,
    copyToSent: `
insert into ${sent} (relay, ${COLUMNS}, sent_at)
select m.relay, ${MESSAGE}, ${NOW} from ${ROWS(outbox)} order by m.seq for update`,
    outboxSeqs: `select ${NAME()} as seq from ${ROWS(outbox)}`,
    lockFree: `select ${NAME()} as seq, m.followed from ${ROWS(outbox)} order by m.seq for update skip locked`,
    // The limit keeps MySQL from merging what it selects into the delete, which it then refuses.
    deleteConfirmed: `
delete m from (
  select f.seq from ${ROWS(outbox, 'f')} limit 1000000 for update skip locked
) as free straight_join ${outbox} as m ${BY_KEY} on m.seq = free.seq
where m.followed = 0`,
    deleteOutbox: `delete m from ${ROWS(outbox)}`,
    postpone: `
update ${outbox} set attempts = attempts + 1, available_at = ${LATER}, error = ? where ${ROW}`,
    lockOutbox: `select ${NAME()} as seq from ${outbox} as m where ${ROW} for update`,
    refuseToFailed: `
insert into ${failed}
  (origin, consumer, ${COLUMNS}, lane, ordered, attempts, held_seq, reason, error, error_hash, failed_at)
select 'outbox', m.relay, ${MESSAGE}, m.lane, m.\`key\` is not null, m.attempts + 1, if(? = 1, m.seq, null), ?, ?, ?, ${NOW}
from ${outbox} as m where ${ROW}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null`,
    holdOutbox: `
update ${outbox} set held_at = ${NOW}, aside = 1, waits = 0, attempts = attempts + 1, error = ? where ${ROW}`,
    keepNumber: { inbox: keepNumber(failed, inbox, 'inbox'), outbox: keepNumber(failed, outbox, 'outbox') },
    recordRelay: `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW}) on duplicate key update name = name`,
    relay: `select destination from ${relays} where name = ?`,

    join: `
insert into ${workers} (id, ttl_ms, name, serves, in_hand, started_at, heartbeat_at)
values (?, ?, ?, ?, '[]', ${NOW}, ${NOW})
on duplicate key update id = id`,
    // Also without a heartbeat the time changes: what is written anew as it was may count as no row at all.
    note: `update ${workers} set in_hand = ?, alone = ?, heartbeat_at = ${NOW} where id = ?`,
    workers: `
select id, name, serves, ${MS('started_at')} as started_at, ${SILENT} as silent_ms, ${SILENT} <= ttl_ms as alive, in_hand
from ${workers} order by id`,
    // Found without locks, so that those who are alive never wait.
    lockDead: `
select m.id, m.in_hand, m.alone
from (select id from ${workers} where ${SILENT} > ttl_ms limit 1000) as dead
  straight_join ${workers} as m ${BY_KEY} on m.id = dead.id
where ${SILENT} > ttl_ms order by m.id for update skip locked`,
    // A row that is locked is being worked on: its worker is slow to be heard, not dead.
    suspect: `
update (
  select f.seq from ${ROWS(inbox, 'f')} order by f.seq limit 1000000 for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY} on m.seq = free.seq
set m.starts = m.starts + 1`,
    crashed: `
update (
  select f.seq from ${ROWS(inbox, 'f')} order by f.seq limit 1000000 for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY} on m.seq = free.seq
set m.starts = m.starts + 1, m.crashes = m.crashes + 1`,
    leave: `delete m from ${KEYED(workers, 'id')}`,

    subscribe: `
insert into ${subscriptions} (type, consumer, ordered) values (?, ?, ?)
on duplicate key update ordered = greatest(ordered, values(ordered))`,
    subscription: `select ordered from ${subscriptions} where type = ? and consumer = ?`,
  }
}

/** Unless another row has the number, as after a fail-over. */
function keepNumber(failed: string, table: string, origin: Origin): string {
  return `
update ${table} as m ${BY_KEY}
  straight_join ${failed} as f on f.consumer = m.${origin === 'inbox' ? 'consumer' : 'relay'} and f.message_key = m.message_key
    and f.fingerprint = m.fingerprint and f.origin = '${origin}'
  left join ${failed} as other on other.seq = m.failed_seq
set f.seq = m.failed_seq, f.mark = m.failed_mark
where m.seq = ${SEQ} and m.mark = ${SEQ} and m.failed_seq is not null and other.seq is null`
}
