import type { ErrorClass } from '../../contracts/index.ts'
import { classOfCauses, fieldsOf, sqliteCode } from '../sql/index.ts'

/** Primary result codes by what they mean for the message. */
const CLASSES: Readonly<Record<number, ErrorClass>> = {
  5: 'conflict', // SQLITE_BUSY, and BUSY_SNAPSHOT
  6: 'conflict', // SQLITE_LOCKED
  7: 'lost', // SQLITE_NOMEM
  8: 'lost', // SQLITE_READONLY
  9: 'lost', // SQLITE_INTERRUPT
  10: 'lost', // SQLITE_IOERR
  11: 'lost', // SQLITE_CORRUPT
  13: 'lost', // SQLITE_FULL
  14: 'lost', // SQLITE_CANTOPEN
  15: 'lost', // SQLITE_PROTOCOL
  18: 'refused', // SQLITE_TOOBIG
  26: 'lost', // SQLITE_NOTADB
}

/** Codes of drivers about the connection itself. */
const LINKS: Readonly<Record<string, ErrorClass>> = {
  ERR_INVALID_STATE: 'lost',
  CLIENT_CLOSED: 'lost',
  HRANA_WEBSOCKET_ERROR: 'lost',
  HRANA_CLOSED_ERROR: 'lost',
  TRANSACTION_CLOSED: 'gone',
}

const IOERR = 10

interface SqliteError {
  readonly code?: unknown
  readonly message?: unknown
}

/** What an error of SQLite means; libraries wrap such errors, so causes are looked at as well. */
export function classify(error: unknown): ErrorClass {
  return classOfCauses(error, classOf)
}

function classOf(error: SqliteError): ErrorClass {
  const link = typeof error.code === 'string' ? LINKS[error.code] : undefined
  if (link !== undefined) return link
  const code = sqliteCode(error)
  if (code === undefined) return 'other'
  if (code === 1 && typeof error.message === 'string') {
    // libsql writes the name of the code in front.
    const message = error.message.replace(/^SQLITE_ERROR: /, '')
    if (/(^|[-:] )(no such savepoint|cannot (commit|rollback) - no transaction is active)/.test(message)) return 'gone'
    if (/(^|[-:] )no such table/.test(message)) return 'no-schema'
  }
  return CLASSES[code] ?? 'other'
}

/** What an error of a statement makes of its transaction. */
export function doomOf(error: unknown): 'conflict' | 'lost' | undefined {
  const kind = classify(error)
  return kind === 'conflict' || kind === 'lost' ? kind : undefined
}

/** Whether SQLite reported that a commit has not happened; after an I/O error it cannot know. */
export function answered(error: unknown): boolean {
  const code = sqliteCode(fieldsOf(error))
  return code !== undefined && code !== IOERR
}
