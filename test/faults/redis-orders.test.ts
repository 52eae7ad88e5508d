import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { Child } from '../support/child.ts'
import { noPrivateServer, privateServer } from '../support/private-server.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer, withoutRedis } from '../support/servers.ts'
import { type Moment, moments, order, takeOrders } from './redis-orders.ts'
import type { OrdersJob } from './redis-orders-child.ts'

/** Charges customers; remembers what it did under each key, and how often. It honours no keys: each call is a charge. */
async function provider(): Promise<AsyncDisposable & { readonly url: string; readonly charges: readonly string[] }> {
  const charges: string[] = []
  const server = createServer((request, response) => {
    if (request.method === 'POST') charges.push(request.url ?? '')
    const number = charges.indexOf(request.url ?? '') + 1
    response.writeHead(number === 0 ? 404 : 200).end(JSON.stringify({ charge: number }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    charges,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const CHARGED = '{"charge":1}'
const LEASE_MS = 5_000

describe.skipIf(withoutRedis())('hapax.http on Redis', () => {
  it.for(moments)(
    'B1 B7: a process is killed when its order is %s: the next request gets the response of one charge',
    async (moment) => {
      await using world = await provider()
      const where = { url: requireServer('redis'), prefix: freshPrefix(), provider: world.url }
      const place = { ...where, leaseMs: LEASE_MS, timeoutMs: 20_000 }
      const job: OrdersJob = { place, key: 'k', moment }
      const child = new Child<{ now: Moment }>(new URL('./redis-orders-child.ts', import.meta.url), job)
      expect(await child.next()).toEqual({ now: moment })
      const shop = takeOrders(place)
      if (moment !== 'settled') expect((await shop.post(order('k'))).status).toBe(409)
      child.kill('SIGKILL')
      await child.ended
      let response = await shop.post(order('k'))
      await until(async () => {
        if (response.status === 201) return true
        expect([response.status, Number(response.headers.get('retry-after')) > 0]).toEqual([409, true])
        response = await shop.post(order('k'))
        return false
      })
      expect(await response.text()).toBe(CHARGED)
      expect(response.headers.has('idempotent-replayed')).toBe(moment === 'settled')
      const again = await shop.post(order('k'))
      expect([again.headers.get('idempotent-replayed'), await again.text()]).toEqual(['true', CHARGED])
      expect(world.charges).toHaveLength(1)
      await shop.close()
    },
  )

  it('A25 B7: Redis is killed between the charge and the response, and comes back: 503, then the response of one charge', async (context) => {
    const left = noPrivateServer('redis')
    if (left !== undefined) return context.skip(left)
    await using world = await provider()
    await using server = await privateServer('redis')
    let killed = false
    const place = { url: server.url, prefix: freshPrefix(), provider: world.url, leaseMs: LEASE_MS, timeoutMs: 10_000 }
    const shop = takeOrders(place, async (moment) => {
      if (moment !== 'called' || killed) return
      killed = true
      await server.kill()
    })
    const unknown = await shop.post(order('k'))
    expect(await unknown.json()).toMatchObject({ status: 503, code: 'outcome-unknown' })
    expect(Number(unknown.headers.get('retry-after'))).toBeGreaterThan(0)
    const away = await shop.post(order('k'))
    expect(await away.json()).toMatchObject({ status: 503, code: 'database-unavailable' })
    await server.start()
    let response = await shop.post(order('k'))
    await until(async () => {
      if (response.status === 201) return true
      response = await shop.post(order('k'))
      return false
    })
    expect(await response.text()).toBe(CHARGED)
    // A new process, and a server that has loaded its data once more.
    await server.kill()
    await server.start()
    const other = takeOrders(place)
    expect((await other.post(order('k'))).headers.get('idempotent-replayed')).toBe('true')
    expect(world.charges).toHaveLength(1)
    await Promise.all([shop.close(), other.close()])
  })
})
