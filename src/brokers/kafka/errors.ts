import { asError, HapaxError, messageOf, unreached } from '../../base/index.ts'

/** Protocol errors for a message, or a batch, that is too large. */
export const TOO_LARGE: ReadonlySet<number> = new Set([10, 18])
/** Protocol errors for an invalid message: a bad timestamp, or no key in a compacted topic. */
export const INVALID: ReadonlySet<number> = new Set([32, 87])
export const OFFSET_OUT_OF_RANGE = 1

/** The group has rebalanced without this member. The client joins again by itself, or hapax does. */
const STALE = [
  'REBALANCE_IN_PROGRESS',
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
  'MEMBER_ID_REQUIRED',
  'FENCED_MEMBER_EPOCH',
  'STALE_MEMBER_EPOCH',
]
/** Errors that no retry mends: permissions or settings have to change. */
const REFUSALS = [
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'INVALID_TOPIC_EXCEPTION',
  'INVALID_GROUP_ID',
  'INVALID_SESSION_TIMEOUT',
  'INCONSISTENT_GROUP_PROTOCOL',
  'GROUP_MAX_SIZE_REACHED',
  'UNSUPPORTED_VERSION',
]
const REFUSED_CODES = ['PLT_KFK_AUTHENTICATION', 'PLT_KFK_UNSUPPORTED_API']

/** The fields that errors of the client may have. */
interface ClientError {
  readonly message?: string
  readonly code?: string
  readonly apiId?: string
  readonly response?: unknown
  /** Where records were written before the send failed. */
  readonly produced?: { readonly offsets?: readonly { readonly partition: number }[] }
  readonly errors?: readonly unknown[]
  readonly cause?: unknown
}

/** An error and all errors inside it, outermost first. The client wraps errors by broker, by attempt and by partition. */
export function* chainOf(error: unknown, depth = 0): Generator<ClientError> {
  if (typeof error !== 'object' || error === null || depth > 10) return
  const each: ClientError = error
  const { errors, cause } = each
  yield each
  for (const inner of Array.isArray(errors) ? errors : []) yield* chainOf(inner, depth + 1)
  yield* chainOf(cause, depth + 1)
}

/** Whether a broker answered at all. */
export function isAnswer(error: unknown): boolean {
  return has(error, ({ apiId }) => apiId !== undefined)
}

/** Whether a broker did not answer in time. Its code is that of every network error: only the words tell. */
export function isLate(error: unknown): boolean {
  return has(error, ({ message }) => message === 'Request timed out')
}

/** Whether the error may pass by itself: the broker is still looking for the coordinator, for example. */
export function isPassing(error: unknown): boolean {
  return isAnswer(error) && !isRefusal(error) && !isUnknownTopic(error)
}

/** Whether the group has rebalanced without this member. */
export function isStale(error: unknown): boolean {
  return has(error, ({ apiId = '' }) => STALE.includes(apiId))
}

/** An error of the client as a HapaxError. `what` says what could not be done. */
export function brokerError(what: string, error: unknown): HapaxError {
  if (error instanceof HapaxError) return error
  const said = `${what}: ${reasonOf(error)}`
  if (isUnknownTopic(error)) return new HapaxError('topology-mismatch', `${said} Create it first`, { cause: error })
  return new HapaxError(isRefusal(error) ? 'broker-refused' : 'broker-unavailable', said, { cause: error })
}

function isRefusal(error: unknown): boolean {
  return has(error, ({ apiId = '', code = '' }) => REFUSALS.includes(apiId) || REFUSED_CODES.includes(code))
}

function isUnknownTopic(error: unknown): boolean {
  return has(error, ({ apiId, message }) => {
    return apiId === 'UNKNOWN_TOPIC_OR_PARTITION' || /^Unknown topic /.test(message ?? '')
  })
}

function has(error: unknown, test: (each: ClientError) => boolean): boolean {
  return [...chainOf(error)].some(test)
}

/** The innermost message: the outer ones only count attempts. */
function reasonOf(error: unknown): string {
  const last = [...chainOf(error)].at(-1)
  return unreached(messageOf(asError(last ?? error)))
}
