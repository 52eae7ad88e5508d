import { HapaxError } from 'hapax'
import { describe, expect, it } from 'vitest'
import * as mysql from '../../src/stores/mysql/errors.ts'
import * as postgres from '../../src/stores/postgres/errors.ts'
import { dialect } from '../../src/stores/postgres/statements/sql.ts'
import { StoreErrors } from '../../src/stores/sql/connection/store-errors.ts'
import * as sqlite from '../../src/stores/sqlite/errors.ts'

type Table = readonly (readonly [error: object, kind: string, answered: boolean])[]

const pg = (code: string, more = {}): Error =>
  Object.assign(new Error('of the server'), { code, severity: 'ERROR', ...more })
const my = (errno: number, sqlState = 'HY000', more = {}): Error =>
  Object.assign(new Error('of the server'), { errno, sqlState, ...more })
const lite = (errcode: number, message = 'of SQLite'): Error =>
  Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode })
/** As better-sqlite3, libsql and sqlite3 name the codes. */
const named = (code: string, message = 'of SQLite'): Error => Object.assign(new Error(message), { code })
const socket = (code: string): Error => Object.assign(new Error('of the socket'), { code })

const TABLES: Readonly<
  Record<string, { classify(error: unknown): string; answered(error: unknown): boolean; table: Table }>
> = {
  postgres: {
    ...postgres,
    table: [
      [pg('40001'), 'conflict', true],
      [pg('40P01'), 'conflict', true],
      [pg('55P03'), 'lock-timeout', true],
      [pg('57014'), 'cancelled', true],
      [pg('25P02'), 'aborted', true],
      [pg('25P01'), 'gone', true],
      [pg('3B001'), 'gone', true],
      [pg('42P01'), 'no-schema', true],
      [pg('3F000'), 'no-schema', true],
      [pg('23505'), 'other', true],
      [pg('23505', { constraint: 'orders_pkey' }), 'other', true],
      [pg('23505', { constraint: 'hapax_receipts_key' }), 'conflict', true],
      [pg('23505', { constraint: 'hapax_receipts_key_ccnew' }), 'conflict', true],
      [pg('23505', { constraint: 'hapax_receipts_key_ccold1' }), 'conflict', true],
      [pg('23505', { constraint: 'hapax_receipts_keys' }), 'other', true],
      [pg('22P02'), 'refused', true],
      [pg('40003'), 'other', false],
      [pg('57P01', { severity: 'FATAL' }), 'lost', false],
      [pg('25P03', { severity: 'FATAL' }), 'lost', false],
      [pg('08006'), 'lost', true],
      [pg('22P05'), 'refused', true],
      [pg('54000'), 'refused', true],
      [pg('54000', { where: 'PL/pgSQL function later() line 1 at RAISE' }), 'other', true],
      [pg('42P01', { where: 'PL/pgSQL-Funktion later() Zeile 1' }), 'other', true],
      [pg('40001', { where: 'PL/pgSQL function later() line 1' }), 'conflict', true],
      [pg('22P02', { where: `unnamed portal parameter $1 = 'x'` }), 'refused', true],
      [pg('22012'), 'other', true],
      [pg('53100'), 'lost', true],
      [pg('XX000'), 'lost', true],
      [pg('XX000', { message: 'invalid memory alloc request size 1073741824' }), 'refused', true],
      [socket('ECONNRESET'), 'lost', false],
      [socket('ECONNREFUSED'), 'lost', false],
      [socket('EPIPE'), 'lost', false],
      [new Error('Connection terminated unexpectedly'), 'lost', false],
      [new Error('timeout exceeded when trying to connect'), 'lost', false],
      [new Error('Query read timeout'), 'lost', false],
      [new Error('anything else'), 'other', false],
    ],
  },
  mysql: {
    ...mysql,
    table: [
      [my(1467), 'conflict', true],
      [my(1213, '40001'), 'conflict', true],
      [my(1020), 'conflict', true],
      [my(1205), 'lock-timeout', true],
      [my(1305, '42000'), 'gone', true],
      [my(1146, '42S02'), 'no-schema', true],
      [my(1049, '42000'), 'lost', false],
      [my(1062, '23000'), 'other', true],
      [my(1317, '70100'), 'lost', false],
      [my(1053, '08S01'), 'lost', false],
      [my(1153, '08S01'), 'refused', true],
      [my(1406, '22001'), 'refused', true],
      [my(1290), 'other', true],
      [my(1290, 'HY000', { message: 'running with the --read-only option' }), 'lost', false],
      [socket('PROTOCOL_CONNECTION_LOST'), 'lost', false],
      [socket('ECONNRESET'), 'lost', false],
      [new Error("Can't add new command when connection is in closed state"), 'lost', false],
      [new Error('anything else'), 'other', false],
    ],
  },
  sqlite: {
    ...sqlite,
    table: [
      [lite(5), 'conflict', true],
      [lite(517), 'conflict', true],
      [lite(6), 'conflict', true],
      [lite(13), 'lost', true],
      [lite(10), 'lost', false],
      [lite(778), 'lost', false],
      [lite(1, 'no such savepoint: hapax'), 'gone', true],
      [lite(1, 'cannot commit - no transaction is active'), 'gone', true],
      [lite(1, 'no such table: hapax_receipts'), 'no-schema', true],
      [lite(1, 'near "selekt": syntax error'), 'other', true],
      [lite(19, 'UNIQUE constraint failed: orders.id'), 'other', true],
      [lite(2067, 'UNIQUE constraint failed: orders.id'), 'other', true],
      [named('SQLITE_BUSY'), 'conflict', true],
      [named('SQLITE_BUSY_SNAPSHOT'), 'conflict', true],
      [named('SQLITE_FULL'), 'lost', true],
      [named('SQLITE_IOERR_WRITE'), 'lost', false],
      [named('SQLITE_ERROR', 'no such savepoint: hapax'), 'gone', true],
      [named('SQLITE_ERROR', 'SQLITE_ERROR: no such savepoint: hapax'), 'gone', true],
      [named('SQLITE_ERROR', 'SQLITE_ERROR: no such table: hapax_receipts'), 'no-schema', true],
      [named('SQLITE_CONSTRAINT_UNIQUE', 'UNIQUE constraint failed: orders.id'), 'other', true],
      [named('SQLITE_UNKNOWN_99'), 'other', false],
      [socket('ERR_INVALID_STATE'), 'lost', false],
      [new Error('anything else'), 'other', false],
    ],
  },
}

