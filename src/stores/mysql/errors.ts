import type { ErrorClass } from '../../contracts/index.ts'
import { causesOf, classOfCauses, fieldsOf } from '../sql/index.ts'

/** Error numbers of MySQL and MariaDB by what they mean for the message. */
const CLASSES: Readonly<Record<number, ErrorClass>> = {
  1213: 'conflict', // ER_LOCK_DEADLOCK
  1020: 'conflict', // ER_CHECKREAD: MariaDB's snapshot isolation
  1412: 'conflict', // ER_TABLE_DEF_CHANGED
  // An insert … select waits for the counter, and may be the victim of a deadlock there: its transaction is gone.
  1467: 'conflict', // ER_AUTOINC_READ_FAILED
  3101: 'conflict', // ER_TRANSACTION_ROLLBACK_DURING_COMMIT
  3572: 'conflict', // ER_LOCK_NOWAIT
  1205: 'lock-timeout', // ER_LOCK_WAIT_TIMEOUT
  1305: 'gone', // ER_SP_DOES_NOT_EXIST, for a savepoint
  1146: 'no-schema', // ER_NO_SUCH_TABLE
  // The server closes the link as well, but it would refuse the same statement on any other.
  1153: 'refused', // ER_NET_PACKET_TOO_LARGE
  1118: 'refused', // ER_TOO_BIG_ROWSIZE
  1264: 'refused', // ER_WARN_DATA_OUT_OF_RANGE
  1301: 'refused', // ER_WARN_ALLOWED_PACKET_OVERFLOWED
  1366: 'refused', // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
  1406: 'refused', // ER_DATA_TOO_LONG
  1441: 'refused', // ER_DATETIME_FUNCTION_OVERFLOW
  1021: 'lost', // ER_DISK_FULL
  1030: 'lost', // ER_GET_ERRNO: the storage engine failed
  1036: 'lost', // ER_OPEN_AS_READONLY
  1037: 'lost', // ER_OUTOFMEMORY
  1038: 'lost', // ER_OUT_OF_SORTMEMORY
  1040: 'lost', // ER_CON_COUNT_ERROR
  1041: 'lost', // ER_OUT_OF_RESOURCES
  1045: 'lost', // ER_ACCESS_DENIED_ERROR: of a login
  1047: 'lost', // ER_UNKNOWN_COM_ERROR: a Galera node that is not ready
  1049: 'lost', // ER_BAD_DB_ERROR: of a login; a migration does not create the database
  1053: 'lost', // ER_SERVER_SHUTDOWN
  1114: 'lost', // ER_RECORD_FILE_FULL
  1180: 'lost', // ER_ERROR_DURING_COMMIT
  1203: 'lost', // ER_TOO_MANY_USER_CONNECTIONS
  1206: 'lost', // ER_LOCK_TABLE_FULL
  1226: 'lost', // ER_USER_LIMIT_REACHED
  1317: 'lost', // ER_QUERY_INTERRUPTED: KILL
  1461: 'lost', // ER_MAX_PREPARED_STMT_COUNT_REACHED: by all clients of the server together
  1698: 'lost', // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
  1792: 'lost', // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: the primary has become a replica
  1836: 'lost', // ER_READ_ONLY_MODE
  1874: 'lost', // ER_INNODB_READ_ONLY
  1881: 'lost', // ER_INNODB_FORCED_RECOVERY
  1927: 'lost', // ER_CONNECTION_KILLED
  3168: 'lost', // ER_SERVER_ISNT_AVAILABLE
  3169: 'lost', // ER_SESSION_WAS_KILLED
  4031: 'lost', // ER_CLIENT_INTERACTION_TIMEOUT
}

/** Lacks of resources, or of a database: after one of them the link and the transaction are still there. */
const OF_STATEMENT: ReadonlySet<unknown> = new Set([1021, 1030, 1037, 1038, 1041, 1049, 1114, 1226])

