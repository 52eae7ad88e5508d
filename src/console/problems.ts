import { isDenied } from '../admin/index.ts'
import { fieldOf, isHapaxError, messageOf } from '../base/index.ts'
import type { ProblemView } from './api.ts'

/** A request that is not done. Its texts go to whoever sent it. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly code: string
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, code: string, detail: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

/** The statuses of what hapax itself refuses, by code. */
const STATUSES: Readonly<Record<string, number>> = {
  'invalid-option': 400,
  'not-found': 404,
  conflict: 409,
  'not-whole': 409,
  'effects-unchecked': 409,
  'invalid-payload': 422,
  unstorable: 422,
  'too-large': 413,
  busy: 503,
  'commit-unknown': 503,
  'store-unavailable': 503,
  'schema-missing': 503,
  'schema-outdated': 503,
  'schema-newer': 503,
  'schema-drift': 503,
  'pool-too-small': 503,
  closed: 503,
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
}

/** What a person is told of an error. Undefined: nobody expected it, and nothing of it is told. */
export function problemOf(error: unknown): ProblemView | undefined {
  if (error instanceof Refusal) return problem(error.status, error.code, error.message)
  const code = isHapaxError(error) ? error.code : ''
  const status = Object.hasOwn(STATUSES, code) ? STATUSES[code] : undefined
  if (isHapaxError(error) && status !== undefined) return problem(status, code, messageOf(error))
  return isDenied(error) ? { ...problem(403, 'denied', DENIED), advice: DENIED_ADVICE } : undefined
}

const DENIED = 'The database user of this console may not do this.'
const DENIED_ADVICE = 'Start the console as a user with the grants of an operator, or grant them: see docs/grants.md.'

/** What a person is told of an error that nobody expected. */
export const UNEXPECTED: ProblemView = {
  title: 'Internal Server Error',
  status: 500,
  code: 'internal',
  detail: 'The request could not be handled. The log of the server says more.',
}

/** A problem as a response. */
export function refused(found: ProblemView, error?: unknown): Response {
  const own = error instanceof Refusal ? error.headers : {}
  const headers = { 'content-type': 'application/problem+json', ...own }
  return new Response(JSON.stringify({ type: 'about:blank', ...found }), { status: found.status, headers })
}

/** Whether an error says that the database did not answer, and not what it answered. */
export function isOutage(error: unknown): boolean {
  return problemOf(error)?.status === 503 || fieldOf(error, 'code') === 'cancelled'
}

function problem(status: number, code: string, detail: string): ProblemView {
  return { title: TITLES[status] ?? 'Error', status, code, detail }
}
