import { describe } from '../../base/index.ts'
import type { Client } from './client.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'

/** What belongs to a connection, not to a response: HTTP/2 forbids it, and how a body is framed is decided here. */
const OF_THE_CONNECTION = ['transfer-encoding', 'keep-alive', 'upgrade', 'proxy-connection', 'http2-settings']

/** Refuses what is no response, in a sentence that names the mistake. */
export function checkedResponse(given: unknown): Response {
  const isResponse = Object.prototype.toString.call(given) === '[object Response]'
  if (isResponse && given instanceof Response && given.type !== 'error') return given
  throw new TypeError(`expected the handler to return a Response, got ${describe(given)}`)
}

/** The headers to send, those of one name together; without what only the connection may say. */
export function headersToSend(response: Response, req: NodeRequest): Map<string, string | string[]> {
  const headers = new Map<string, string | string[]>(response.headers)
  for (const name of OF_THE_CONNECTION) headers.delete(name)
  if (req.httpVersionMajor > 1) headers.delete('connection')
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) headers.set('set-cookie', cookies)
  // Without a body, a length tells of the one that a GET would get.
  const isPromise = response.body !== null || req.method === 'HEAD' || response.status === 304
  if (!isPromise || lengthOf(headers) === undefined) headers.delete('content-length')
  return headers
}

/** The length that the headers promise. */
export function lengthOf(headers: ReadonlyMap<string, string | string[]>): number | undefined {
  const length = headers.get('content-length')
  return typeof length === 'string' && /^\d{1,15}$/.test(length) ? Number(length) : undefined
}

/** Compares a body with the length that was promised: a client would wait for ever, or take the rest for the next response. */
export class Meter {
  readonly #length: number | undefined
  #sent = 0

  constructor(length: number | undefined) {
    this.#length = length
  }

  counted(chunk: unknown): Uint8Array {
    if (!(chunk instanceof Uint8Array)) {
      throw new TypeError(`expected the body of the response to consist of Uint8Arrays, got ${describe(chunk)}`)
    }
    this.#sent += chunk.byteLength
    if (this.#length !== undefined && this.#sent > this.#length) {
      throw new Error('the body of the response is longer than its Content-Length')
    }
    return chunk
  }

  end(): void {
    if (this.#length !== undefined && this.#sent < this.#length) {
      throw new Error('the body of the response is shorter than its Content-Length')
    }
  }
}

/** Whether the response is sent without its body, whatever it is. */
export function isBodiless({ status, body }: Response, { method }: NodeRequest): boolean {
  return body === null || method === 'HEAD' || status === 204 || status === 304
}

/** A body that nobody will read. */
export function drop({ body }: Response, reason?: unknown): void {
  if (body !== null && !body.locked) body.cancel(reason).catch(() => {})
}

/** Sends a response, as fast as the client reads it. Rejects if that could not be finished, unless the client has gone. */
export async function send(response: Response, req: NodeRequest, res: NodeResponse, client: Client): Promise<void> {
  // Written to after the client has gone, a response says so.
  res.on('error', () => {})
  if (client.signal.aborted) return drop(response, client.gone)
  if (res.headersSent) throw new Error('another function has already responded to this request')
  const length = begin(response, req, res)
  if (!isBodiless(response, req) && response.body !== null) return await pump(response.body, length, res, client)
  drop(response)
  res.end()
}

/** Writes status and headers. Returns the length that was promised. */
function begin(response: Response, req: NodeRequest, res: NodeResponse): number | undefined {
  const headers = headersToSend(response, req)
  try {
    for (const [name, value] of headers)
      res.setHeader(name, name === 'set-cookie' ? [...cookiesOf(res), ...value] : value)
  } catch (error) {
    // A character that the Fetch standard allows, and Node does not.
    for (const name of headers.keys()) res.removeHeader(name)
    throw error
  }
  res.statusCode = response.status
  // There is none in HTTP/2, and Node warns.
  if (req.httpVersionMajor === 1) res.statusMessage = response.statusText
  return lengthOf(headers)
}

/** Those of middlewares that ran before. */
function cookiesOf(res: NodeResponse): string[] {
  const cookies = res.getHeader('set-cookie')
  return cookies === undefined ? [] : [cookies].flat().map(String)
}

async function pump(
  body: ReadableStream<unknown>,
  length: number | undefined,
  res: NodeResponse,
  { signal, gone }: Client,
): Promise<void> {
  const reader = body.getReader()
  const cancel = (): void => void reader.cancel(gone).catch(() => {})
  signal.addEventListener('abort', cancel)
  const meter = new Meter(length)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (signal.aborted) return
      if (done) break
      if (!res.write(meter.counted(value))) await drained(res, signal)
    }
    meter.end()
    res.end()
  } catch (error) {
    reader.cancel(error).catch(() => {})
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** Resolves when the client has read what was written, or will not any more. */
function drained(res: NodeResponse, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    if (signal.aborted) return resolve()
    res.on('drain', done)
    signal.addEventListener('abort', done)
  })
}
