import { createHapax, defineMessage } from 'hapax'
import { redisStreams } from 'hapax/redis-streams'
import { sqlite } from 'hapax/sqlite'

const redis = redisStreams({ url: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379' })
const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text, amount integer)'))

const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

// The outbox goes to the stream orders; billing reads it as a group. Entries that every group has finished are removed after a day.
const orders = redis.stream('orders', { trim: { keepMs: 86_400_000 } })
const group = redis.group('billing', { stream: 'orders' })
const worker = hapax.worker({ relay: orders, consume: [billing.from(group)] })
await worker.start()

await hapax.transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'A1', amount: 42 })
})

const invoices = async () => (await hapax.transaction((tx) => tx.query('select * from invoices'))).rows
while ((await invoices()).length === 0) await worker.drain()
console.log(await invoices()) // [ { order_id: 'A1', amount: 42 } ]

await worker.stop()
await hapax.close()
