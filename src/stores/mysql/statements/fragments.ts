// Parts that statements share: columns as the engine reads them, parameters, times.

import type { Result } from '../../../contracts/index.ts'
import { REMEMBERED } from '../../../message/index.ts'
import { MYSQL_ONLY } from '../../sql/index.ts'

/** What is made of a number, kept for the numbers that have come: there are few. */
export function byNumber<T>(make: (number: number) => T): (number: number) => T {
  const made = new Map<number, T>()
  return (number) => {
    const found = made.get(number) ?? make(number)
    made.set(number, found)
    return found
  }
}

/** A number of placeholders. */
export const MANY = (count: number): string => Array(count).fill('?').join(', ')
/** A number of a row is text in JavaScript; compared as text, the server would round it. */
export const SEQ: string = 'cast(? as signed)'
/** The same for several rows. */
export const SEQS = (count: number): string => Array(count).fill(SEQ).join(', ')
/** What names a row: its number and its mark. */
export const NAME = (table: string = 'm'): string => `concat(${table}.seq, '-', ${table}.mark)`
/** A row by its name. */
export const ROW: string = `seq = ${SEQ} and mark = ${SEQ}`
/** By key, even where a table is so small that a scan seems cheaper: a scan locks the rows of others, and deadlocks. */
export const BY_KEY: string = 'force index (primary)'

/** A list as a table of its own, which the limit keeps it. The parameter is JSON; see `list` and `named` in rows.ts. */
const LIST = (columns: string): string =>
  `(select * from json_table(convert(? using utf8mb4), '$[*]' columns (${columns})) as j limit 1000000) as listed`

/**
 * Rows by their names, joined to a list of them. With IN, both servers may read a small table as a whole, whatever index is forced:
 * a statement that locks would wait for rows that others have in hand, and keep those of neighbours.
 */
export const ROWS = (table: string, as: string = 'm'): string =>
  `${LIST("seq bigint path '$[0]', mark bigint path '$[1]'")}
  straight_join ${table} as ${as} ${BY_KEY} on ${as}.seq = listed.seq and ${as}.mark = listed.mark`
/** Rows by their numbers, in the same way. */
export const NUMBERED = (table: string, as: string = 'm'): string =>
  `${LIST("seq bigint path '$'")} straight_join ${table} as ${as} ${BY_KEY} on ${as}.seq = listed.seq`
/** Rows by a column of bytes in the primary key. */
export const KEYED = (table: string, column: string): string =>
  `${LIST("k varchar(8192) path '$'")} straight_join ${table} as m ${BY_KEY} on m.${column} = unhex(listed.k)`

/** The name of the session: see `mark` in session.ts. */
export const LINK: string = '@hapax_link as link'

/** A time as milliseconds since 1970, in UTC as all times of hapax. */
export const MS = (time: string): string => `timestampdiff(microsecond, '1970-01-01', ${time}) / 1000`
/** UTC whatever the time zone of the session is. */
export const NOW: string = 'utc_timestamp(6)'
/** A time so many microseconds from now. */
export const LATER: string = `${NOW} + interval ? microsecond`
/** Makes a row due so many microseconds from now. Records the current time as well, in case the clock goes back. */
export const DUE_IN = (row = ''): string => `${row}available_at = ${LATER}, ${row}set_at = ${NOW}`
/** Makes a row due. */
export const DUE_NOW: string = `available_at = ${NOW}, set_at = ${NOW}`
/** A line of a history: when, which attempt, and the entry, which is a parameter. */
export const LINE = (attempt: string): string =>
  `concat_ws(' ', timestampdiff(microsecond, '1970-01-01', ${NOW}) div 1000, ${attempt}, ?)`
/** A history with one more line in front, and without those that are too many. In bytes, as all texts. */
export const HISTORY = (before: string, attempt: string): string =>
  `substring_index(concat_ws(x'0a', ${LINE(attempt)}, ${before}), x'0a', ${REMEMBERED})`
/** The columns of a message, in the order of `asMessage`. */
export const MESSAGE: string = 'm.message_key, m.source, m.id, m.type, m.`key`, m.attributes, m.data, m.fingerprint'
/** A whole row of the inbox, as the engine reads it. */
export const INBOX: string = `${NAME()} as seq, m.consumer, ${MESSAGE}, m.ordered, m.attempts, m.lost, m.starts, m.crashes,
  m.lease_token, m.fence, m.followed`
/** How long ago a row of the inbox was due first, if it is of local delivery. */
export const INBOX_AGE: string = `timestampdiff(microsecond, m.first_due_at, ${NOW}) / 1000 as age_ms`
/** The columns of a message to write. */
export const COLUMNS: string = 'message_key, source, id, type, `key`, attributes, data, fingerprint'
/** How long until a row is due; negative: it is. */
export const DUE: string = `timestampdiff(microsecond, ${NOW}, m.available_at) / 1000 as ms`
/** How long a worker has been silent. */
export const SILENT: string = `timestampdiff(microsecond, heartbeat_at, ${NOW}) / 1000`
/** The largest number of a row. */
export const MAX_SEQ = '9223372036854775807'
/** A limit for all rows. */
export const ALL: number = Number.MAX_SAFE_INTEGER
/** A limit cannot be a parameter everywhere. */
export const LIMIT = (limit: number): string => `limit ${Math.trunc(limit)}`
/** A time that is so long ago. */
export const AGO = (microseconds: string): string => `${NOW} - interval ${microseconds} microsecond`

/** A time of so many milliseconds since 1970. */
export const AT = (ms: string): string => `timestamp'1970-01-01 00:00:00' + interval ${ms} * 1000 microsecond`

/** The names of the tables. */
export function tables(prefix: string): Readonly<Record<TableName, string>> {
  const named = (name: TableName): string => `${prefix}${name}`
  return {
    receipts: named('receipts'),
    inbox: named('inbox'),
    outbox: named('outbox'),
    failed: named('failed'),
    sent: named('sent'),
    effects: named('effects'),
    responses: named('responses'),
    endpoints: named('endpoints'),
    operations: named('operations'),
    pauses: named('pauses'),
    samples: named('samples'),
    workers: named('workers'),
    relays: named('relays'),
    subscriptions: named('subscriptions'),
    audit: named('audit'),
    migrations: named('migrations'),
  }
}

type TableName =
  | 'receipts'
  | 'inbox'
  | 'outbox'
  | 'failed'
  | 'sent'
  | 'effects'
  | 'responses'
  | 'endpoints'
  | 'operations'
  | 'pauses'
  | 'samples'
  | 'workers'
  | 'relays'
  | 'subscriptions'
  | 'audit'
  | 'migrations'

/** What comes back for a statement that is left out, or returns nothing. */
export const NO_RESULT: Result = { rows: [], affected: 0 }
/** An INSERT that returns its rows, on MariaDB; where a row was there before, that one. */
export const RETURNING = '/*M!100500 returning'
/** The lock timeout of one statement, on MariaDB. */
export const LOCK_WAIT = (timeout: number): string =>
  `/*M!100100 set statement innodb_lock_wait_timeout = ${timeout} for */`
/** MySQL has it only by session. The first value that a session had is remembered, whatever happens in between. */
export const lockWaitSet = (ms: number): string =>
  `${MYSQL_ONLY} set @hapax_lock_wait = coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout), session innodb_lock_wait_timeout = ${seconds(ms)} */`

/** A lock timeout in whole seconds, as the servers have it; 0 would mean not to wait at all. */
export function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
