import assert from 'node:assert/strict'
import type { HttpOptionsBase, RequestHandler } from '../../contracts/index.ts'
import { until } from '../wait.ts'

/** What a handler of the cases gets beside the request, on every kind of store. */
interface RequestCall {
  readonly key: string | undefined
  readonly principal: string | undefined
  /** Causes something that happens once: a row of the transaction, or an outside call. */
  effect(label: string): Promise<unknown>
}

/** A handler of the cases. */
export type CaseHandler = (request: Request, call: RequestCall) => Response | Promise<Response>

/** Where the cases of requests run: a store and a mode. */
export interface RequestWorld {
  /** Opens a scope. `rival`: as another process has it, on the same database. */
  open(handler: CaseHandler, options?: Partial<HttpOptionsBase>, rival?: 'rival'): Promise<RequestHandler>
  /** The effects that are there, in the order of their text. */
  effects(): Promise<readonly string[]>
}

/** A case of requests. */
export interface RequestCase {
  readonly name: string
  /** It needs a second store on the same database. */
  readonly rival?: true
  readonly run: (world: RequestWorld) => Promise<void>
}

/** What is sent. */
export interface Sent {
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly url?: string
  readonly method?: string
  readonly user?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A request with this key. The sender is what `x-user` says. */
export function post(key: string | undefined, sent: Sent = {}): Request {
  const { body = '{"n":1}', url = 'http://localhost/orders', method = 'POST', user = 'ann', headers = {} } = sent
  const keyed = key === undefined ? {} : { 'idempotency-key': key }
  return new Request(url, {
    method,
    headers: { 'x-user': user, ...keyed, ...headers },
    ...(method !== 'GET' && { body }),
  })
}

/** Who sends a request of the cases. */
export function senderOf(request: Request): string | undefined {
  return request.headers.get('x-user') ?? undefined
}

/** A handler that writes the body as its effect and returns it, and how often it was called. */
export function placing(): { readonly calls: string[]; readonly place: CaseHandler } {
  const calls: string[] = []
  const place: CaseHandler = async (request, call) => {
    const text = await request.text()
    calls.push(text)
    await call.effect(`${call.key} ${text}`)
    return Response.json({ placed: text, call: calls.length }, { status: 201, headers: { location: '/orders/1' } })
  }
  return { calls, place }
}

/** The response is a problem with this status and code. */
export async function assertProblem(response: Response, status: number, code: string): Promise<void> {
  const body = await response.text()
  assert.equal(response.status, status, body)
  assert.equal(response.headers.get('content-type'), 'application/problem+json')
  const problem = JSON.parse(body)
  assert.equal(problem.code, code)
  assert.equal(problem.status, status)
  for (const field of ['type', 'title', 'detail']) assert.equal(typeof problem[field], 'string', field)
}

/** Both are the same, and the second says that it is a repetition. */
export async function assertReplay(first: Response, second: Response): Promise<void> {
  assert.equal(first.headers.get('idempotent-replayed'), null)
  assert.equal(second.headers.get('idempotent-replayed'), 'true')
  assert.equal(second.status, first.status)
  for (const name of ['content-type', 'location']) assert.equal(second.headers.get(name), first.headers.get(name), name)
  assert.deepEqual(await bytesOf(second), await bytesOf(first))
}

export async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer())
}

/** Sends until the request is no longer told to come later: after a failure, some stores wait before the next attempt. */
export async function eventually(handle: RequestHandler, request: () => Request): Promise<Response> {
  let response: Response | undefined
  await until(async () => {
    response = await handle(request())
    return response.status !== 409
  }, 'another response than 409')
  return response ?? assert.fail('no response')
}
