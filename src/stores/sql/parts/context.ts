import type { Random } from '../../../base/index.ts'
import type { Connection, Row, Statement } from '../../../contracts/index.ts'
import type { SqlCalls } from '../calls.ts'
import type { StoreErrors } from '../connection/store-errors.ts'
import type { Dialect } from '../dialect/dialect.ts'
import type { Sessions } from './sessions.ts'

/** What the parts of an SQL store share. */
export interface SqlContext<Tx, Own> {
  readonly connection: Connection<Tx, Own>
  readonly dialect: Dialect
  readonly calls: SqlCalls<Tx, Own>
  readonly errors: StoreErrors
  readonly random: Random
  /** The sessions of the workers on this database. */
  readonly sessions: Sessions
}

/** Of the context what a part needs that opens no transaction of a handler's. */
export type SqlParts = Pick<SqlContext<never, never>, 'dialect' | 'random'> & {
  readonly calls: Pick<SqlCalls<never>, 'run' | 'look' | 'short' | 'move' | 'assertFits'>
}

/** The rows that a statement returns. */
export async function rowsOf({ calls }: SqlParts, statement: Statement): Promise<readonly Row[]> {
  return (await calls.run(statement)).rows
}
