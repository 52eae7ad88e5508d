// What a request gets that has no response of its own. Nothing internal is in these texts: they go to strangers.

import { problemResponse, retryAfter } from '../web/index.ts'

/** What a program compares in the body of a problem. */
export type ProblemCode =
  | 'missing-key'
  | 'invalid-key'
  | 'broken-body'
  | 'missing-principal'
  | 'method-not-allowed'
  | 'in-progress'
  | 'needs-a-person'
  | 'response-gone'
  | 'too-large'
  | 'unsupported-encoding'
  | 'key-reused'
  | 'handler-failed'
  | 'body-consumed'
  | 'response-not-storable'
  | 'unknown-effect'
  | 'handler-timeout'
  | 'database-unavailable'
  | 'outcome-unknown'

/** Status and title by code; `docs/http.md` lists them. */
export const PROBLEMS: Readonly<Record<ProblemCode, readonly [status: number, title: string]>> = {
  'missing-key': [400, 'Idempotency-Key is missing'],
  'invalid-key': [400, 'Idempotency-Key is invalid'],
  'broken-body': [400, 'The body is not complete'],
  'missing-principal': [401, 'Not authenticated'],
  'method-not-allowed': [405, 'Method not allowed'],
  'in-progress': [409, 'The request is in progress'],
  'needs-a-person': [409, 'The request waits for a decision'],
  'response-gone': [409, 'The response is not kept'],
  'too-large': [413, 'The body is too large'],
  'unsupported-encoding': [415, 'The body is compressed'],
  'key-reused': [422, 'Idempotency-Key was used for another request'],
  'handler-failed': [500, 'The request failed'],
  'body-consumed': [500, 'The body was read before'],
  'response-not-storable': [500, 'The response cannot be kept'],
  'unknown-effect': [500, 'The outcome is unknown'],
  'handler-timeout': [503, 'The request took too long'],
  'database-unavailable': [503, 'Temporarily unavailable'],
  'outcome-unknown': [503, 'The outcome is unknown'],
}

/** A problem as a response. `retryMs`: when it makes sense to send the request again. */
export function problem(code: ProblemCode, detail: string, retryMs?: number): Response {
  const [status, title] = PROBLEMS[code]
  const headers = retryMs === undefined ? {} : retryAfter(retryMs)
  return problemResponse({ status, code, title, detail, headers })
}

/** How long a client is asked to wait: while another request with its key runs, and while the database is away. */
export const RETRY_MS = 1_000
/** How long it is asked to wait after a commit whose outcome could not be learnt. */
const UNKNOWN_RETRY_MS = 5_000

/** Another request with this key is running. */
export function inProgress(): Response {
  const detail = 'The request with this Idempotency-Key is not finished yet. Send it again later, with the same key.'
  return problem('in-progress', detail, RETRY_MS)
}

/** The key belongs to a request with another body or another query. */
export function keyReused(): Response {
  const detail =
    'A request with another body, query or path was sent with this Idempotency-Key. A new request needs a new key.'
  return problem('key-reused', detail)
}

/** A receipt without a response, of a request that does not run any more. */
export function responseGone(): Response {
  const detail =
    'A request with this Idempotency-Key was taken before, and its response is not kept. It is not run again.'
  return problem('response-gone', detail)
}

/** The handler failed, and nothing of it was kept. */
export function handlerFailed(): Response {
  return problem(
    'handler-failed',
    'The request failed and nothing was changed. It may be sent again with the same key.',
  )
}

/** The handler failed, and had ended its transaction itself: part of what it did may stay. */
export function brokenAtomicity(): Response {
  return problem('handler-failed', 'The request failed, and a part of it may have taken effect.')
}

/** The handler failed under a lease, and is not called again before a person has decided so. */
export function givenUp(): Response {
  return problem('handler-failed', 'The request failed. It is run again only if a person decides so.')
}

/** The handler returned something that can neither be kept nor be sent again. */
export function responseNotStorable(): Response {
  return problem('response-not-storable', 'The server cannot keep its response, so nothing was changed.')
}

/** The handler ran out of time, and nothing of it was kept. */
export function handlerTimeout(): Response {
  const detail = 'The request took too long and nothing was changed. Send it again, with the same key.'
  return problem('handler-timeout', detail, RETRY_MS)
}

/** The database is away, or has no time. Nothing was kept. */
export function databaseUnavailable(): Response {
  return problem('database-unavailable', 'Send the request again later, with the same key.', RETRY_MS)
}

/** It is not known whether the request took effect. The next one with its key finds out; without a key, nothing does. */
export function outcomeUnknown(keyed = true): Response {
  const what = 'It is not known whether the request took effect.'
  if (!keyed) return problem('outcome-unknown', what)
  const advice = 'Send it again with the same key: it takes effect once, and you get its response.'
  return problem('outcome-unknown', `${what} ${advice}`, UNKNOWN_RETRY_MS)
}

/** The handler failed under a lease: what it has done outside stays done, and the next request goes on with the rest. */
export function leasedFailed(): Response {
  const detail = 'The request failed. Send it again with the same key: what was done already is not done again.'
  return problem('handler-failed', detail, RETRY_MS)
}

/** Nobody knows whether an outside call of the handler happened: a person has to find out. */
export function unknownEffect(): Response {
  return problem(
    'unknown-effect',
    'A step of the request has an unknown outcome. It is being looked into; do not send it as a new request.',
  )
}

/** The request has failed for good, or waits for a person who decides about it. */
export function needsAPerson(): Response {
  const detail = 'The request with this Idempotency-Key has failed. It is run again only if a person decides so.'
  return problem('needs-a-person', detail)
}

/** Handlers that run under a lease take nothing without a key. */
export function methodNotAllowed(): Response {
  return problem(
    'method-not-allowed',
    'Only requests with an Idempotency-Key are taken here, so no GET, HEAD or OPTIONS.',
  )
}
