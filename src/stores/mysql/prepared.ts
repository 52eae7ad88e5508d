import { Repeated } from '../sql/index.ts'
import { executed, queried } from './client.ts'
import { classify, isUnprepared } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'

type Answer = Promise<[unknown, ...unknown[]]>

/** What `mysql2` offers for prepared statements. */
interface Preparing {
  execute(query: string | MysqlQuery, values?: readonly unknown[]): Answer
  unprepare?(query: string | MysqlQuery): unknown
}

/**
 * Texts that stay prepared on each connection. Few, because `max_prepared_stmt_count` counts those of all clients of the
 * server together: once they are used up, no client can prepare any.
 */
const KEPT = 100

const repeated = new Repeated(KEPT)

/** Runs a prepared statement, and keeps it prepared only if its text comes again and again. */
export function execute(client: Preparing, text: string, values: readonly unknown[]): Answer {
  return repeated.has(text) ? client.execute(text, values) : executeOnce(client, text, values)
}

/** The same for statements of hapax, whose texts differ by the number of rows. */
const own = new Repeated(40)
/** Values of one statement at most: one with more is read by the server in much the same time as a text. */
const MOST_VALUES = 1_000

/** Runs a statement of hapax, prepared if it comes again and again and the server lets it be. */
export async function executeOwn(client: MysqlClient, query: MysqlQuery): Promise<unknown> {
  const few = (query.values?.length ?? 0) <= MOST_VALUES
  if (!few || !own.has(query.sql)) return queried(client, query)
  try {
    return await executed(client, query)
  } catch (error) {
    if (!isUnprepared(error)) throw error
    return queried(client, query)
  }
}

/** Whether this connection can prepare at all. */
export function canPrepare(client: object): client is Preparing {
  return 'execute' in client && typeof client.execute === 'function'
}

/** Runs a prepared statement that does not stay prepared. Closing it costs no round trip: the server sends no reply. */
export async function executeOnce(client: Preparing, query: string | MysqlQuery, values?: readonly unknown[]): Answer {
  try {
    const answer = await client.execute(query, values)
    client.unprepare?.(query)
    return answer
  } catch (error) {
    // On a link that is lost there is nothing to close, and the attempt would be an error of its own.
    if (classify(error) !== 'lost') client.unprepare?.(query)
    throw error
  }
}
