// A request as a message: its key is the id, and its method, route and sender are the source.

import { createHash } from 'node:crypto'
import { fingerprintOf, messageKey, packAttributes, type StoredMessage, sha256 } from '../message/index.ts'
import { KEY_HEADER } from './key.ts'
import { type HttpSettings, MAX_ROUTE_BYTES } from './options.ts'

/** The type of every request. */
export const REQUEST_TYPE = 'http.request'

/** What a request is known by. */
export interface RequestIdentity {
  readonly request: Request
  readonly key: string
  readonly principal: string | undefined
  readonly body: Uint8Array
}

/** The message that stands for a request. Equal keys of another sender, route or method are other messages. */
export function messageOf(identity: RequestIdentity, settings: HttpSettings): StoredMessage {
  const { request, key, principal, body } = identity
  const url = new URL(request.url)
  const route = settings.route?.(request) ?? shortened(url.pathname)
  const whose = principal === undefined ? '' : ` ~${sha256(principal).slice(0, 32)}`
  const source = `${request.method} ${route}${whose}`
  return {
    messageKey: messageKey(source, key),
    source,
    id: key,
    type: REQUEST_TYPE,
    key: null,
    attributes: attributesOf(identity, url),
    data: body,
    fingerprint: fingerprintOfRequest(url, body),
  }
}

/** Eight bytes that tell a request from another one with the same key. The path is among it, because a `route` may stand for many. */
export function fingerprintOfRequest({ pathname, search }: Pick<URL, 'pathname' | 'search'>, body: Uint8Array): string {
  const target = pathname + search
  // Each behind its length, so that the end of the query cannot be taken for the beginning of the body.
  const digest = createHash('sha256')
    .update(`${target.length}:${target},${body.byteLength}:`)
    .update(body)
    .digest('hex')
  return fingerprintOf(digest)
}

/** A path of any length has to fit into a source. */
function shortened(path: string): string {
  return path.length <= MAX_ROUTE_BYTES ? path : `${path.slice(0, MAX_ROUTE_BYTES - 40)}~${sha256(path).slice(0, 32)}`
}

/** What a worker needs to rebuild the request. Nothing that the client proves its identity with is among it. */
const REBUILT: readonly string[] = [
  'accept',
  'accept-language',
  'content-language',
  'content-type',
  'prefer',
  KEY_HEADER,
]

/** Names of what is no header of the request, in the attributes of its message. */
const [METHOD, URL_NAME, PRINCIPAL] = [':method', ':url', ':principal']

function attributesOf({ request, principal }: RequestIdentity, url: URL): string {
  const headers: Record<string, string> = { [METHOD]: request.method, [URL_NAME]: withoutUser(url) }
  if (principal !== undefined) headers[PRINCIPAL] = principal
  for (const name of REBUILT) {
    const value = request.headers.get(name)
    if (value !== null) headers[name] = value
  }
  const subject = `${request.method} ${shortened(url.pathname)}`
  return packAttributes({ subject, datacontenttype: 'application/octet-stream', headers })
}

/** User and password in a URL are a credential. */
function withoutUser(url: URL): string {
  return url.origin === 'null' ? url.pathname + url.search : url.origin + url.pathname + url.search
}

/** A request as it is rebuilt from the attributes of its message, by a process that never saw it. */
export function rebuilt(
  attributes: Readonly<Record<string, string>> = {},
  body: Uint8Array,
): { readonly request: Request; readonly principal: string | undefined } {
  const {
    [METHOD]: method = 'POST',
    [URL_NAME]: url = 'http://localhost/',
    [PRINCIPAL]: principal,
    ...own
  } = attributes
  return { request: freshRequest({ url, method, headers: new Headers(own) }, body), principal }
}

/** A request over these bytes, which can be read. Its signal is not that of the client: a request takes effect whether it waits or not. */
export function freshRequest(
  { url, method, headers }: Pick<Request, 'url' | 'method' | 'headers'>,
  body: Uint8Array,
): Request {
  const bodyless = method === 'GET' || method === 'HEAD' || body.byteLength === 0
  // A copy: a handler may transfer the buffer of what it reads.
  return new Request(url, { method, headers, ...(!bodyless && { body: new Uint8Array(body) }) })
}
