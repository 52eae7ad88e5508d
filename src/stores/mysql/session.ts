import type { MysqlClient } from './mysql2.ts'

/** How the server treats one link. */
export interface Session {
  readonly mariadb: boolean
  /** Bytes that the server takes at once at most; fixed when the link was made. */
  readonly maxPacket: number
  /** Whether a statement outside a transaction commits by itself. */
  autocommit: boolean
}

/** By the link itself: a pool wraps it anew each time it hands it out. */
const sessions = new WeakMap<object, Session>()

function linkOf(client: MysqlClient): object {
  return (client as { connection?: object }).connection ?? client
}

/** What is known about the session without asking. */
export function knownSession(client: MysqlClient): Session | undefined {
  return sessions.get(linkOf(client))
}

/** The session of a link, asked once for each. */
export async function sessionOf(client: MysqlClient): Promise<Session> {
  const known = knownSession(client)
  if (known !== undefined) return known
  const [answer] = await client.query({ sql: QUESTION, rowsAsArray: false, nestTables: false, typeCast })
  const row = (answer as Record<string, unknown>[])[0]
  const session = {
    mariadb: /mariadb/i.test(String(row?.['version'])),
    maxPacket: Number(row?.['packet']),
    autocommit: Number(row?.['autocommit']) === 1,
  }
  sessions.set(linkOf(client), session)
  return session
}

const QUESTION = 'select version() as version, @@max_allowed_packet as packet, @@autocommit as autocommit'
/** The settings of the pool do not reach the answer. */
export const typeCast = (_field: unknown, next: () => unknown): unknown => next()

const SERVER_STATUS_AUTOCOMMIT = 2

/** Every answer without rows says whether the session commits by itself: a handler may have changed it. */
export function learn(client: MysqlClient, status: number | undefined): void {
  const known = knownSession(client)
  if (known !== undefined && status !== undefined) known.autocommit = (status & SERVER_STATUS_AUTOCOMMIT) !== 0
}
