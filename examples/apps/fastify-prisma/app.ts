// A shop on Fastify, Prisma and PostgreSQL, which Stripe tells about payments by webhooks. `prisma generate` comes first.
import { once } from 'node:events'
import { PrismaPg } from '@prisma/adapter-pg'
import fastify from 'fastify'
import { createHapax, defineMessage } from 'hapax'
import { toFastify } from 'hapax/fastify'
import { postgres } from 'hapax/postgres'
import { fromPrisma } from 'hapax/prisma'
import { stripe, webhook } from 'hapax/webhooks'
import { PrismaClient } from './generated/client.ts'

const connectionString = process.env['DATABASE_URL'] ?? 'postgres://localhost/shop'
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString, max: 20 }) })
// In a project of your own, `prisma migrate` does this. `hapax migrate --print --format prisma` gives it the tables of hapax.
await prisma.$executeRaw`create table if not exists orders (
  id serial primary key, buyer text, item text not null, amount integer not null)`
await prisma.$executeRaw`create table if not exists invoices (
  id serial primary key, order_id integer not null references orders, amount integer not null, paid integer not null default 0)`

// Without a broker: messages are delivered inside the database.
const hapax = createHapax({ store: postgres(fromPrisma(prisma)), source: '/shop', delivery: 'local' })
await hapax.migrate()

const OrderPlaced = defineMessage<{ id: number; amount: number }>('order.placed', { key: (order) => String(order.id) })

// ctx.tx is Prisma.TransactionClient. The invoice and the receipt of the message commit in it: a message that comes again writes no
// second invoice.
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.invoice.create({ data: { orderId: order.id, amount: order.amount } })
})

// Stripe sends an event again when it got no response, and sometimes although it did. Each event adds its amount once.
interface Payment {
  readonly data: {
    readonly object: { readonly amount_received: number; readonly metadata: { readonly order: string } }
  }
}
const PaymentSucceeded = defineMessage<Payment>('payment_intent.succeeded')
const payments = hapax.consumer('payments', { unknown: 'ignore' })
payments.on(PaymentSucceeded, async ({ data: { object } }, ctx) => {
  const where = { orderId: Number(object.metadata.order) }
  await ctx.tx.invoice.updateMany({ where, data: { paid: { increment: object.amount_received } } })
})
const secret = process.env['STRIPE_WEBHOOK_SECRET']
if (secret === undefined) throw new Error('STRIPE_WEBHOOK_SECRET is missing')
const events = payments.from(webhook(stripe(secret)))

// The order, its message and the response commit together: a request that comes again gets the same response.
// A shop with logins returns the id of the user here.
const requests = hapax.http('orders', { principal: (request) => request.headers.get('x-user') ?? undefined })
const place = requests.handler(async (request, ctx) => {
  const { item, amount } = await bodyOf(request)
  if (typeof item !== 'string' || typeof amount !== 'number') {
    return Response.json({ error: 'expected an item and an amount' }, { status: 422 })
  }
  const { id } = await ctx.tx.order.create({ data: { buyer: ctx.principal ?? null, item, amount } })
  await ctx.publish(OrderPlaced, { id, amount })
  return Response.json({ id, item, amount }, { status: 201 })
})

async function bodyOf(request: Request): Promise<{ item?: unknown; amount?: unknown }> {
  const body: unknown = await request.json().catch(() => undefined)
  return typeof body === 'object' && body !== null ? body : {}
}

// `close` waits for connections that clients keep open after their request: for 72 seconds, unless this says otherwise.
const app = fastify({ keepAliveTimeout: 5_000 })
app.post('/orders', toFastify(place))
app.post('/stripe', toFastify(events.handler))
app.get('/orders', async () => {
  const orders = await prisma.order.findMany({ include: { invoices: true }, orderBy: { id: 'asc' } })
  return orders.map(({ id, item, amount, invoices }) => ({
    id,
    item,
    amount,
    invoices: invoices.length,
    paid: invoices.reduce((sum, { paid }) => sum + paid, 0),
  }))
})

const worker = hapax.worker({ consume: [billing, events] })
await worker.start()
const address = await app.listen({ port: Number(process.env['PORT'] ?? 3000) })
console.log(`listening on ${address.replace('[::1]', 'localhost')}`)

// Requests and handlers that are running may finish.
await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')])
await Promise.all([app.close(), worker.stop({ deadlineMs: 20_000 })])
await hapax.close()
await prisma.$disconnect()
