import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { toNode } from 'hapax/node'
import { endWithParent, job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'

/** A server with one route that takes effect once. */
export interface HttpJob {
  readonly place: Place
  /** Where it stops, until somebody kills it. */
  readonly stops?: 'in-handler' | 'before-commit' | 'before-answer'
  readonly waitMs?: number
  readonly mode?: 'transaction' | 'leased'
  /** Where a leased handler makes its outside call. */
  readonly provider?: string
  readonly leaseMs?: number
}

/** What it says: where it listens, and that it has come to where it stops. */
export type HttpReport = { readonly said: 'listening'; readonly url: string } | { readonly said: 'stopped' }

const { place, stops, waitMs = 0, mode = 'transaction', provider = '', leaseMs = 1_000 } = job<HttpJob>()
endWithParent()
const hapax = createHapax({ store: await openStore(place, { max: 6 }), source: '/http', logger: silentLogger })
const Placed = defineMessage<{ id: string }>('order.placed')

async function stop(here: HttpJob['stops']): Promise<void> {
  if (here !== stops) return
  await say({ said: 'stopped' })
  await new Promise(() => setInterval(() => {}, 1_000))
}

const answer = (id: string): Response => Response.json({ id, process: process.pid }, { status: 201 })

const transactional = () =>
  hapax.http('orders', { principal: 'none', waitMs }).handler(async (request, ctx) => {
    const { id } = (await request.json()) as { id: string }
    await stop('in-handler')
    await ctx.tx.query(insertEffect(place, 'orders', id))
    await ctx.publish(Placed, { id })
    await stop('before-commit')
    return answer(id)
  })

const leased = () =>
  hapax.http('orders', { principal: 'none', waitMs, mode: 'leased', leaseMs }).handler(async (request, ctx) => {
    const { id } = (await request.json()) as { id: string }
    await stop('in-handler')
    await ctx.effect('charge', async (key) => {
      const charged = await fetch(provider, { method: 'POST', body: JSON.stringify({ id, key }) })
      return { status: charged.status }
    })
    await stop('before-commit')
    ctx.complete(async (tx) => void (await tx.query(insertEffect(place, 'orders', id))))
    return answer(id)
  })

const orders = mode === 'leased' ? leased() : transactional()
const server = createServer(
  toNode(async (request) => {
    const response = await orders(request)
    await stop('before-answer')
    return response
  }),
)
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  void say({ said: 'listening', url: `http://127.0.0.1:${port}/orders` })
})
