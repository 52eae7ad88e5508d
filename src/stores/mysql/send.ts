import type { Param, Result, Statement } from '../../core/connection.ts'
import type { MysqlClient } from './mysql2.ts'

/** What `mysql2` answers to a statement without rows. */
export interface Header {
  readonly affectedRows: number
}

/**
 * Sends a statement of hapax as text: multi-row inserts would only fill the cache of prepared statements.
 * The settings make the answer independent of how the pool was set up.
 */
export async function send(client: MysqlClient, { text, params }: Statement): Promise<Result> {
  const values = params.map(checked)
  const [answer] = await client.query({ sql: text, values, rowsAsArray: false, nestTables: false, typeCast })
  if (Array.isArray(answer)) return { rows: answer, affected: answer.length }
  return { rows: [], affected: (answer as Header).affectedRows }
}

const typeCast = (_field: unknown, next: () => unknown): unknown => next()

/** `mysql2` would write an object into the text as SQL of its own. */
function checked(param: Param): unknown {
  if (typeof param !== 'object' || param === null || param instanceof Uint8Array) return param
  throw new TypeError('expected a parameter to be a string, a number, bytes or null')
}
