// Prisma replaces the errors of drivers by its own, and keeps their codes in places of its own.

import { fieldOf } from '../../base/index.ts'
import type { SqlDatabase } from '../../contracts/index.ts'

/** An error of Prisma as the driver of the database would have thrown it; another one as it is. */
export function asOfDriver(database: SqlDatabase, error: unknown): unknown {
  const cause = causeOf(error)
  const kind = fieldOf(cause, 'kind')
  if (typeof kind !== 'string') return error
  const message = fieldOf(cause, 'originalMessage') ?? fieldOf(cause, 'message') ?? ofLink(cause, kind)
  return Object.assign(
    new Error(String(message ?? fieldOf(error, 'message')), { cause: error }),
    CODES[database](cause, kind),
  )
}

/** What the adapter says about an error: Prisma's errors have it with them, except those of COMMIT, which are the adapter's own. */
function causeOf(error: unknown): unknown {
  if (fieldOf(error, 'name') === 'DriverAdapterError') return fieldOf(error, 'cause')
  return fieldOf(fieldOf(fieldOf(error, 'meta'), 'driverAdapterError'), 'cause')
}

/** Errors of the link, by the names that adapters give them. */
const OF_LINK: Readonly<Record<string, string>> = {
  DatabaseNotReachable: 'ECONNREFUSED',
  ConnectionClosed: 'ECONNRESET',
  SocketTimeout: 'ETIMEDOUT',
}

/** Prisma's own message has the whole statement. */
function ofLink(cause: unknown, kind: string): string | undefined {
  if (OF_LINK[kind] === undefined) return undefined
  const host = fieldOf(cause, 'host')
  return host === undefined ? kind : `Can't reach database server at ${host}:${fieldOf(cause, 'port')} (${kind})`
}

/** Numbers that `mariadb` gives to what takes too long: to connect, to answer, and to become free in the pool. */
const OF_POOL: ReadonlySet<number> = new Set([45012, 45026, 45028])

/** Errors of a login. Adapters leave out how severe an error is where they know its code. */
const OF_LOGIN: ReadonlySet<string> = new Set([
  'AuthenticationFailed',
  'DatabaseAccessDenied',
  'DatabaseDoesNotExist',
  'TooManyConnections',
])

const CODES: Readonly<Record<SqlDatabase, (cause: unknown, kind: string) => object>> = {
  postgres: (cause, kind) => {
    const code = fieldOf(cause, 'originalCode')
    if (code === undefined) return { code: OF_LINK[kind] }
    const severity = fieldOf(cause, 'severity') ?? (OF_LOGIN.has(kind) ? 'FATAL' : 'ERROR')
    return { code, severity, constraint: fieldOf(fieldOf(cause, 'constraint'), 'index') }
  },
  mysql: (cause, kind) => {
    const errno = Number(fieldOf(cause, 'originalCode'))
    if (Number.isNaN(errno)) return { code: OF_LINK[kind] }
    if (OF_POOL.has(errno)) return { code: 'ETIMEDOUT' }
    return { errno, sqlState: fieldOf(cause, 'state') ?? 'HY000' }
  },
  sqlite: (cause) => ({ code: fieldOf(cause, 'originalCode') }),
}
