// `hapax/fastify`: handlers of requests as routes of Fastify.

import { Client } from './client.ts'
import { responseTo } from './exchange.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'
import { type FetchHandler, type MountOptions, mountOf } from './options.ts'
import { drop, headersToSend, isBodiless, lengthOf, Meter } from './response.ts'

export type { NodeRequest, NodeResponse } from './messages.ts'
export type { FetchHandler, MountOptions } from './options.ts'

/** The part of a request of Fastify that is used. */
export interface FastifyRequestLike {
  readonly raw: NodeRequest
  headers: Record<string, string | string[] | undefined>
  /** The bytes, where a plugin keeps them. */
  readonly rawBody?: unknown
  /** What a parser made of them. */
  readonly body?: unknown
}

/** The part of a reply of Fastify that is used. */
export interface FastifyReplyLike {
  readonly raw: NodeResponse
  code(status: number): unknown
  header(name: string, value: string | string[]): unknown
  hijack(): unknown
  send(payload?: unknown): unknown
}

/** The options of a route of Fastify. */
export interface FastifyRoute {
  preParsing(
    request: FastifyRequestLike,
    reply: FastifyReplyLike,
    payload: unknown,
    done: (error?: Error | null, payload?: undefined) => void,
  ): void
  handler(request: FastifyRequestLike, reply: FastifyReplyLike): Promise<unknown>
}

/**
 * Mounts a handler as a route of Fastify 5: `fastify.post('/orders', toFastify(handler))`. It returns the options of a route, for others
 * to be added: `{ preHandler, ...toFastify(handler) }`. Fastify does not parse the body of this route. Its hooks run, and what the handler
 * throws goes to its error handler.
 */
export function toFastify(handler: FetchHandler, options: MountOptions = {}): FastifyRoute {
  const mount = mountOf('toFastify', handler, options)
  return {
    preParsing: (request, _reply, _payload, done) => {
      leaveBody(request)
      done()
    },
    handler: async ({ raw: req, body, rawBody = body }, reply) => {
      const client = new Client(req, reply.raw)
      const response = await responseTo(req, reply.raw, mount, client, rawBody)
      if (!client.signal.aborted) return reply.send(begun(response, req, reply))
      drop(response, client.gone)
      return reply.hijack()
    },
  }
}

/**
 * Keeps Fastify from parsing the body: it sees, once, headers of a request without one. Everyone after it sees all headers. Should it
 * parse nevertheless, the handler finds the body read, and says so.
 */
function leaveBody(request: FastifyRequestLike): void {
  const { raw, headers } = request
  // Somebody keeps the bytes for us, or the method is one that Fastify refuses without a content type.
  if (raw.readableFlowing || raw.readableDidRead || raw.method === 'QUERY') return
  if (raw.method === 'GET' || raw.method === 'HEAD') return
  const hidden = { ...headers, 'content-length': undefined, 'transfer-encoding': undefined }
  const get = (): undefined => {
    request.headers = headers
  }
  request.headers = Object.defineProperty(hidden, 'content-type', { get, enumerable: true })
}

/** Gives status and headers to Fastify. Returns the body that it is to send. */
function begun(response: Response, req: NodeRequest, reply: FastifyReplyLike): ReadableStream | undefined {
  const headers = headersToSend(response, req)
  reply.code(response.status)
  for (const [name, value] of headers) reply.header(name, value)
  if (!isBodiless(response, req) && response.body !== null) return measured(response.body, lengthOf(headers))
  drop(response)
  return undefined
}

/** Fastify sends whatever a stream yields. */
function measured(body: ReadableStream<unknown>, length: number | undefined): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const meter = new Meter(length)
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    try {
      const { done, value } = await reader.read()
      if (!done) return controller.enqueue(meter.counted(value))
      meter.end()
      controller.close()
    } catch (error) {
      reader.cancel(error).catch(() => {})
      throw error
    }
  }
  return new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) }, { highWaterMark: 0 })
}
