// A shop on Hono and SQLite, without a broker: messages are delivered inside the database.
import { once } from 'node:events'
import { serve } from '@hono/node-server'
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'
import { Hono } from 'hono'

interface Order {
  readonly id: number
  readonly item: string
  readonly amount: number
}

const OrderPlaced = defineMessage<Order>('order.placed', { key: (order) => String(order.id) })

const hapax = createHapax({
  store: sqlite({ path: process.env['DATABASE_PATH'] ?? 'shop.db' }),
  source: '/shop',
  delivery: 'local',
})
await hapax.migrate()
await hapax.transaction(async (tx) => {
  await tx.query('create table if not exists orders (id integer primary key, buyer text, item text, amount integer)')
  await tx.query('create table if not exists invoices (id integer primary key, order_id integer, amount integer)')
})

// The invoice and the receipt of the message commit together: a message that comes again writes no second invoice.
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices (order_id, amount) values (?, ?)', [order.id, order.amount])
})

// The order, its message and the response commit together: a request that comes again gets the same response.
// A shop with logins returns the id of the user here.
const requests = hapax.http('orders', { principal: (request) => request.headers.get('x-user') ?? undefined })
const place = requests.handler(async (request, ctx) => {
  const { item, amount } = await bodyOf(request)
  if (typeof item !== 'string' || typeof amount !== 'number') {
    return Response.json({ error: 'expected an item and an amount' }, { status: 422 })
  }
  const values = [ctx.principal, item, amount]
  const { rows } = await ctx.tx.query('insert into orders (buyer, item, amount) values (?, ?, ?) returning id', values)
  const order = { id: Number(rows[0]?.['id']), item, amount }
  await ctx.publish(OrderPlaced, order)
  return Response.json(order, { status: 201 })
})

async function bodyOf(request: Request): Promise<{ item?: unknown; amount?: unknown }> {
  const body: unknown = await request.json().catch(() => undefined)
  return typeof body === 'object' && body !== null ? body : {}
}

const app = new Hono()
app.post('/orders', (c) => place(c.req.raw))
app.get('/orders', async (c) => {
  const text = `select o.id, o.item, o.amount, (select count(*) from invoices i where i.order_id = o.id) as invoices
    from orders o order by o.id`
  return c.json((await hapax.transaction((tx) => tx.query(text))).rows)
})

const worker = hapax.worker({ consume: [billing] })
await worker.start()
const server = serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000) }, ({ port }) =>
  console.log(`listening on http://localhost:${port}`),
)

// Requests and handlers that are running may finish.
await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')])
const closed = new Promise((resolve) => server.close(resolve))
await Promise.all([closed, worker.stop({ deadlineMs: 20_000 })])
await hapax.close()
