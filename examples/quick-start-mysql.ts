import { createHapax, defineMessage } from 'hapax'
import { mysql } from 'hapax/mysql'
import { createPool } from 'mysql2/promise'

const pool = createPool({ uri: process.env['MYSQL_URL'] ?? 'mysql://root@127.0.0.1/shop' })
const hapax = createHapax({ store: mysql({ pool }), source: '/shop', delivery: 'local' })
await hapax.migrate()
// Not in hapax.transaction: MariaDB and MySQL commit before and after a create table.
await pool.query('create table if not exists invoices (order_id varchar(64), amount integer)')

const OrderPlaced = defineMessage<{ orderId: string; amount: number }>('order.placed', { key: (o) => o.orderId })

// The handler's writes and the receipt of the message commit together, or not at all.
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?, ?)', [order.orderId, order.amount])
})

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
await pool.end()
