import { createClient } from '@libsql/client'
import Database from 'better-sqlite3'
import { relations, sql } from 'drizzle-orm'
import { type BetterSQLite3Database, drizzle as onBetterSqlite3 } from 'drizzle-orm/better-sqlite3'
import { type LibSQLDatabase, drizzle as onLibsql } from 'drizzle-orm/libsql'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { createHapax, defineMessage } from 'hapax'
import { fromBetterSqlite3 } from 'hapax/better-sqlite3'
import { fromDrizzle } from 'hapax/drizzle'
import { fromLibsql } from 'hapax/libsql'
import { sqlite } from 'hapax/sqlite'
import { expectTypeOf } from 'vitest'

const orders = sqliteTable('orders', { id: text().notNull() })
const items = sqliteTable('items', { orderId: text().notNull(), count: integer().notNull() })
const ofOrders = relations(orders, ({ many }) => ({ items: many(items) }))
const ofItems = relations(items, ({ one }) => ({
  order: one(orders, { fields: [items.orderId], references: [orders.id] }),
}))
const schema = { orders, items, ofOrders, ofItems }

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// On better-sqlite3, handlers have Drizzle's own transaction, whose statements are synchronous.
type BetterTx = Parameters<Parameters<BetterSQLite3Database<typeof schema>['transaction']>[0]>[0]
const better = onBetterSqlite3(new Database('shop.db'), { schema })
const onBetter = createHapax({ store: sqlite(fromDrizzle(better, sql)), source: '/shop' })
onBetter.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<BetterTx>()
  ctx.tx.insert(orders).values({ id: order.orderId }).run()
  // @ts-expect-error: a column has its type
  ctx.tx.insert(orders).values({ id: 1 }).run()
  const found = ctx.tx.query.orders.findFirst({ with: { items: true } }).sync()
  expectTypeOf(found).toEqualTypeOf<{ id: string; items: { orderId: string; count: number }[] } | undefined>()
})
await onBetter.transaction((tx) => onBetter.publish(tx, OrderPlaced, { orderId: 'a' }))

// On libsql, publishing takes the transactions of hapax, of Drizzle, and nested ones.
type LibsqlTx = Parameters<Parameters<LibSQLDatabase<typeof schema>['transaction']>[0]>[0]
const client = createClient({ url: 'file:shop.db' })
const libsql = onLibsql(client, { schema })
const onLib = createHapax({ store: sqlite(fromDrizzle(libsql, sql), { prefix: 'queue_' }), source: '/shop' })
onLib.consumer('billing').on(OrderPlaced, async (_, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<LibsqlTx>()
  const found = await ctx.tx.query.orders.findFirst({ with: { items: true } })
  expectTypeOf(found).toEqualTypeOf<{ id: string; items: { orderId: string; count: number }[] } | undefined>()
})
await libsql.transaction(async (tx) => {
  await onLib.publish(tx, OrderPlaced, { orderId: 'a' })
  await tx.transaction((nested) => onLib.publish(nested, OrderPlaced, { orderId: 'b' }))
})
// @ts-expect-error: a transaction of libsql is not one of Drizzle
await onLib.publish(await client.transaction('write'), OrderPlaced, { orderId: 'a' })

// Without Drizzle, handlers have what the driver has.
const plain = createHapax({ store: sqlite(fromBetterSqlite3(new Database('shop.db'))), source: '/shop' })
plain.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<Database.Database>()
  ctx.tx.prepare('insert into orders values (?)').run(order.orderId)
})
const own = createHapax({ store: sqlite(fromLibsql(client)), source: '/shop' })
own.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.execute({ sql: 'insert into orders values (?)', args: [order.orderId] })
})
await own.publish(await client.transaction('write'), OrderPlaced, { orderId: 'a' })
