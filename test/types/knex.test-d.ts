import { createHapax, defineMessage } from 'hapax'
import { fromKnex } from 'hapax/knex'
import { mysql } from 'hapax/mysql'
import knex, { type Knex } from 'knex'
import { expectTypeOf } from 'vitest'

const db = knex({ client: 'mysql2', connection: 'mysql://localhost/shop' })
const hapax = createHapax({ store: mysql(fromKnex(db), { database: 'shop' }), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have Knex's own transaction.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<Knex.Transaction>()
  await ctx.tx('orders').insert({ id: order.orderId })
})

// Publishing takes the transactions of hapax and of Knex.
await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
await db.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
// @ts-expect-error: Knex itself is not a transaction
await hapax.publish(db, OrderPlaced, { orderId: 'a' })
