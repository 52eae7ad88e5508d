import { asError, fieldOf, HapaxError, messageOf, unreached } from '../../base/index.ts'

/** What the server answered about a stream, a consumer or a message. */
export interface ApiError {
  readonly err_code?: number
  readonly description?: string
}

/** Numbers of errors that the server documents. */
export const API = {
  temporarilyUnavailable: 10008,
  consumerNotFound: 10014,
  noMessageFound: 10037,
  messageTooLarge: 10054,
  streamNotFound: 10059,
  headersTooLarge: 10097,
  tooManyRequests: 10167,
} as const

/** The number of an error of the server, if it is one. */
export function apiCode(error: unknown): number | undefined {
  const code = fieldOf(error, 'code')
  return typeof code === 'number' && typeof fieldOf(error, 'status') === 'number' ? code : undefined
}

const REFUSALS = ['AuthorizationError', 'UserAuthenticationExpiredError', 'PermissionViolationError']

/** Whether the server did not allow something. */
export function isRefusal(error: unknown): boolean {
  for (let each = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth++) {
    if (REFUSALS.includes(each.name)) return true
  }
  return false
}

/** What the client threw, as an error of hapax: refused if the server said no, else not available. */
export function brokerError(what: string, thrown: unknown): HapaxError {
  if (thrown instanceof HapaxError) return thrown
  const refused = apiCode(thrown) !== undefined || isRefusal(thrown)
  const code = refused ? 'broker-refused' : 'broker-unavailable'
  return new HapaxError(code, `${what}: ${messageOf(asError(thrown))}`, { cause: thrown })
}

/** Why there is no connection, and what to look at. */
export function connectError(thrown: unknown, at: string): HapaxError {
  const detail = messageOf(asError(thrown))
  const { code } = brokerError('', thrown)
  const reason = MEANINGS.find(([sign]) => sign.test(detail))?.[1] ?? unreached(detail)
  return new HapaxError(code, `could not connect to NATS${at}: ${reason}`, { cause: thrown })
}

const MEANINGS = [
  [/^Authorization Violation$|^Authentication Timeout$/i, 'it refuses the user, the password or the token: check them'],
  [/unexpected response|undefined error/, 'what listens there does not answer as NATS does; is it NATS?'],
] as const
