import { createHapax } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it } from 'vitest'

it('does not wait for a client that is slow to send its body', async () => {
  let calls = 0
  const hapax = createHapax({ store: memory(), source: '/shop' })
  const handle = hapax.http('orders', { principal: 'none' }).handler(() => new Response(`call ${++calls}`))
  const { readable, writable } = new TransformStream<Uint8Array>()
  const headers = { 'idempotency-key': 'a' }
  const request = new Request('http://localhost/orders', { method: 'POST', headers, body: readable, duplex: 'half' })
  const response = handle(request)
  await hapax.close()
  await writable.close()
  expect((await response).status).toBe(503)
  expect(calls).toBe(0)
})
