import type { TestDatabase } from '../../testing/index.ts'

/** Runs statements in a transaction. */
export interface Client {
  query(text: string, params?: unknown[]): Promise<unknown>
}

type Business =
  | 'effect'
  | 'unique'
  | 'breakStatement'
  | 'lockRow'
  | 'commitInside'
  | 'rollbackInside'
  | 'undone'
  | 'savepoint'

/** The business of the suite in SQL; `table` names a table, `value` stands for a parameter. */
export function sqlBusiness<Tx, Own>(
  clientOf: (tx: Tx | Own) => Client,
  table: (name: string) => string,
  value: '$1' | '?',
): Pick<TestDatabase<Tx, Own>, Business> {
  const query = (tx: Tx | Own, text: string, params?: unknown[]): Promise<unknown> => clientOf(tx).query(text, params)
  return {
    effect: (tx, label) => query(tx, `insert into ${table('effects')} (label) values (${value})`, [label]),
    unique: (tx, label) => query(tx, `insert into ${table('uniques')} (label) values (${value})`, [label]),
    breakStatement: (tx) => query(tx, `insert into ${table('uniques')} (label) values (null)`),
    lockRow: (tx, row) => query(tx, `update ${table('counters')} set n = n + 1 where id = ${row}`),
    commitInside: (tx) => query(tx, 'commit'),
    rollbackInside: (tx) => query(tx, 'rollback'),
    undone: async (tx, work) => {
      await query(tx, 'savepoint mine')
      await work()
      await query(tx, 'rollback to savepoint mine')
    },
    savepoint: (tx, what, name) => query(tx, `${what} ${name}`),
  }
}

/** The timestamps in hapax tables that are compared with the clock. */
const TIMES: Readonly<Record<string, readonly string[]>> = {
  inbox: ['created_at', 'available_at', 'set_at', 'first_due_at', 'held_at'],
  outbox: ['created_at', 'available_at', 'set_at', 'held_at'],
  workers: ['started_at', 'heartbeat_at'],
  operations: ['created_at', 'changed_at', 'leased_until'],
}

/** Statements that shift timestamps into the future, as if a clock that was ahead had written them; `later` adds the span to a column. */
export function setBack(table: (name: string) => string, later: (column: string) => string): readonly string[] {
  return Object.entries(TIMES).map(
    ([name, columns]) => `update ${table(name)} set ${columns.map((each) => `${each} = ${later(each)}`).join(', ')}`,
  )
}

/** The statements that make the business tables; `text` is the type of a label, `bytes` that of bytes. */
export function businessTables(table: (name: string) => string, text: string, bytes: string): readonly string[] {
  return [
    `create table ${table('shapes')} (id integer not null primary key, label ${text}, bytes ${bytes}, big bigint)`,
    `create table ${table('effects')} (label ${text} not null)`,
    `create table ${table('uniques')} (label ${text} not null primary key)`,
    `create table ${table('counters')} (id integer not null primary key, n integer not null)`,
    `insert into ${table('counters')} (id, n) values (1, 0), (2, 0)`,
  ]
}
