import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { unavailable } from './failures.ts'
import type { Guard } from './guard.ts'
import type { Target } from './target.ts'

/** What is sent. */
export interface Delivery {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** What came back: as much of it as is of interest. */
export interface Response {
  readonly status: number
  readonly retryAfter: string | undefined
  /** The beginning of the body. */
  readonly body: Buffer
}

/** How long a connection may take, TLS included, once the addresses are known. */
const CONNECT_MS = 5_000
/** How much of a body is read. More of it than that is not waited for. */
const MAX_BODY = 65_536

/** Sends one request over a connection of its own. Rejects if no status came in time. */
export async function exchange(
  guard: Guard,
  target: Target,
  delivery: Delivery,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Response> {
  const end = new AbortController()
  const endAfter = (ms: number, what: string): (() => void) =>
    limit(ms, () => end.abort(unavailable(`${what} within ${ms} ms`)))
  const interrupt = (): void => end.abort(unavailable('the delivery was interrupted'))
  signal.addEventListener('abort', interrupt, { once: true })
  const limits = [endAfter(timeoutMs, 'there was no response')]
  try {
    if (signal.aborted) interrupt()
    const addresses = await guard.addresses(target, end.signal)
    end.signal.throwIfAborted()
    const connected = endAfter(CONNECT_MS, 'no connection was made')
    limits.push(connected)
    const socket = await guard.connect(target, addresses, end.signal)
    connected()
    return await responseOn(socket, target, delivery, end.signal)
  } catch (error) {
    // What fails after the end, fails because of it.
    throw end.signal.aborted ? end.signal.reason : error
  } finally {
    for (const cancel of limits) cancel()
    signal.removeEventListener('abort', interrupt)
  }
}

/** After a standstill of the whole process, what has arrived in the meantime comes before the limit. Returns what cancels it. */
function limit(ms: number, late: () => void): () => void {
  let last: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    last = setImmediate(late)
  }, ms)
  return () => {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

function responseOn(socket: Socket, target: Target, delivery: Delivery, signal: AbortSignal): Promise<Response> {
  const answered = new Promise<Response>((resolve, reject) => {
    const call = httpRequest({
      // With a socket of its own there is no agent: none that reuses another socket, none that asks a proxy.
      createConnection: () => socket,
      method: 'POST',
      path: target.path,
      headers: { host: target.authority, ...delivery.headers, 'content-length': delivery.body.byteLength },
      setHost: false,
    })
    let hasStatus = false
    // Once the status is there, the end of the socket is the end of the body, and no failure.
    const fail = (error: unknown): void => {
      if (!hasStatus) reject(error)
    }
    call.on('response', (response) => {
      hasStatus = true
      void beginningOf(response).then(resolve)
    })
    call.on('error', fail)
    call.on('close', () => fail(Object.assign(new Error('no response'), { code: 'ECONNRESET' })))
    signal.addEventListener('abort', () => fail(signal.reason), { once: true })
    call.end(delivery.body)
  })
  return answered.finally(() => socket.destroy())
}

/** The status decides. The body is for people, so that whatever becomes of it is no failure. */
function beginningOf(response: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = []
  let length = 0
  return new Promise((resolve) => {
    const done = (): void =>
      resolve({
        status: response.statusCode ?? 0,
        retryAfter: response.headers['retry-after'],
        body: Buffer.concat(chunks),
      })
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.byteLength
      if (length >= MAX_BODY) done()
    })
    response.on('end', done)
    response.on('error', done)
    response.on('close', done)
  })
}
