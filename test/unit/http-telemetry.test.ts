import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { opentelemetry } from 'hapax/opentelemetry'
import { prometheus } from 'hapax/prometheus'
import { expect, it, onTestFinished } from 'vitest'
import { currentSpan, Tracing } from '../support/tracing.ts'

const Placed = defineMessage<{ n: number }>('order.placed')

function open(instrument?: ReturnType<typeof opentelemetry>): Hapax<MemoryTx> {
  const hapax = createHapax({
    store: memory(),
    source: '/shop',
    logger: silentLogger,
    ...(instrument && { instrument }),
  })
  onTestFinished(() => hapax.close())
  return hapax
}

const post = (key: string): Request =>
  new Request('http://a/orders', { method: 'POST', headers: { 'idempotency-key': key }, body: '1' })

it('requests are counted by scope and outcome, and not as messages', async () => {
  const hapax = open()
  const metrics = prometheus(hapax)
  const handle = hapax.http('orders', { principal: 'none' }).handler(() => new Response('x'))
  for (const key of ['a', 'a', 'b', '']) await handle(post(key))
  const lines = metrics.text().split('\n')
  expect(lines).toContain('hapax_http_requests_total{scope="orders",outcome="first"} 2')
  expect(lines).toContain('hapax_http_requests_total{scope="orders",outcome="replayed"} 1')
  expect(lines).toContain('hapax_http_requests_total{scope="orders",outcome="rejected"} 1')
  expect(lines).toContain('hapax_http_request_seconds_count{scope="orders"} 4')
  expect(lines.filter((line) => line.startsWith('hapax_messages_total'))).toEqual([])
})

it('a request has a span, in which its handler runs and publishes', async () => {
  const tracing = Tracing.open()
  const hapax = open(opentelemetry({ tracerProvider: tracing.provider }))
  let inside: string | undefined
  const handle = hapax.http('orders', { principal: 'none' }).handler(async (_, ctx) => {
    inside = currentSpan()
    await ctx.publish(Placed, { n: 1 })
    return new Response('x')
  })
  await handle(post('a'))
  await handle(post('a'))
  const [first, second] = tracing.named('http orders')
  expect(first).toMatchObject({ kind: 'INTERNAL', parent: undefined, failed: false })
  expect(first?.attributes).toEqual({ 'hapax.http.scope': 'orders', 'hapax.outcome': 'first' })
  expect(second?.attributes).toEqual({ 'hapax.http.scope': 'orders', 'hapax.outcome': 'replayed' })
  expect(inside).toBe(first?.id)
  expect(tracing.named('publish')[0]?.parent).toBe(first?.id)
})