/** ER_OPTION_PREVENTS_STATEMENT: with the option read_only, the primary has become a replica. */
const OPTION_PREVENTS = 1290

/** The server takes no writes: it is a replica, or a node that was cut off from its cluster. */
const NO_WRITES: ReadonlySet<unknown> = new Set([1047, 1792, 1836, 1874])

const LINK_CODES =
  /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT|PROTOCOL_|HANDSHAKE_|POOL_)/
const DRIVER_MESSAGES = /in closed state|Pool is closed|Queue limit reached|No connections available/

interface DatabaseError {
  readonly errno?: unknown
  readonly code?: unknown
  readonly sqlState?: unknown
  readonly message?: unknown
  readonly cause?: unknown
}

/** What an error of the server or of `mysql2` means; ORMs wrap such errors, so causes are looked at as well. */
export function classify(error: unknown): ErrorClass {
  return classOfCauses(error, classOf)
}

function classOf({ errno, code, sqlState, message }: DatabaseError): ErrorClass {
  if (typeof sqlState === 'string') {
    if (errno === OPTION_PREVENTS && /read.only/.test(String(message))) return 'lost'
    const found = CLASSES[Number(errno)]
    if (found === undefined && sqlState.startsWith('08')) return 'lost'
    return found ?? (sqlState === '40001' ? 'conflict' : 'other')
  }
  if (typeof code === 'string' && LINK_CODES.test(code)) return 'lost'
  return typeof message === 'string' && DRIVER_MESSAGES.test(message) ? 'lost' : 'other'
}

/** Whether the server takes no writes: it has been a primary, or has never been one. */
export function isReadOnly(error: unknown): boolean {
  const chain: Iterable<DatabaseError> = causesOf(error)
  for (const { sqlState, errno, message } of chain) {
    if (typeof sqlState !== 'string') continue
    return NO_WRITES.has(errno) || (errno === OPTION_PREVENTS && /read.only/.test(String(message)))
  }
  return false
}

/** Whether a login was refused because the server or the user has as many connections as it may. */
export function isServerFull(error: unknown): boolean {
  const { errno, message }: DatabaseError = fieldsOf(error)
  // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED
  return errno === 1040 || errno === 1203 || (errno === 1226 && /max_user_connections/.test(String(message)))
}

/**
 * Whether the server itself reported an error that leaves no doubt: then a commit is known not to have happened.
 * After KILL, a shutdown or a failure of the storage engine there is doubt.
 */
export function answered(error: unknown): boolean {
  const { sqlState }: DatabaseError = fieldsOf(error)
  return typeof sqlState === 'string' && sqlState !== '' && classify(error) !== 'lost'
}

/** Whether the client refused a statement because its link had gone before. */
export function isUnsent(error: unknown): boolean {
  const { message }: DatabaseError = fieldsOf(error)
  return /in closed state/.test(String(message))
}

/** Whether the server would not prepare a statement, and so has not run it: not at all, or not one more for now. */
export function isUnprepared(error: unknown): boolean {
  const { errno }: DatabaseError = fieldsOf(error)
  // ER_UNSUPPORTED_PS, ER_MAX_PREPARED_STMT_COUNT_REACHED
  return errno === 1295 || errno === 1461
}

/**
 * What an error of a handler's own statement makes of its transaction. A lack of resources is the statement's own: the next
 * attempt may meet it again.
 */
export function doomOf(error: unknown): 'conflict' | 'lost' | undefined {
  const kind = classify(error)
  if (kind === 'lost' && isOfStatement(error)) return undefined
  // A lock timeout undoes its statement only: the transaction must not commit without it.
  if (kind === 'lock-timeout') return 'conflict'
  return kind === 'conflict' || kind === 'lost' ? kind : undefined
}

function isOfStatement(error: unknown): boolean {
  const chain: Iterable<DatabaseError> = causesOf(error)
  for (const { sqlState, errno } of chain) if (typeof sqlState === 'string') return OF_STATEMENT.has(errno)
  return false
}
