import { Repeated } from '../sql/index.ts'
import { canPrepare, executed, type Preparing, queried } from './client.ts'
import { classify, isUnprepared } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'

/**
 * Texts that stay prepared on each connection. Few, because `max_prepared_stmt_count` counts those of all clients of the
 * server together: once they are used up, no client can prepare any.
 */
const KEPT = 100

const repeated = new Repeated(KEPT)

/** Runs a prepared statement, and keeps it prepared only if its text comes again and again. */
export function execute(client: Preparing, query: MysqlQuery): Promise<unknown> {
  return repeated.has(query.sql) ? executed(client, query) : executeOnce(client, query)
}

/** The same for statements of hapax, whose texts differ by the number of rows. */
const own = new Repeated(40)
/** Values of one statement at most: one with more is read by the server in much the same time as a text. */
const MOST_VALUES = 1_000

/** Runs a statement of hapax, prepared if it comes again and again and the server lets it be. */
export async function executeOwn(client: MysqlClient, query: MysqlQuery): Promise<unknown> {
  const few = (query.values?.length ?? 0) <= MOST_VALUES
  if (!few || !canPrepare(client) || !own.has(query.sql)) return queried(client, query)
  try {
    return await executed(client, query)
  } catch (error) {
    if (!isUnprepared(error)) throw error
    return queried(client, query)
  }
}

/** Runs a prepared statement that does not stay prepared. Closing it costs no round trip: the server sends no reply. */
export async function executeOnce(client: Preparing, query: MysqlQuery): Promise<unknown> {
  try {
    const answer = await executed(client, query)
    client.unprepare?.(query)
    return answer
  } catch (error) {
    // On a link that is lost there is nothing to close, and the attempt would be an error of its own.
    if (classify(error) !== 'lost') client.unprepare?.(query)
    throw error
  }
}
