import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'

// A database of your own. With postgres({ pool }) and mysql({ pool }) only the SQL differs: see docs/stores.
const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop', delivery: 'local' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text, amount integer)'))

const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

// The handler's writes and the receipt of the message commit together, or not at all.
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

// Call handle wherever the same message may arrive twice: from a broker, a webhook sender, a retrying client.
const delivery = { id: 'evt_1', type: 'order.placed', source: '/stripe', data: { orderId: 'A1', amount: 42 } }
console.log((await billing.handle(delivery)).status) // processed
console.log((await billing.handle(delivery)).status) // duplicate

// A published message commits with the business rows; a worker hands it to its consumers.
const worker = hapax.worker({ consume: [billing] })
await worker.start()
await hapax.transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'A2', amount: 7 })
})
await worker.drain()

const { rows } = await hapax.transaction((tx) => tx.query('select * from invoices order by order_id'))
console.log(rows.length) // 2
await hapax.close()
