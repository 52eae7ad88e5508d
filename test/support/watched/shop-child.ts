// A process of the watched shop: it publishes, processes and sends, and makes mistakes at a fixed rate, so that every number moves.
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createHapax, defineMessage, NotDone, Permanent, silentLogger } from 'hapax'
import { nats } from 'hapax/nats'
import { opentelemetry } from 'hapax/opentelemetry'
import { prometheus } from 'hapax/prometheus'
import { hmac, webhook } from 'hapax/webhooks'
import { endWithParent, job, say } from '../child.ts'
import { insertEffect, openStore, type Place } from '../databases.ts'
import { HASTY } from '../nats-place.ts'

export interface ShopJob {
  readonly place: Place
  /** The database through a proxy. */
  readonly database: string
  readonly broker: string
  readonly stream: string
  /** Makes the ids of this process its own. */
  readonly name: string
  /** How long to rest between two rounds of messages. */
  readonly everyMs: number
  readonly cleanupMs: number
}

const { place, database, broker, stream, name, everyMs, cleanupMs } = job<ShopJob>()
endWithParent()

const store = await openStore(place, { url: database, max: 12 })
const exporter = new PrometheusExporter({ preventServerStart: true })
const instrument = opentelemetry({ meterProvider: new MeterProvider({ readers: [exporter] }) })
const hapax = createHapax({ store, source: '/shop', logger: silentLogger, instrument })
const metrics = prometheus(hapax)
const js = nats({ url: broker, ...HASTY })

interface Numbered {
  readonly id: string
  readonly n: number
}
const OrderPlaced = defineMessage<Numbered>('order.placed', { key: ({ id }) => id })
const StockMoved = defineMessage<Numbered & { item: string }>('stock.moved', { key: ({ item }) => item })
const PaymentNoted = defineMessage<Numbered>('payment.noted')
const SmsRequested = defineMessage<Numbered>('sms.requested')

const retry = { attempts: 3, minDelayMs: 200, maxDelayMs: 2_000 }

// Fed by the broker; some attempts fail, and a few messages for good.
const billing = hapax.consumer('billing', { retry }).on(OrderPlaced, async ({ id, n }, { tx, attempt }) => {
  if (n % 101 === 7) throw new Permanent('the card is closed')
  if (n % 12 === 0 && attempt === 1) throw new Error('the rates were not there')
  await tx.query(insertEffect(place, 'billing', id))
})

// Order matters: a message that fails holds those of its item that come after it.
const stock = hapax.consumer('stock', { order: 'wait', retry }).on(StockMoved, async ({ id, n }, { tx }) => {
  if (n % 50 === 5) throw new Permanent('less than nothing is left')
  await tx.query(insertEffect(place, 'stock', id))
})

// Told by webhooks, some of them twice, and kept for a moment only, so that there is something to clean.
const payments = hapax.consumer('payments', { receive: 'store', retry, retentionMs: 20_000 })
payments.on(PaymentNoted, async ({ id }, { tx }) => {
  await tx.query(insertEffect(place, 'payments', id))
})

const SECRET = 'a secret of thirty-two characters'
const scheme = hmac({
  name: 'pay',
  secrets: SECRET,
  header: 'signature',
  id: 'body-hash',
  type: 'payment.noted',
  resendsForMs: 10_000,
})
const told = payments.from(webhook(scheme))

const sms = hapax.leased('sms', { leaseMs: 1_500, retry }).on(SmsRequested, async ({ n }, { effect, attempt }) => {
  await effect('send', async () => {
    await delay(300)
    if (n % 11 === 0 && attempt === 1) throw new NotDone('the provider is busy')
    if (n % 60 === 4) throw new Error('the connection broke during the call')
    return { sent: n }
  })
})

// Sent by browsers, some of them twice, and refused at times.
const orders = hapax.http('orders', { principal: 'none', keepMs: 20_000 }).handler(async (_, { tx, key }) => {
  await tx.query(insertEffect(place, 'orders', key ?? ''))
  return new Response('placed', { status: 201 })
})

const worker = hapax.worker({
  relay: js.stream(stream, { maxAgeMs: 7 * 86_400_000 }),
  consume: [billing.from(js.consumer('billing', { stream })), stock, payments, sms],
  keepSentMs: 20_000,
  takeoverMs: 5_000,
  cleanup: { everyMs: cleanupMs },
})
await worker.start()

// The same numbers twice: exported by hapax itself, and by OpenTelemetry.
const server = createServer((request, response) => {
  if (request.url === '/opentelemetry') return exporter.getMetricsRequestHandler(request, response)
  response.setHeader('content-type', metrics.contentType).end(metrics.text())
}).listen(0, '127.0.0.1', () => void say({ port: (server.address() as AddressInfo).port }))

for (let n = 1; ; n++) {
  await Promise.allSettled([round(n), delay(everyMs)])
}

/** What the outside world does in a moment. The database may be away; then the moment is over. */
async function round(n: number): Promise<void> {
  const id = `${name}-${n}`
  const time = new Date().toISOString()
  const item = `${name}-${Math.floor(n / 5)}`
  const order = hapax.transaction(async (tx) => {
    // More in the afternoon.
    const count = 2 + Math.round(2 * Math.sin(n / 60))
    for (let i = 0; i < count; i++) await hapax.publish(tx, OrderPlaced, { id: `${id}-${i}`, n: n * 4 + i })
  })
  const payment = { id, source: '/pay', type: 'payment.noted', time, data: { id, n } }
  await Promise.all([
    order,
    stock.handle({
      id,
      source: '/stock',
      type: 'stock.moved',
      time,
      key: item,
      data: { id, n, item },
    }),
    sms.handle({ id, source: '/sms', type: 'sms.requested', time, data: { id, n } }),
    payments.handle(payment),
  ])
  for (const times of n % 3 === 0 ? [1, 2] : [1]) await orders(placing(id, n % 20 === 0 ? times : 0))
  if (n % 3 === 0) await payments.handle(payment)
  for (const secret of n % 5 === 0 ? [SECRET, SECRET, 'of somebody else'] : [SECRET])
    await told.handler(noted(id, n, secret))
  if (n % 10 === 0) await payments.handle({ ...payment, data: { id, n: -n } })
}

function placing(key: string, n: number): Request {
  return new Request('http://shop/orders', { method: 'POST', headers: { 'idempotency-key': key }, body: String(n) })
}

function noted(id: string, n: number, secret: string): Request {
  const body = JSON.stringify({ id: `${id}-told`, n })
  const signature = createHmac('sha256', secret).update(body).digest('hex')
  return new Request('http://shop/paid', { method: 'POST', headers: { signature }, body })
}
