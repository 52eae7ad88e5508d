import { createHapax, silentLogger } from 'hapax'
import type { RequestHandler } from 'hapax/contracts'
import { redis } from 'hapax/redis'

/** Where orders are taken, and where the outside world is. */
export interface OrdersPlace {
  readonly url: string
  readonly prefix: string
  /** A provider that counts its calls. */
  readonly provider: string
  readonly leaseMs: number
  /** How long Redis may be away. */
  readonly timeoutMs: number
}

/** Moments of a request: the handler has been called; the provider is being called; it has been; the response is written, not sent. */
export const moments = ['entered', 'calling', 'called', 'settled'] as const
export type Moment = (typeof moments)[number]

/** A process that takes orders: each charges a customer, once. `at` hears of each moment, and may never return. */
export function takeOrders(
  { url, prefix, provider, leaseMs, timeoutMs }: OrdersPlace,
  at: (moment: Moment) => Promise<void> = async () => {},
): { readonly post: RequestHandler; close(): Promise<void> } {
  const hapax = createHapax({ store: redis({ url, prefix, timeoutMs }), logger: silentLogger })
  const orders = hapax.http('orders', { principal: () => 'ann', leaseMs })
  const handler = orders.handler(async (request, ctx) => {
    await at('entered')
    const charge = async (key: string): Promise<unknown> => {
      const response = await fetch(`${provider}/${key}`, { method: 'POST', body: await request.text() })
      await at('calling')
      return response.json()
    }
    // The provider knows what it has done.
    const verified = async (key: string) => {
      const response = await fetch(`${provider}/${key}`)
      return response.ok ? { done: await response.json() } : 'not-done'
    }
    const charged = await ctx.effect('charge', charge, { onUnknown: verified })
    await at('called')
    return Response.json(charged, { status: 201 })
  })
  const post: RequestHandler = async (request) => {
    const response = await handler(request)
    await at('settled')
    return response
  }
  return { post, close: () => hapax.close() }
}

/** An order of a client, which sends it again with the same key until it has a response. */
export function order(key: string): Request {
  return new Request('http://shop.test/orders', { method: 'POST', headers: { 'idempotency-key': key }, body: 'tea' })
}
