import express from 'express'
import { createHapax, defineMessage } from 'hapax'
import { toExpress } from 'hapax/express'
import { sqlite } from 'hapax/sqlite'

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
await hapax.transaction((tx) =>
  tx.query('create table if not exists orders (id integer primary key, item text, buyer text)'),
)

const OrderPlaced = defineMessage<{ id: number }>('order.placed')

// A key of one user never finds the response of another one. Return an id here, not a credential.
const orders = hapax.http('orders', { principal: (request) => request.headers.get('x-user') ?? undefined })

// The order, the message and the response commit together. Whoever sends the request again gets the same response.
const place = orders.handler(async (request, ctx) => {
  const order = (await request.json().catch(() => undefined)) as { item?: string } | undefined
  const item = order?.item
  if (typeof item !== 'string') return Response.json({ error: 'an item is missing' }, { status: 422 })
  const { rows } = await ctx.tx.query('insert into orders (item, buyer) values (?, ?) returning id', [
    item,
    ctx.principal,
  ])
  const id = Number(rows[0]?.['id'])
  await ctx.publish(OrderPlaced, { id })
  return Response.json({ id, item }, { status: 201, headers: { location: `/orders/${id}` } })
})

const app = express()
app.post('/orders', toExpress(place)) // before express.json(), which would take the bytes of the body
const server = app.listen(Number(process.env['PORT'] ?? 3000), () => console.log('listening on', server.address()))
