import { NotDone, Permanent, RetryAfter } from '../base/index.ts'

/**
 * Errors that only come before a request is sent. Not those of a connection, such as ECONNREFUSED or EHOSTUNREACH: a link on which a
 * request is under way ends with the same codes when a router or a firewall says so; there the call of the system tells. What
 * it does not tell is whether a client made another request before this one: its retries and redirects are to be switched off.
 */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_NODATA',
  'EAI_NONAME',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_INVALID_URL',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/**
 * Whether a call that threw this did certainly not happen: `NotDone`, `Permanent` and `RetryAfter` say so, and so does a
 * network error from before the request was sent. Anything else, a timeout above all, leaves it unknown.
 */
export function classifyError(error: unknown): 'not-done' | 'unknown' {
  return isNotDone(error, 0) ? 'not-done' : 'unknown'
}

/** What Node and undici put on errors of the network. */
interface NetworkError {
  readonly code?: unknown
  readonly syscall?: unknown
  readonly errors?: unknown
  readonly cause?: unknown
}

function isNotDone(error: unknown, depth: number): boolean {
  if (typeof error !== 'object' || error === null || depth > 5) return false
  if (error instanceof NotDone || error instanceof Permanent || error instanceof RetryAfter) return true
  const { code, syscall, errors, cause }: NetworkError = error
  // Several addresses were tried: none of them may have got it.
  if (Array.isArray(errors) && errors.length > 0) return errors.every((each) => isNotDone(each, depth + 1))
  if (NOT_SENT.has(code) || syscall === 'connect' || syscall === 'getaddrinfo') return true
  return isNotDone(cause, depth + 1)
}
