import assert from 'node:assert/strict'
import type { ClaimHapax } from '../../claims/index.ts'
import type { ClaimHttpContext, ClaimHttpOptions, Http, RequestHandler } from '../../contracts/index.ts'
import type { ClaimWorld } from './world.ts'

/** Handles an order: `body` is what the client sent. */
export type Ordering = (ctx: ClaimHttpContext, request: Request, body: string) => unknown

/** How a shop is opened. */
export interface ShopOptions extends Partial<ClaimHttpOptions> {
  readonly hapax?: ClaimHapax
  /** A name of its own, where a case has several. */
  readonly scope?: string
}

/** What is different about a request. */
export interface Posted {
  readonly key?: string
  readonly user?: string
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A route that takes orders, as an application would have it, and the calls of its handler. */
export class Shop {
  readonly hapax: ClaimHapax
  readonly http: Http<ClaimHttpContext>
  /** The bodies that the handler has seen. */
  readonly calls: string[] = []
  readonly #handler: RequestHandler

  constructor(
    world: ClaimWorld,
    ordering: Ordering,
    { hapax = world.hapax(), scope = 'orders', ...options }: ShopOptions = {},
  ) {
    this.hapax = hapax
    const principal = (request: Request): string | undefined => request.headers.get('x-user') ?? undefined
    this.http = hapax.http(scope, { principal, ...options })
    this.#handler = this.http.handler(async (request, ctx) => {
      const body = await request.text()
      this.calls.push(body)
      const answer = await ordering(ctx, request, body)
      return answer instanceof Response ? answer : Response.json({ order: answer ?? body }, { status: 201 })
    })
  }

  /** Sends an order; an empty key or user is left out. */
  post(
    body: string,
    { key = 'k', user = 'ann', method = 'POST', path = '/orders', headers = {} }: Posted = {},
  ): Promise<Response> {
    const all = new Headers({ 'content-type': 'text/plain', ...headers })
    if (key !== '') all.set('idempotency-key', key)
    if (user !== '') all.set('x-user', user)
    const bodyless = method === 'GET'
    return this.#handler(
      new Request(`http://shop.test${path}`, { method, headers: all, ...(!bodyless && { body: Buffer.from(body) }) }),
    )
  }

  /** What a worker does in another process, or in this one. */
  async drain(): Promise<void> {
    const worker = this.hapax.worker({ consume: [this.http], pollMs: 20 })
    await worker.start()
    await worker.drain()
    await worker.stop()
  }
}

/** Status and code of a problem, or status, body and mark of a response. */
export async function told(sent: Response | Promise<Response>): Promise<string> {
  const response = await sent
  const text = await response.text()
  const isProblem = response.headers.get('content-type') === 'application/problem+json'
  const what = isProblem ? String(JSON.parse(text).code) : text
  return [response.status, what, ...(response.headers.has('idempotent-replayed') ? ['again'] : [])].join(' ')
}

/** The client is asked to come again. */
export function assertRetryAfter({ headers }: Response): void {
  assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
}
