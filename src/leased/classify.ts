import { NotDone, Permanent, RetryAfter } from '../base/index.ts'

/**
 * Error codes that occur only before a request is sent. Codes of connections, such as ECONNREFUSED or EHOSTUNREACH, are not among them:
 * a router or a firewall can end a connection with the same codes while a request is under way. For those, the system call decides
 * (`connect`). Neither shows whether the client made another request before this one: switch off its retries and redirects.
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
 * Whether a call that threw this error certainly did not happen. `NotDone`, `Permanent` and `RetryAfter` say so, and so does a network
 * error from before the request was sent. After any other error, above all a timeout, it is unknown.
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
  // Node tried several addresses: the call did not happen only if it reached none of them.
  if (Array.isArray(errors) && errors.length > 0) return errors.every((each) => isNotDone(each, depth + 1))
  if (NOT_SENT.has(code) || syscall === 'connect' || syscall === 'getaddrinfo') return true
  return isNotDone(cause, depth + 1)
}
