// Parts that statements share: columns as the engine reads them, and times of the database.

/** A time, or a span, in milliseconds. */
export const MS = (column: string): string => `(extract(epoch from ${column}) * 1000)::float8`
export const LATER = (parameter: string): string => `clock_timestamp() + ${parameter} * interval '1 millisecond'`
const MESSAGE: string = `message_key::text as message_key, source, id, type, key, attributes, data, encode(fingerprint, 'hex') as fingerprint`
/** A whole row of the inbox. */
export const INBOX: string = `seq::text as seq, consumer, ${MESSAGE}, ordered, attempts, lost, starts, crashes,
  lease_token::text as lease_token, fence`
export const BACKEND: string = `pg_backend_pid() as pid, pg_current_xact_id()::text as xid`
