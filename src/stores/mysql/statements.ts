import type { MultiRow } from './batch.ts'

/** A number of placeholders. */
const MANY = (count: number): string => Array(count).fill('?').join(', ')
/** A seq is text in JavaScript; compared as text, the server would round it. */
const SEQ = 'cast(? as signed)'
const SEQS = (count: number): string => Array(count).fill(SEQ).join(', ')

/** By key, even where a table is so small that a scan seems cheaper: a scan locks the rows of others, and deadlocks. */
const BY_KEY = 'force index (primary)'

const MS = (time: string): string => `timestampdiff(microsecond, '1970-01-01', ${time}) / 1000`
/** UTC whatever the time zone of the session is. */
const NOW = 'utc_timestamp(6)'
const LATER = `${NOW} + interval ? microsecond`
const MESSAGE = 'm.message_key, m.source, m.id, m.type, m.`key`, m.attributes, m.data, m.fingerprint'
const INBOX = `cast(m.seq as char) as seq, m.consumer, ${MESSAGE}, m.attempts, m.lost`
const FAILED = `cast(m.seq as char) as seq, m.consumer, ${MESSAGE}, m.attempts, m.reason, m.error, ${MS('m.failed_at')} as failed_at`
const COLUMNS = 'consumer, message_key, source, id, type, `key`, attributes, data, fingerprint'

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
  | 'copyToFailed'
  | 'inboxRow'
  | 'subscribe'
  | 'subscription'
  | 'failedGet'
  | 'failedLock'
  | 'copyToInbox'
  | 'deleteFailed'
  | 'statusConsumers'
  | 'statusOutbox'
type Counted =
  | 'taken'
  | 'receipts'
  | 'lockSkipSerializable'
  | 'deleteInbox'
  | 'listening'
  | 'fresh'
  | 'started'
  | 'nextDue'
  | 'inFlight'
  | 'failedList'
type Rows = 'receipt' | 'insertInbox' | 'insertFailed' | 'insertOutbox'

/** The statements by name: whole ones, those with a number of placeholders, and those with many rows. */
export interface Statements
  extends Readonly<Record<Text, string> & Record<Counted, (count: number) => string> & Record<Rows, MultiRow>> {
  take(timeout: number): MultiRow
  lockSkip(count: number, timeout: number): string
  lockWait(count: number, timeout: number): string
  due(types: number, except: number, limit: number, started: boolean): string
  readonly trace: readonly string[]
}

/** Every statement, whole and by name, valid on MariaDB 10.6 and MySQL 8. */
export function statements(prefix: string): Statements {
  const [receipts, inbox, outbox, failed] = ['receipts', 'inbox', 'outbox', 'failed'].map((name) => prefix + name)
  const [subscriptions, applied] = [`${prefix}subscriptions`, `${prefix}migrations`]
  const lockName = `concat('hapax_', sha1(concat(database(), '.', ?)))`
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
select message_key, token, connection_id() as pid from ${receipts} ${BY_KEY}
where consumer = ? and message_key in (${MANY(count)})`,
    receipts: (count: number) => `
select message_key, token, source, id, type, fingerprint, ${MS('taken_at')} as taken_at
from ${receipts} ${BY_KEY} where consumer = ? and message_key in (${MANY(count)})`,

    // Rows that are gone are left out before anything is locked: a locking read of one locks the gap where it was, and
    // every insert into the inbox would wait for this transaction.
    lockSkip: (count: number, timeout: number) => `
${LOCK_WAIT(timeout)} select cast(m.seq as char) as seq, connection_id() as pid
from (select seq from ${inbox} where seq in (${SEQS(count)}) limit ${count}) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
order by m.seq for update skip locked`,
    // Every read locks on this level, also that of the rows that are there, and it would wait for them.
    lockSkipSerializable: (count: number) => `
select cast(m.seq as char) as seq, connection_id() as pid from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) order by m.seq for update skip locked`,
    lockWait: (count: number, timeout: number) => `
${LOCK_WAIT(timeout)} select cast(m.seq as char) as seq, connection_id() as pid from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) order by m.seq for update`,
    terminate: 'kill ?',

    deleteInbox: (count: number) => `delete m from ${inbox} as m ${BY_KEY} where m.seq in (${SEQS(count)})`,
    insertInbox: {
      head: `insert into ${inbox} (${COLUMNS}, attempts, starts, created_at, available_at, error) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER}, ?)`,
      tail: '',
    },
    insertFailed: {
      head: `insert into ${failed} (${COLUMNS}, attempts, reason, error, failed_at) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW})`,
      tail: 'on duplicate key update message_key = message_key',
    },
    insertOutbox: {
      head: `
