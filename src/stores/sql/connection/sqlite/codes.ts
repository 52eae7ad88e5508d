// The result codes of SQLite, as each driver tells them.

import { causesOf } from '../driver.ts'

interface SqliteError {
  readonly code?: unknown
  readonly errcode?: unknown
}

/** Primary result codes by the names that drivers give them. */
const NAMES: Readonly<Record<string, number>> = {
  ERROR: 1,
  INTERNAL: 2,
  PERM: 3,
  ABORT: 4,
  BUSY: 5,
  LOCKED: 6,
  NOMEM: 7,
  READONLY: 8,
  INTERRUPT: 9,
  IOERR: 10,
  CORRUPT: 11,
  NOTFOUND: 12,
  FULL: 13,
  CANTOPEN: 14,
  PROTOCOL: 15,
  EMPTY: 16,
  SCHEMA: 17,
  TOOBIG: 18,
  CONSTRAINT: 19,
  MISMATCH: 20,
  MISUSE: 21,
  NOLFS: 22,
  AUTH: 23,
  FORMAT: 24,
  RANGE: 25,
  NOTADB: 26,
}

const BUSY = 5

/**
 * The primary result code of an error: a number of `node:sqlite`; a name such as SQLITE_BUSY_SNAPSHOT of better-sqlite3, libsql and
 * sqlite3. Undefined: it is no error of SQLite.
 */
export function sqliteCode({ code, errcode }: SqliteError): number | undefined {
  if (code === 'ERR_SQLITE_ERROR') return typeof errcode === 'number' ? errcode & 0xff : undefined
  // What libsql says when transactions hold all connections of a client.
  if (code === 'TRANSACTION_ACTIVE') return BUSY
  const name = typeof code === 'string' ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined
  return name === undefined ? undefined : NAMES[name]
}

/** Whether another connection holds the lock, so that nothing has happened yet. ORMs wrap errors, and some leave out the code. */
export function isSqliteBusy(error: unknown): boolean {
  for (const each of causesOf(error)) {
    const code = sqliteCode(each)
    if (code !== undefined) return code === BUSY
    if ('message' in each && /SQLITE_BUSY|database is locked/.test(String(each.message))) return true
  }
  return false
}
