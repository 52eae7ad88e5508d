import { createHapax, defineMessage } from 'hapax'
import { nats } from 'hapax/nats'
import { sqlite } from 'hapax/sqlite'

const js = nats({ url: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222' })
const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text, amount integer)'))

const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

// The outbox goes to the stream SHOP, this message with the subject shop.order.placed; billing reads it through a durable consumer.
const shop = js.stream('SHOP', { maxAgeMs: 7 * 86_400_000 })
const orders = js.consumer('billing', { stream: 'SHOP', filter: 'shop.order.>' })
const worker = hapax.worker({ relay: shop, consume: [billing.from(orders)] })
await worker.start()

await hapax.transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'A1', amount: 42 })
})

const invoices = async () => (await hapax.transaction((tx) => tx.query('select * from invoices'))).rows
while ((await invoices()).length === 0) await worker.drain()
console.log(await invoices()) // [ { order_id: 'A1', amount: 42 } ]

await worker.stop()
await hapax.close()