insert into ${outbox}
  (relay, message_key, source, id, type, \`key\`, attributes, data, fingerprint, created_at, available_at) values`,
      row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER})`,
      tail: '',
    },

    // A locking read sees what is committed now; the snapshot of the user's transaction may be too old.
    listening: (count: number) => `
select type, consumer from ${subscriptions} ${BY_KEY} where type in (${MANY(count)}) lock in share mode`,
    fresh: (count: number) => `
select message_key from ${receipts} ${BY_KEY} where consumer = ? and token = ? and message_key in (${MANY(count)})`,

    due: (types: number, except: number, limit: number, started: boolean) => `
select ${INBOX}, m.starts + 1 as starts from ${inbox} as m force index (inbox_due)
where m.consumer = ? and m.type in (${MANY(types)}) and m.available_at <= ${NOW} and m.starts ${started ? '>' : '='} 0${except === 0 ? '' : ` and m.seq not in (${SEQS(except)})`}
order by m.available_at, m.seq limit ${Math.trunc(limit)} for update skip locked`,
    started: (count: number) =>
      `update ${inbox} ${BY_KEY} set starts = starts + 1, available_at = ${LATER} where seq in (${SEQS(count)})`,
    nextDue: (types: number) => `
select timestampdiff(microsecond, ${NOW}, available_at) / 1000 as ms from ${inbox}
where consumer = ? and type in (${MANY(types)}) order by available_at limit 1`,
    inFlight: (types: number) => `
select 1 as one from ${inbox} where consumer = ? and type in (${MANY(types)}) and starts > 0 limit 1`,
    reschedule: `
update ${inbox} set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ? where seq = ${SEQ}`,
    copyToFailed: `
insert into ${failed} (${COLUMNS}, attempts, reason, error, failed_at)
select m.consumer, ${MESSAGE}, ?, ?, ?, ${NOW} from ${inbox} as m where m.seq = ${SEQ}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
    inboxRow: `
select ${INBOX}, m.starts from ${inbox} as m where m.consumer = ? and m.message_key = ? order by m.seq limit 1`,

    subscribe: `
insert into ${subscriptions} (type, consumer) values (?, ?) on duplicate key update consumer = consumer`,
    subscription: `select 1 as one from ${subscriptions} where type = ? and consumer = ?`,

    failedList: (limit: number) => `
select ${FAILED} from ${failed} as m
  join (select ? as consumer_, ? as type_, ? as reason_, ${SEQ} as before_) as f
where (f.consumer_ is null or m.consumer = f.consumer_) and (f.type_ is null or m.type = f.type_)
  and (f.reason_ is null or m.reason = f.reason_) and (f.before_ is null or m.seq < f.before_)
order by m.seq desc limit ${Math.trunc(limit)}`,
    failedGet: `select ${FAILED} from ${failed} as m where m.seq = ${SEQ}`,
    failedLock: `select cast(m.seq as char) as seq from ${failed} as m where m.seq = ${SEQ} for update`,
    copyToInbox: `
insert into ${inbox} (${COLUMNS}, created_at, available_at)
select m.consumer, ${MESSAGE}, ${NOW}, ${NOW} from ${failed} as m where m.seq = ${SEQ}`,
    deleteFailed: `delete from ${failed} where seq = ${SEQ}`,

    statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${receipts} group by consumer
  union all
  select consumer, 0, sum(attempts = 0), sum(attempts > 0), 0 from ${inbox} group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${failed} group by consumer
) as counts
group by consumer order by consumer`,
    statusOutbox: `select count(*) as outbox, ${MS('min(created_at)')} as oldest from ${outbox}`,
    trace: [
      `select 'receipt' as place, consumer, source, type, ${MS('taken_at')} as at from ${receipts} where id = ?`,
      `
select 'inbox' as place, consumer, source, type, ${MS('created_at')} as at, attempts, ${MS('available_at')} as due_at, error
from ${inbox} where id = ?`,
      `select 'outbox' as place, relay, source, type, ${MS('created_at')} as at from ${outbox} where id = ?`,
      `
select 'failed' as place, cast(m.seq as char) as seq, m.consumer, m.source, m.type, ${MS('m.failed_at')} as at, m.attempts,
  m.reason, m.error
from ${failed} as m where m.id = ?`,
    ],
  }
}
