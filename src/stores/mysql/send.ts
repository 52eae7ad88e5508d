import { HapaxError } from '../../base/index.ts'
import type { Param, Result, Statement } from '../../contracts/index.ts'
import { fieldsOf } from '../sql/index.ts'
import { canPrepare, queried } from './client.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'
import { executeOnce, executeOwn } from './prepared.ts'
import { knownSession, learn, sessionOf, typeCastOf } from './session.ts'
import { MAX_BYTES, sizeOf } from './statements/rows.ts'

/** What `mysql2` returns for a statement without rows. */
interface Header {
  readonly affectedRows?: number
  readonly serverStatus?: number
}

/**
 * Sends a statement of hapax as text: multi-row inserts would only fill the cache of prepared statements.
 */
export async function send(client: MysqlClient, { text, params }: Statement): Promise<Result> {
  const statement = { text, params }
  const query = queryOf(client, statement)
  const answer = await (isLarge(client, statement) ? sendLarge(client, query, statement) : queried(client, query))
  return asResult(client, answer)
}

/** Sends statements as one block, and returns the lists of rows that come back. */
export async function sendBlock(client: MysqlClient, statement: Statement): Promise<readonly Result[]> {
  const answer = await executeOwn(client, queryOf(client, statement))
  if (!Array.isArray(answer)) {
    asResult(client, answer)
    return []
  }
  return answer.map((each) => asResult(client, each))
}

/** Sends statements as one text, where that is allowed; undefined: it would be too large. */
export async function sendSeveral(
  client: MysqlClient,
  statements: readonly Statement[],
): Promise<readonly Result[] | undefined> {
  const text = statements.map((each) => each.text).join('; ')
  const whole = { text, params: statements.flatMap(({ params }) => params) }
  if (isLarge(client, whole)) return undefined
  const answer = await queried(client, queryOf(client, whole))
  const answers: readonly unknown[] = statements.length > 1 && Array.isArray(answer) ? answer : [answer]
  return answers.map((each) => asResult(client, each))
}

/** A statement as `mysql2` takes it, with a result that does not depend on how the pool was set up. */
export function queryOf(client: MysqlClient, { text, params }: Statement): MysqlQuery {
  return { sql: text, values: params.map(checked), rowsAsArray: false, nestTables: false, typeCast: typeCastOf(client) }
}

/** Whether it is too large for a text, in which bytes take twice their room. */
export function isLarge(client: MysqlClient, { text, params }: Statement): boolean {
  const asText = params.reduce<number>((sum, param) => sum + sizeOf(param), text.length)
  return asText > Math.min(MAX_BYTES, knownSession(client)?.maxPacket ?? MAX_BYTES)
}

/** How many bytes a large statement has. */
export function sizeOfAll(client: MysqlClient, { text, params }: Statement): number {
  const each = canPrepare(client) ? bytesOf : sizeOf
  return params.reduce<number>((sum, param) => sum + each(param), text.length)
}

/** What `mysql2` has returned. */
export function asResult(client: MysqlClient, answer: unknown): Result {
  if (Array.isArray(answer)) return { rows: answer, affected: answer.length }
  const { affectedRows = 0, serverStatus } = headerOf(answer)
  learn(client, serverStatus)
  return { rows: [], affected: affectedRows }
}

/** The result of a statement without rows. */
export function headerOf(answer: unknown): Header {
  return fieldsOf(answer)
}

/** Prepared, because there bytes travel as they are. */
async function sendLarge(client: MysqlClient, query: MysqlQuery, statement: Statement): Promise<unknown> {
  await sessionOf(client)
  assertFits(client, sizeOfAll(client, statement))
  return canPrepare(client) ? executeOnce(client, query) : queried(client, query)
}

/** Room for what surrounds the values. */
const MARGIN = 1024

/** What the server takes at once, as far as that is known. */
export function mostBytes(client: MysqlClient): number {
  return (knownSession(client)?.maxPacket ?? Number.POSITIVE_INFINITY) - MARGIN
}

/** Refuses what the server does not take at once: it would cut the link, and so on every other. */
export function assertFits(client: MysqlClient, bytes: number): void {
  if (bytes <= mostBytes(client)) return
  const max = knownSession(client)?.maxPacket
  throw new HapaxError(
    'too-large',
    `expected a statement that fits into max_allowed_packet of the server, ${max} bytes, got ${bytes}`,
    { fields: { bytes, max } },
  )
}

function bytesOf(param: Param): number {
  return param instanceof Uint8Array ? param.byteLength + 16 : 24
}

/** `mysql2` would write an object into the text as SQL of its own. */
function checked(param: Param): unknown {
  if (typeof param !== 'object' || param === null || param instanceof Uint8Array) return param
  throw new TypeError('expected a parameter to be a string, a number, bytes or null')
}
