import { describe, expect, it } from 'vitest'
import { dialect } from '../../src/stores/mysql/statements/sql.ts'
import { mysqlSent } from '../../src/stores/sql/index.ts'

/** A connection of `mysql2`, and what reaches it. */
function link(config: object = {}) {
  const sent: unknown[] = []
  return { sent, config, addCommand: (command: object): unknown => sent.push(command) }
}

class CloseStatement {
  readonly id = 1
}

describe('what is sent on a connection of mysql2', () => {
  it.each([
    'select 1',
    ' (select 1) union (select 2)',
    'INSERT into a values (1)',
    '/* why */ update a set b = 1',
    '-- why\ndelete from a',
    '--\n# why\ndelete from a',
    'with b as (select 1) select * from b',
    'savepoint inner1',
    'rollback to savepoint inner1',
    'do sleep(1)',
    '/*M!100100 set statement innodb_lock_wait_timeout = 1 for */ select 1 for update',
    ...dialect('shop', 'hapax_').transactions.guard.check.map(({ text }) => text),
  ])('cannot have ended a transaction by %s', (sql) => {
    const connection = link()
    const seen = mysqlSent({ connection })
    connection.addCommand({ sql })
    connection.addCommand({ query: sql })
    connection.addCommand({ statement: { query: sql } })
    connection.addCommand(new CloseStatement())
    expect(seen?.mayHaveEnded).toBe(false)
    expect(connection.sent).toHaveLength(4)
  })

  it.each([
    'commit',
    'rollback',
    'rollback and chain',
    'start transaction',
    'create table a (b integer)',
    '--\ncreate table a\nselect 1',
    'call a()',
    'set autocommit = 1',
    '/*! commit */',
    '/*M!100100 set statement innodb_lock_wait_timeout = 1 for */ commit',
    '/*M!100000 commit */ select 1',
    'begin not atomic commit; end',
    'selection',
  ])('may have ended a transaction by %s', (sql) => {
    const connection = link()
    const seen = mysqlSent(connection)
    connection.addCommand({ sql })
    expect(seen?.mayHaveEnded).toBe(true)
  })

  it('may have ended a transaction by a non-SQL command, or by one of several statements', () => {
    const [reset, several, flagged, one] = [
      link(),
      link({ multipleStatements: true }),
      link({ multipleStatements: false, clientFlags: 65_537 }),
      link({ clientFlags: 1 }),
    ]
    const seen = [reset, several, flagged, one].map((connection) => mysqlSent(connection))
    reset.addCommand({})
    several.addCommand({ sql: 'select 1; commit' })
    flagged.addCommand({ sql: 'select 1; commit' })
    one.addCommand({ sql: "insert into a values ('b;c')" })
    expect(seen.map((each) => each?.mayHaveEnded)).toEqual([true, true, true, false])
  })

  it('is observed once per connection, and not on other connections', () => {
    const connection = link()
    expect(mysqlSent({ connection })).toBe(mysqlSent(connection))
    expect(mysqlSent({})).toBeUndefined()
  })
})
