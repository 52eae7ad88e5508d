import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { createHapax, defineMessage } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { postgres } from 'hapax/postgres'
import { expectTypeOf } from 'vitest'

const orders = pgTable('orders', { id: text().notNull() })
const db = drizzle('postgres://localhost/shop', { schema: { orders } })

type Schema = { orders: typeof orders }
type Tx = Parameters<Parameters<NodePgDatabase<Schema>['transaction']>[0]>[0]

const hapax = createHapax({ store: postgres(fromDrizzle(db, sql)), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have Drizzle's own transaction, with the schema of the database.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<Tx>()
  await ctx.tx.insert(orders).values({ id: order.orderId })
  // @ts-expect-error: a column has its type
  await ctx.tx.insert(orders).values({ id: 1 })
  expectTypeOf(await ctx.tx.query.orders.findFirst()).toEqualTypeOf<{ id: string } | undefined>()
})

// Publishing takes the transactions of hapax, of Drizzle, and nested ones.
await hapax.transaction(async (tx) => {
  expectTypeOf(tx).toEqualTypeOf<Tx>()
  await hapax.publish(tx, OrderPlaced, { orderId: 'a' })
})
await db.transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'a' })
  await tx.transaction(async (nested) => {
    await hapax.publish(nested, OrderPlaced, { orderId: 'b' })
  })
})

// @ts-expect-error: a client of pg is not a transaction of Drizzle
await hapax.publish({ query: async () => ({ rows: [], rowCount: 0 }) }, OrderPlaced, { orderId: 'a' })
// @ts-expect-error: what is published has the type of the message
await db.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 1 }))
