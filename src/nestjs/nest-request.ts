import type { IncomingMessage } from 'node:http'
import { HapaxError } from '../base/index.ts'

/** What is used of a request of Express or Fastify. */
export interface NestRequest {
  readonly headers: IncomingMessage['headers']
  readonly originalUrl?: string
  readonly url?: string
  readonly method?: string
  /** What a parser made of the body. */
  readonly body?: unknown
  /** The bytes of the body, with `rawBody: true` of `NestFactory.create`. */
  readonly rawBody?: unknown
}

/** Says how the body was framed; a parser has read it. */
const OF_THE_BODY = ['content-encoding', 'content-length', 'transfer-encoding']

/** A request as `hapax.http` takes it, after parsers have read it. */
export function fetchRequest(request: NestRequest): Request {
  const { method = 'GET' } = request
  const target = request.originalUrl ?? request.url ?? '/'
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith(':') || OF_THE_BODY.includes(name)) continue
    for (const each of [value].flat()) if (each !== undefined) headers.append(name, each)
  }
  const body = method === 'GET' || method === 'HEAD' ? null : bodyOf(request)
  return new Request(new URL(target.startsWith('/') ? target.replace(/^\/+/, '/') : '/', 'http://localhost'), {
    method,
    headers,
    body,
  })
}

/** The bytes where they were kept, else what the parser made of them, which is equal for equal bytes. */
function bodyOf(request: NestRequest): Uint8Array<ArrayBuffer> | string | null {
  const { rawBody, body } = request
  if (rawBody instanceof Uint8Array) return new Uint8Array(rawBody)
  if (body instanceof Uint8Array) return new Uint8Array(body)
  if (typeof body === 'string') return body
  if (body !== undefined) return JSON.stringify(body) ?? null
  if (!hasBody(request)) return null
  const type = String(request.headers['content-type'] ?? 'no content type')
  throw new HapaxError(
    'body-consumed',
    `expected the body of a request with an Idempotency-Key to be parsed, got one of ${type}, which no parser took`,
  )
}

function hasBody({ headers }: NestRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
