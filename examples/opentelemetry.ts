import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { createHapax, defineMessage } from 'hapax'
import { opentelemetry } from 'hapax/opentelemetry'
import { sqlite } from 'hapax/sqlite'

// The SDK of the application. In production it exports to a collector; it may also be started after hapax.
const exporter = new InMemorySpanExporter()
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
trace.setGlobalTracerProvider(provider)
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const hapax = createHapax({
  store: sqlite({ path: 'shop.db' }),
  source: '/shop',
  delivery: 'local',
  instrument: opentelemetry(),
})
await hapax.migrate()

const billing = hapax.consumer('billing').on(OrderPlaced, async ({ orderId }) => {
  trace.getActiveSpan()?.setAttribute('order.id', orderId)
})
const worker = hapax.worker({ consume: [billing] })
await worker.start()

const tracer = trace.getTracer('shop')
await tracer.startActiveSpan('POST /orders', async (request) => {
  await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'A1' }))
  request.end()
})
await worker.drain()

const spans = new Map(exporter.getFinishedSpans().map((span) => [span.name, span]))
const [request, publish] = [spans.get('POST /orders'), spans.get('publish order.placed')]
const attempt = spans.get('process billing')
console.log(publish?.parentSpanContext?.spanId === request?.spanContext().spanId) // true
console.log(attempt?.links[0]?.context.spanId === publish?.spanContext().spanId) // true
console.log(attempt?.parentSpanContext) // undefined
console.log(attempt?.attributes['hapax.outcome'], attempt?.attributes['order.id']) // processed A1

await worker.stop()
await hapax.close()
