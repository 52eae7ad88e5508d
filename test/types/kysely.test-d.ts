import { createHapax, defineMessage } from 'hapax'
import { fromKysely } from 'hapax/kysely'
import { postgres } from 'hapax/postgres'
import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { expectTypeOf } from 'vitest'

interface Schema {
  orders: { id: string; total: number }
}

const pool = new pg.Pool()
const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) })
const hapax = createHapax({ store: postgres(fromKysely(db, { pool })), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have Kysely's own transaction, with the tables of the database.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<Transaction<Schema>>()
  await ctx.tx.insertInto('orders').values({ id: order.orderId, total: 1 }).execute()
  // @ts-expect-error: a column has its type
  await ctx.tx.insertInto('orders').values({ id: 1, total: 1 }).execute()
})

// Publishing takes the transactions of hapax and of Kysely.
await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
await db.transaction().execute((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
// @ts-expect-error: the database itself is not a transaction
await hapax.publish(db, OrderPlaced, { orderId: 'a' })
