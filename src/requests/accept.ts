// The first look at a request: its key, its sender and its body. Whatever is wrong with them has a problem of its own.

import type { StoredMessage } from '../message/index.ts'
import { readBody } from '../web/index.ts'
import { freshRequest, messageOf } from './identity.ts'
import { parseKey } from './key.ts'
import type { HttpSettings } from './options.ts'
import { problem } from './problems.ts'

/** A request that may run. */
export interface Accepted {
  /** As it came; its body has been read. */
  readonly request: Request
  readonly key: string | undefined
  readonly principal: string | undefined
  readonly body: Uint8Array
  /** What it is known by. Undefined: it has no key, or needs none. */
  readonly message: StoredMessage | undefined
  /** The request for a handler, which may be called more than once. */
  fresh(): Request
}

/** A request with a key. */
export interface Keyed extends Accepted {
  readonly key: string
  readonly message: StoredMessage
}

/** Whether a request is known by its key. */
export function isKeyed(accepted: Accepted): accepted is Keyed {
  return accepted.message !== undefined
}

/** Methods that change nothing, and are not protected. */
const SAFE: readonly string[] = ['GET', 'HEAD', 'OPTIONS']

/** Checks a request. Resolves with a problem where it may not run; rejects with what `principal` or `route` throws. */
export async function accept(request: Request, settings: HttpSettings): Promise<Accepted | Response> {
  const { method } = request
  const key = SAFE.includes(method) ? undefined : keyOf(request, settings)
  if (key instanceof Response) return key
  // A preflight carries no credentials.
  const principal = method === 'OPTIONS' ? undefined : await principalOf(request, settings)
  if (principal instanceof Response) return principal
  const body = await bodyOf(request, settings)
  if (body instanceof Response) return body
  const message = key === undefined ? undefined : messageOf({ request, key, principal, body }, settings)
  return { request, key, principal, body, message, fresh: () => freshRequest(request, body) }
}

function keyOf({ headers }: Request, { require, maxKeyLength }: HttpSettings): string | undefined | Response {
  const parsed = parseKey(headers, maxKeyLength)
  if (parsed.kind === 'key') return parsed.key
  if (parsed.kind === 'invalid') return problem('invalid-key', parsed.detail)
  if (!require) return undefined
  return problem(
    'missing-key',
    'This request needs the header Idempotency-Key: a key that no other request of yours has.',
  )
}

async function principalOf(request: Request, { principal }: HttpSettings): Promise<string | undefined | Response> {
  if (principal === undefined) return undefined
  const found = await principal(request)
  // Checked, because the application may not be written in TypeScript.
  if (typeof found === 'string' && found !== '') return wellFormed(found)
  if (found === undefined || found === null || found === '') {
    return problem('missing-principal', 'It is not known who sends this request.')
  }
  throw new TypeError(`expected principal to return a string or undefined, got a value of type ${typeof found}`)
}

/** Half a character cannot be hashed: two principals that differ in one would be the same. */
function wellFormed(principal: string): string {
  if (principal.isWellFormed()) return principal
  throw new TypeError('expected principal to return a string of whole characters, got one with half a surrogate pair')
}

async function bodyOf(request: Request, { maxBodyBytes }: HttpSettings): Promise<Uint8Array | Response> {
  const encoding = request.headers.get('content-encoding')?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') {
    return problem('unsupported-encoding', 'Send the body without Content-Encoding.')
  }
  const read = await readBody(request, maxBodyBytes)
  if (read.kind === 'whole') return read.bytes
  if (read.kind === 'too-large') return problem('too-large', `The body may have ${maxBodyBytes} bytes at most.`)
  if (read.kind === 'broken') return problem('broken-body', 'The body ended before it was complete.')
  return problem(
    'body-consumed',
    'The body of this request was read before it came here: on the server, mount the handler before body parsers such as express.json().',
  )
}
