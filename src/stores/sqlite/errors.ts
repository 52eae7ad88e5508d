import type { ErrorClass } from '../../contracts/index.ts'
import { classOfCauses, fieldsOf } from '../sql/index.ts'

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

const BUSY = 5
const IOERR = 10

interface SqliteError {
  readonly code?: unknown
  readonly errcode?: unknown
  readonly message?: unknown
  readonly cause?: unknown
}

/** What an error of SQLite means; libraries wrap such errors, so causes are looked at as well. */
export function classify(error: unknown): ErrorClass {
  return classOfCauses(error, classOf)
}

function classOf(error: SqliteError): ErrorClass {
  if (error.code === 'ERR_INVALID_STATE') return 'lost'
  const code = primaryCode(error)
  if (code === undefined) return 'other'
  if (code === 1 && typeof error.message === 'string') {
    if (/^no such savepoint|no transaction is active/.test(error.message)) return 'gone'
    if (error.message.startsWith('no such table')) return 'no-schema'
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
  const code = primaryCode(fieldsOf(error))
  return code !== undefined && code !== IOERR
}

/** Whether another process holds the lock, so that nothing has happened yet. */
export function isBusy(error: unknown): boolean {
  return primaryCode(fieldsOf(error)) === BUSY
}

/** The result code without its extension. */
function primaryCode({ code, errcode }: SqliteError): number | undefined {
  return code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number' ? errcode & 0xff : undefined
}
