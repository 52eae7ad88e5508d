// A shop on Express, Drizzle, PostgreSQL and RabbitMQ.
import { once } from 'node:events'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { bigint, integer, pgTable, text } from 'drizzle-orm/pg-core'
import express from 'express'
import { createHapax, defineMessage } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { toExpress } from 'hapax/express'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import pg from 'pg'

const orders = pgTable('orders', {
  id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  buyer: text(),
  item: text().notNull(),
  amount: integer().notNull(),
})
const invoices = pgTable('invoices', {
  id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  orderId: bigint('order_id', { mode: 'number' }).notNull(),
  amount: integer().notNull(),
})

const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] ?? 'postgres://localhost/shop', max: 20 })
const db = drizzle(pool)
// In a project of your own, drizzle-kit migrates. `hapax migrate --print --format drizzle` gives it the tables of hapax.
await db.execute(sql`create table if not exists orders (
  id bigint primary key generated always as identity, buyer text, item text not null, amount integer not null)`)
await db.execute(sql`create table if not exists invoices (
  id bigint primary key generated always as identity, order_id bigint not null, amount integer not null)`)

const hapax = createHapax({ store: postgres(fromDrizzle(db, sql)), source: '/shop' })
await hapax.migrate()

const OrderPlaced = defineMessage<{ id: number; amount: number }>('order.placed', { key: (order) => String(order.id) })

// ctx.tx is a transaction of Drizzle. The invoice and the receipt of the message commit in it: a message that RabbitMQ delivers again
// writes no second invoice.
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.insert(invoices).values({ orderId: order.id, amount: order.amount })
})

// The order, its message and the response commit together: a request that comes again gets the same response.
// A shop with logins returns the id of the user here.
const requests = hapax.http('orders', { principal: (request) => request.headers.get('x-user') ?? undefined })
const place = requests.handler(async (request, ctx) => {
  const { item, amount } = await bodyOf(request)
  if (typeof item !== 'string' || typeof amount !== 'number') {
    return Response.json({ error: 'expected an item and an amount' }, { status: 422 })
  }
  const [order] = await ctx.tx.insert(orders).values({ buyer: ctx.principal, item, amount }).returning()
  if (order === undefined) throw new Error('the order was not inserted')
  await ctx.publish(OrderPlaced, { id: order.id, amount })
  return Response.json({ id: order.id, item, amount }, { status: 201 })
})

async function bodyOf(request: Request): Promise<{ item?: unknown; amount?: unknown }> {
  const body: unknown = await request.json().catch(() => undefined)
  return typeof body === 'object' && body !== null ? body : {}
}

const app = express()
app.post('/orders', toExpress(place)) // before express.json(), which would take the bytes of the body
app.get('/orders', async (_, response) => {
  const { id, item, amount } = orders
  const billed = sql<number>`count(${invoices.id})::int`
  const query = db.select({ id, item, amount, invoices: billed }).from(orders)
  response.json(await query.leftJoin(invoices, eq(invoices.orderId, id)).groupBy(id).orderBy(id))
})

// The worker sends the outbox to an exchange, and feeds billing from a queue that is bound to it.
const rabbit = rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost' })
const exchange = process.env['EXCHANGE'] ?? 'shop'
const queue = rabbit.queue(`${exchange}.billing`, { bind: { exchange } })
const worker = hapax.worker({ relay: rabbit.exchange(exchange), consume: [billing.from(queue)] })
await worker.start()
const server = app.listen(Number(process.env['PORT'] ?? 3000), () => {
  const address = server.address()
  console.log(`listening on http://localhost:${typeof address === 'object' ? address?.port : address}`)
})

// Requests and handlers that are running may finish.
await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')])
const closed = new Promise((resolve) => server.close(resolve))
await Promise.all([closed, worker.stop({ deadlineMs: 20_000 })])
await hapax.close()
await pool.end()
