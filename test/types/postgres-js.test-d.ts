import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromPostgresJs } from 'hapax/postgres-js'
import postgresJs, { type TransactionSql } from 'postgres'
import { expectTypeOf } from 'vitest'

const sql = postgresJs('postgres://localhost/shop')
const hapax = createHapax({ store: postgres(fromPostgresJs(sql)), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have the transaction of postgres.js.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toExtend<TransactionSql>()
  await ctx.tx`insert into orders ${ctx.tx({ id: order.orderId })}`
})

await sql.begin(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'a' })
  await tx.savepoint((nested) => hapax.publish(nested, OrderPlaced, { orderId: 'b' }))
})
// @ts-expect-error: not a transaction
await hapax.publish(sql, OrderPlaced, { orderId: 'a' })
