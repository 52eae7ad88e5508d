// What a handler returns, read to its end, so that it can be kept and sent.

import { asError, describe, fieldOf, HapaxError } from '../base/index.ts'
import type { StoredResponse } from '../contracts/index.ts'
import { readBody } from '../web/index.ts'
import { headersToKeep } from './headers.ts'
import type { HttpSettings } from './options.ts'

/** A response that was read: what is kept of it, and what is sent. */
export class Captured {
  readonly stored: StoredResponse
  readonly #statusText: string
  readonly #headers: Headers

  constructor(stored: StoredResponse, statusText: string, headers: Headers) {
    this.stored = stored
    this.#statusText = statusText
    this.#headers = headers
  }

  /** A response to send, with all headers. Made anew at each call, because a body can be read once. */
  send(): Response {
    return whole(this.stored, this.#headers, this.#statusText)
  }
}

/** What a handler returned, if it is a response; throws `invalid-response`. */
export function responseOf(returned: unknown): Response {
  const response = asResponse(returned)
  if (response !== undefined) return response
  throw new HapaxError('invalid-response', `expected the handler to return a Response, got ${describe(returned)}`)
}

/**
 * A value, returned or thrown, that is a response. One of another copy of the Fetch standard is taken as well, because a framework may have
 * its own, and made one of ours: whoever sends it knows no others.
 */
export function asResponse(value: unknown): Response | undefined {
  if (value instanceof Response) return value
  if (!isForeign(value)) return undefined
  const { status, statusText, headers, body } = value
  return new Response(BODYLESS.includes(status) ? null : body, {
    status,
    statusText,
    headers: new Headers([...headers]),
  })
}

function isForeign(value: unknown): value is Response {
  const methods = [fieldOf(fieldOf(value, 'headers'), 'get'), fieldOf(value, 'arrayBuffer')]
  return typeof fieldOf(value, 'status') === 'number' && methods.every((method) => typeof method === 'function')
}

/** Reads a response to its end. Throws `response-not-storable` for one that cannot be kept: a stream without an end, for example. */
export async function capture(
  response: Response,
  { headers: kept, maxResponseBytes }: Pick<HttpSettings, 'headers' | 'maxResponseBytes'>,
): Promise<Captured> {
  const { status, statusText, headers } = response
  if (status < 200 || status > 599) throw notStorable(`its status is ${status}`)
  if (headers.get('content-type')?.toLowerCase().startsWith('text/event-stream'))
    throw notStorable('it is a stream of events')
  const read = await readBody(response, maxResponseBytes)
  if (read.kind === 'used') throw notStorable('its body has been read already, or is being read')
  if (read.kind === 'too-large') throw notStorable(`its body is larger than maxResponseBytes (${maxResponseBytes})`)
  if (read.kind === 'broken') throw asError(read.error)
  const body = read.bytes
  const all = new Headers(headers)
  // The length is that of what was read; how it was to be framed is over.
  for (const name of ['content-length', 'transfer-encoding']) all.delete(name)
  return new Captured({ status, headers: headersToKeep(all, kept), body }, statusText, all)
}

function notStorable(why: string): HapaxError {
  const what = `the response cannot be kept: ${why}`
  const advice = 'return a URL to what is large or goes on, or leave this route outside hapax.http'
  return new HapaxError('response-not-storable', `${what}; ${advice}`)
}

/** A response that was kept, to be sent again. */
export function replayed({ status, headers, body }: StoredResponse): Response {
  const all = new Headers(headers.map(([name, value]): [string, string] => [name, value]))
  all.set('idempotent-replayed', 'true')
  return whole({ status, body }, all)
}

/** Statuses that have no body: `Response` refuses even an empty one. */
const BODYLESS: readonly number[] = [204, 205, 304]

/** A response whose body is known to its end, so that it need not be sent in chunks. */
function whole({ status, body }: Pick<StoredResponse, 'status' | 'body'>, given: Headers, statusText = ''): Response {
  if (BODYLESS.includes(status)) return new Response(null, { status, statusText, headers: given })
  const headers = new Headers(given)
  headers.set('content-length', String(body.byteLength))
  return new Response(new Uint8Array(body), { status, statusText, headers })
}
