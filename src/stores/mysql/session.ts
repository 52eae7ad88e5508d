import { fieldOf } from '../../base/index.ts'
import type { Row } from '../../contracts/index.ts'
import { asBoolean, asNumber, assertLocks, assertMode, asText, mysqlSession, mysqlSuited } from '../sql/index.ts'
import { classify } from './errors.ts'
import type { MysqlClient, MysqlQuery } from './mysql2.ts'

/** How the server treats one link. */
export interface Session {
  readonly mariadb: boolean
  /** Bytes that the server takes at once at most; fixed when the link was made. */
  readonly maxPacket: number
  /** Whether a statement outside a transaction commits by itself. */
  autocommit: boolean
  /** Whether it reads what is not committed: a row that another worker has in hand would be gone, and its key free. */
  readonly uncommitted: boolean
  /** Whether it has a name by which its transaction can be ended from outside. */
  marked: boolean
}

/** By the link itself: a pool wraps it anew each time it hands it out. */
const sessions = new WeakMap<object, Session>()

function linkOf(client: object): object {
  const { connection }: { connection?: object } = client
  return connection ?? client
}

/** What is known about the session without asking. */
export function knownSession(client: MysqlClient): Session | undefined {
  return sessions.get(linkOf(client))
}

/** Forgets a session that its pool reset when it was last released (`resetOnRelease`): its settings and its name are gone. */
export function forgetReset(client: object): void {
  const link = linkOf(client)
  if (fieldOf(fieldOf(fieldOf(link, '_pool'), 'config'), 'resetOnRelease') === true) sessions.delete(link)
}

/** The session of a link, asked once for each. */
export async function sessionOf(client: MysqlClient): Promise<Session> {
  const known = knownSession(client)
  if (known !== undefined) return known
  const [answer] = await client.query({
    sql: mysqlSession.question.text,
    rowsAsArray: false,
    nestTables: false,
    typeCast: typeCastOf(client),
  })
  const row: Row | undefined = Array.isArray(answer) ? answer[0] : undefined
  assertLocks(asText(row?.['version']))
  assertMode(asText(row?.['sql_mode']))
  if (asBoolean(row?.['unsuited'])) await client.query(mysqlSuited.text)
  const session = {
    mariadb: /mariadb/i.test(asText(row?.['version'])),
    maxPacket: asNumber(row?.['packet']),
    autocommit: asBoolean(row?.['autocommit']),
    uncommitted: /uncommitted/i.test(asText(row?.['isolation'])),
    marked: false,
  }
  sessions.set(linkOf(client), session)
  return session
}

/** Gives the session of a link a name that no other has on any server. */
export async function mark(client: MysqlClient, session: Session): Promise<void> {
  if (session.marked) return
  session.marked = true
  try {
    await client.query(mysqlSession.mark().text)
  } catch (error) {
    // Some clusters allow no such locks: then nothing is ended from outside.
    if (classify(error) === 'lost') throw error
  }
}

/** Keeps a `typeCast` of the pool from changing results. A function is called for every value, so only where there is one. */
export function typeCastOf(client: object): NonNullable<MysqlQuery['typeCast']> {
  const { config }: { config?: { readonly typeCast?: unknown } } = linkOf(client)
  return typeof config?.typeCast === 'function' ? asItComes : true
}

function asItComes(_field: unknown, next: () => unknown): unknown {
  return next()
}

const SERVER_STATUS_AUTOCOMMIT = 2

/** Every result without rows tells whether the session is in autocommit mode: a handler may have changed it. */
export function learn(client: MysqlClient, status: number | undefined): void {
  const known = knownSession(client)
  if (known !== undefined && status !== undefined) known.autocommit = (status & SERVER_STATUS_AUTOCOMMIT) !== 0
}
