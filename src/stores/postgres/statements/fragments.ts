// Parts that statements share: columns as the engine reads them, and times of the database.

import { REMEMBERED } from '../../../message/index.ts'

/** A time, or a span, in milliseconds. Whole ones: how a fraction is written depends on the session (`extra_float_digits`). */
export const MS = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::bigint`
/** A time so many milliseconds from now. By the clock, not by the start of the transaction, which may be long ago. */
export const LATER = (parameter: string): string => `clock_timestamp() + ${parameter} * interval '1 millisecond'`
/** Makes a row due so many milliseconds from now. Records the current time as well, in case the clock goes back. */
export const DUE_IN = (parameter: string): string => `available_at = ${LATER(parameter)}, set_at = clock_timestamp()`
/** Makes a row due. */
export const DUE_NOW = 'available_at = clock_timestamp(), set_at = clock_timestamp()'
/** What names a row: its number and its mark. */
export const SEQ = (table: string): string => `${table}.seq || '-' || ${table}.mark`
/**
 * Rows by their names. The numbers find them, through the primary key; IS TRUE keeps the planner from joining the marks, which are
 * hashed once instead. That a row has the mark of another one of the list does not happen: marks are random.
 */
export const ROWS = (numbers: string, marks: string): string =>
  `seq = any (${numbers}::text::bigint[]) and (mark in (select unnest(${marks}::text::bigint[]))) is true`
/**
 * Whether the transaction, and the savepoint, is the one that a token was set in; an empty token is in every one. The token is taken
 * from the list: else that would grow with every publish of a transaction. `left` stays in its place, for another write. A query of its
 * own, so that it runs once and not per row.
 */
export const ENTERED = (token: string, left = `''`): string => `(
  select case when ${token}::text = '' then true
    when strpos(list, ${token}::text) > 0 then set_config('hapax.entered', replace(list, ${token}::text, ${left}::text), true) is not null
    else false end
  from (select coalesce(current_setting('hapax.entered', true), '') as list) as entered)`
/** A whole row of the inbox, in few columns, because each costs time on both sides. `state` is null for a row that nothing has happened to. */
export const INBOX: string = `${SEQ('inbox')} as seq, consumer, message_key::text || encode(fingerprint, 'hex') as identity,
  source, id, type, key, attributes, data,
  case when ordered or attempts > 0 or lost > 0 or starts > 0 or crashes > 0 or fence > 0 or followed or lease_token is not null
    then concat_ws(',', ordered, attempts, lost, starts, crashes, fence, followed, lease_token) end as state`
/** How long ago a row of the inbox was due first, if it is of local delivery. */
export const INBOX_AGE: string = `${MS('clock_timestamp() - first_due_at')} as age_ms`
/** A line of a history: when, which attempt, and the entry. */
export const LINE = (attempt: string, entry: string): string =>
  `concat_ws(' ', ${MS('clock_timestamp()')}, ${attempt}, ${entry})`
/** A history with one more line in front, and without those that are too many. */
export const HISTORY = (before: string, attempt: string, entry: string): string =>
  `array_to_string((string_to_array(concat_ws(chr(10), ${LINE(attempt, entry)}, ${before}), chr(10)))[:${REMEMBERED}], chr(10))`
/** Tells a server from its standbys, which know the same transactions, and from itself before a restart. */
export const SERVER = 'extract(epoch from pg_postmaster_start_time())'
/** Names the backend and its transaction, so that it can be ended from outside, and its fate be looked up. */
export const BACKEND_TEXT: string = `pg_backend_pid() || ' ' || pg_current_xact_id() || ' ' || ${SERVER}`
export const BACKEND: string = `${BACKEND_TEXT} as backend`
/** The columns of a message of a row `m`, as they are read. */
export const ROW_MESSAGE: string = `m.message_key::text as message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, encode(m.fingerprint, 'hex') as fingerprint`
/** The columns of a message. */
export const COLUMNS = 'message_key, source, id, type, key, attributes, data, fingerprint'
/** A time that is so long ago. */
export const AGO = (ms: string): string => `clock_timestamp() - ${ms} * interval '1 millisecond'`
/** A time of so many milliseconds since 1970. */
export const AT = (ms: string): string => `'epoch'::timestamptz + ${ms} * interval '1 millisecond'`
