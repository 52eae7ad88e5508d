import { HapaxError } from '../../base/index.ts'
import type { Client } from './client.ts'
import { headerOf, type NodeRequest, type NodeResponse } from './messages.ts'

/** Says what to do when a parser was first. */
const BODY_CONSUMED =
  'A body parser has read this request, and its bytes are gone. Mount the route before express.json() and other parsers, or let the parser ' +
  'keep them: express.json({ verify: (req, _, bytes) => { req.rawBody = bytes } })'

/**
 * The body of a request: a stream, the bytes that a parser kept, or null for none. Throws `body-consumed` if any of it was read, and not
 * kept.
 */
export function bodyOf(
  req: NodeRequest,
  res: NodeResponse,
  client: Client,
  rawBody: unknown,
): ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null {
  if (!hasBody(req)) return null
  // True as soon as one byte was read: the part that is left must not pass as the whole.
  if (req.readableDidRead) return kept(req, rawBody)
  return req.readableEnded ? null : streamed(req, res, client)
}

function hasBody(req: NodeRequest): boolean {
  if (req.method === 'GET' || req.method === 'HEAD') return false
  if (req.stream !== undefined) return req.stream.endAfterHeaders !== true
  return headerOf(req, 'transfer-encoding') !== undefined || Number(headerOf(req, 'content-length') ?? 0) !== 0
}

function kept(req: NodeRequest, rawBody: unknown): Uint8Array<ArrayBuffer> {
  if (!(rawBody instanceof Uint8Array) || !isWhole(req, rawBody)) throw new HapaxError('body-consumed', BODY_CONSUMED)
  return new Uint8Array(rawBody)
}

/** Parsers keep what they decompressed: the length of an encoded body says nothing. */
function isWhole(req: NodeRequest, { byteLength }: Uint8Array): boolean {
  const length = headerOf(req, 'content-length')
  return length === undefined || Number(length) === byteLength || headerOf(req, 'content-encoding') !== undefined
}

/** Reads from the client only what is read from it. */
function streamed(req: NodeRequest, res: NodeResponse, client: Client): ReadableStream<Uint8Array> {
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    const data = (chunk: Uint8Array): void => {
      req.pause()
      controller.enqueue(chunk)
    }
    const leave = (): void => void req.off('data', data).off('end', end).off('close', broken)
    const broken = (): void => {
      leave()
      controller.error(client.gone)
    }
    const end = (): void => {
      leave()
      // A stream of HTTP/2 that was reset ends like a whole one.
      if (req.stream?.aborted) controller.error(client.gone)
      else controller.close()
    }
    // The connection stays: a response is still to be sent, and perhaps another request to be read.
    client.discard = () => {
      broken()
      req.resume()
    }
    // First, because a listener for data would let it flow.
    req.pause()
    req.on('data', data).on('end', end).on('close', broken)
    // An error comes with the end of the connection, and is told by that.
    req.on('error', () => {})
    if (req.destroyed) broken()
  }
  const output = req.stream ?? res
  output.once('finish', () => client.discard())
  return new ReadableStream(
    { start, pull: () => void req.resume(), cancel: () => client.discard() },
    { highWaterMark: 0 },
  )
}