describe.for(Object.entries(TABLES))('errors of %s', ([, { classify, answered, table }]) => {
  it('A8: mean what the table says', () => {
    expect(table.map(([error]) => [error, classify(error), answered(error)])).toEqual(table)
  })

  it('mean the same inside the error of an ORM', () => {
    for (const [error, kind] of table) {
      expect(classify(new Error('Failed query', { cause: error }))).toBe(kind)
      expect(classify(new Error('a', { cause: new Error('b', { cause: error }) }))).toBe(kind)
    }
  })

  it('never speak through an error of hapax, and nothing else makes sense', () => {
    for (const [error] of table) expect(classify(new HapaxError('busy', 'no', { cause: error }))).toBe('other')
    const circular = new Error('round')
    circular.cause = circular
    for (const thrown of [undefined, null, 'text', 7, {}, circular]) expect(classify(thrown)).toBe('other')
  })
})

describe("errors of hapax's own transactions", () => {
  it('A25: a link that was lost inside one means that the database was away', () => {
    const errors = new StoreErrors(dialect('hapax'))
    const cause = socket('ECONNRESET')
    const lost = new HapaxError('transaction-lost', 'the connection was lost inside the transaction', { cause })
    expect(errors.ofQuery(lost)).toMatchObject({ code: 'store-unavailable', cause })
  })
})
