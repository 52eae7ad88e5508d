import type { ErrorClass } from '../../contracts/index.ts'
import { causesOf, classOfCauses, fieldsOf } from '../sql/index.ts'
import { isStalePlan } from './prepared.ts'

/** SQLSTATEs by what they mean for the message; a prefix of two characters stands for its class. */
const CLASSES: Readonly<Record<string, ErrorClass>> = {
  '40001': 'conflict', // serialization_failure
  '40P01': 'conflict', // deadlock_detected
  '55P03': 'lock-timeout', // lock_not_available
  '57014': 'cancelled', // query_canceled: statement_timeout
  '25P02': 'aborted', // in_failed_sql_transaction
  '25P01': 'gone', // no_active_sql_transaction
  '3B001': 'gone', // invalid_savepoint_specification
  '25P03': 'lost', // idle_in_transaction_session_timeout
  '25P04': 'lost', // transaction_timeout
  '57P01': 'lost', // admin_shutdown
  '57P02': 'lost', // crash_shutdown
  '57P03': 'lost', // cannot_connect_now
  '57P05': 'lost', // idle_session_timeout
  '42P01': 'no-schema', // undefined_table
  '3F000': 'no-schema', // invalid_schema_name
  '22001': 'refused', // string_data_right_truncation
  '22003': 'refused', // numeric_value_out_of_range
  '22008': 'refused', // datetime_field_overflow
  '22021': 'refused', // character_not_in_repertoire
  '22P02': 'refused', // invalid_text_representation
  '22P05': 'refused', // untranslatable_character: the encoding of the database lacks it
  '54': 'refused', // program limits: an index row that is too large
  '25006': 'lost', // read_only_sql_transaction: the primary has become a standby
  '08': 'lost', // connection exceptions
  '53': 'lost', // insufficient resources: disk full, out of memory, too many connections
  '58': 'lost', // system errors
  XX: 'lost', // internal errors
}

/** A value of more than 1 GB, which is an internal error to PostgreSQL. */
const TOO_LARGE = /^invalid memory alloc request size/

// Those of postgres.js begin with CONNECT.
const SOCKET_ERRORS =
  /^(CONNECTION_|CONNECT_TIMEOUT|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT)/
const IN_RECOVERY = /during recovery|recovery is in progress|hot standby/
const DRIVER_MESSAGES =
  /Connection terminated|connection error and is not queryable|Client was closed|timeout exceeded when trying to connect|Query read timeout|Cannot use a pool after calling end|PGlite is clos(?:ed|ing)/

interface DatabaseError {
  readonly code?: unknown
  readonly severity?: unknown
  readonly message?: unknown
  readonly constraint?: unknown
  /** The functions that were running, in the language of the server. */
  readonly where?: unknown
  readonly cause?: unknown
}

/** What an error of PostgreSQL or its driver means; ORMs wrap such errors, so causes are looked at as well. */
export function classify(error: unknown): ErrorClass {
  return classOfCauses(error, classOf)
}

function classOf(error: DatabaseError): ErrorClass {
  const kind = kindOf(error)
  return (kind === 'refused' || kind === 'no-schema') && isOfTrigger(error) ? 'other' : kind
}

/** Whether a function of the application's met it, which its triggers call, at COMMIT too: hapax runs none itself. */
function isOfTrigger({ where }: DatabaseError): boolean {
  return typeof where === 'string' && /\bPL\//.test(where)
}

function kindOf({ code, severity, message, constraint }: DatabaseError): ErrorClass {
  if (severity === 'FATAL' || severity === 'PANIC') return 'lost'
  if (typeof code === 'string') {
    // REINDEX CONCURRENTLY can make an ON CONFLICT insert fail on our own key; that says nothing about the message.
    if (code === '23505' && /^hapax_receipts_key(_cc(new|old)\d*)?$/.test(String(constraint))) return 'conflict'
    if (code === 'XX000' && TOO_LARGE.test(String(message))) return 'refused'
    const found = CLASSES[code] ?? CLASSES[code.slice(0, 2)]
    if (found !== undefined && code.length === 5) return found
    // A standby refuses some statements otherwise than as read-only.
    if ((code === '55000' || code === '0A000') && IN_RECOVERY.test(String(message))) return 'lost'
    if (SOCKET_ERRORS.test(code)) return 'lost'
  }
  return typeof message === 'string' && DRIVER_MESSAGES.test(message) ? 'lost' : 'other'
}

/** Whether the server takes no writes: it has been a primary, or has never been one. */
export function isReadOnly(error: unknown): boolean {
  for (const { code, message } of databaseErrors(error)) {
    if (code === '25006') return true
    if ((code === '55000' || code === '0A000') && IN_RECOVERY.test(String(message))) return true
  }
  return false
}

/** Whether a login was refused because the server, the database or the role has as many connections as it may. */
export function isServerFull(error: unknown): boolean {
  for (const { code } of databaseErrors(error)) if (code === '53300') return true
  return false
}

/**
 * What an error of a handler's own statement makes of its transaction. A lack of resources or an internal error is the
 * statement's own, as long as the link is there: the next attempt may meet it again.
 */
export function doomOf(error: unknown): 'conflict' | 'lost' | undefined {
  if (isStalePlan(error)) return 'conflict'
  const kind = classify(error)
  if (kind === 'lost' && isOfStatement(error)) return undefined
  return kind === 'conflict' || kind === 'lost' ? kind : undefined
}

function isOfStatement(error: unknown): boolean {
  for (const { code, severity } of databaseErrors(error)) {
    if (severity !== undefined) return severity === 'ERROR' && /^(53|58|XX)...$/.test(String(code))
  }
  return false
}

/** Whether the client refused a statement because its link had gone before. */
export function isUnsent(error: unknown): boolean {
  const { message }: DatabaseError = fieldsOf(error)
  return /is not queryable/.test(String(message))
}

/** Whether the server itself reported this error: then a commit is known not to have happened. */
export function answered(error: unknown): boolean {
  for (const { code, severity } of databaseErrors(error)) {
    if (severity !== undefined) return severity === 'ERROR' && typeof code === 'string' && code !== '40003'
  }
  return false
}

function databaseErrors(error: unknown): Iterable<DatabaseError> {
  return causesOf(error)
}
