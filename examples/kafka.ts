import { createHapax, defineMessage } from 'hapax'
import { kafka } from 'hapax/kafka'
import { sqlite } from 'hapax/sqlite'

const cluster = kafka({ url: process.env['KAFKA_URL'] ?? 'kafka://127.0.0.1:9092' })
const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text, amount integer)'))

const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

// The outbox goes to the topic orders, which has to exist; billing reads it as the group billing.
const shop = cluster.topic('orders')
const orders = cluster.group('billing', { topic: 'orders' })
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
