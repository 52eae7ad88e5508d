import { asError, fieldOf, HapaxError, messageOf, unreached } from '../../base/index.ts'

/** An error that the server returned about a stream, a consumer or a message. */
export interface ApiError {
  readonly err_code?: number
  readonly description?: string
}

/** Error codes of the JetStream API. */
export const API = {
  temporarilyUnavailable: 10008,
  consumerNotFound: 10014,
  noMessageFound: 10037,
  messageTooLarge: 10054,
  streamNotFound: 10059,
  headersTooLarge: 10097,
  tooManyRequests: 10167,
} as const

/** The JetStream code of an error; undefined if it did not come from the server. */
export function apiCode(error: unknown): number | undefined {
  const code = fieldOf(error, 'code')
  return typeof code === 'number' && typeof fieldOf(error, 'status') === 'number' ? code : undefined
}

const REFUSALS = ['AuthorizationError', 'UserAuthenticationExpiredError', 'PermissionViolationError']

/** Whether the server denied permission. The client wraps such errors in others. */
export function isRefusal(error: unknown): boolean {
  for (let each = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth++) {
    if (REFUSALS.includes(each.name)) return true
  }
  return false
}

/** An error of the client as a HapaxError: `broker-refused` if the server said no, else `broker-unavailable`. */
export function brokerError(what: string, thrown: unknown): HapaxError {
  if (thrown instanceof HapaxError) return thrown
  const refused = apiCode(thrown) !== undefined || isRefusal(thrown)
  const code = refused ? 'broker-refused' : 'broker-unavailable'
  return new HapaxError(code, `${what}: ${messageOf(asError(thrown))}`, { cause: thrown })
}

/** Why there is no connection, and what to check. */
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
