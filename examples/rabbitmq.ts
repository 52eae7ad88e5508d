import { createHapax, defineMessage } from 'hapax'
import { rabbitmq } from 'hapax/rabbitmq'
import { sqlite } from 'hapax/sqlite'

const rabbit = rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://127.0.0.1:5672' })
const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text, amount integer)'))

const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

// The outbox goes to the exchange shop, each message with its type as routing key; the queue is bound to the types that billing handles.
const shop = rabbit.exchange('shop')
const orders = rabbit.queue('billing', { bind: { exchange: 'shop' } })
console.log(rabbit.topology().join('\n')) // what will be declared
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
