// Which headers of a response are kept and sent again. A list of what is kept, because a list of what is not would forget something.

import { expected } from '../base/index.ts'

/** Headers that belong to the body, or tell the client what to do with it. */
const KEPT: readonly string[] = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-location',
  'content-type',
  'deprecation',
  'etag',
  'expires',
  'last-modified',
  'link',
  'location',
  'preference-applied',
  'retry-after',
  'sunset',
  'vary',
]

/** Headers of one connection, of one moment, or of one user: whoever sends the request again must not get them. */
const NEVER: ReadonlySet<string> = new Set([
  'age',
  'authentication-info',
  'authorization',
  'connection',
  'content-length',
  'cookie',
  'date',
  'idempotency-key',
  'idempotent-replayed',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'set-cookie',
  'set-cookie2',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'www-authenticate',
])

const CREDENTIAL = /token|secret|password|passwd|credential|session|api-?key|csrf|xsrf|jwt|auth/

/** The names of the headers that are kept: the usual ones, and those that the application names. */
export function keptHeaders(given: readonly string[] = []): ReadonlySet<string> {
  if (!Array.isArray(given)) expected('headers', 'an array of names of headers', given)
  return new Set([...KEPT, ...given.map(keptName)])
}

function keptName(given: unknown): string {
  const name = typeof given === 'string' ? given.toLowerCase() : ''
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) expected('headers', 'an array of names of headers', given)
  if (NEVER.has(name)) expected('headers', 'names of headers that may be sent again to another connection', given)
  if (CREDENTIAL.test(name)) expected('headers', 'names of headers without credentials, because they are stored', given)
  return name
}

/** The headers of a response that are kept. */
export function headersToKeep(headers: Headers, kept: ReadonlySet<string>): readonly (readonly [string, string])[] {
  return [...headers].filter(([name]) => kept.has(name))
}
