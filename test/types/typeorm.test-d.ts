import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromTypeorm } from 'hapax/typeorm'
import { DataSource, type EntityManager } from 'typeorm'
import { expectTypeOf } from 'vitest'

const dataSource = new DataSource({ type: 'postgres', url: 'postgres://localhost/shop' })
const hapax = createHapax({ store: postgres(fromTypeorm(dataSource)), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have the entity manager of the transaction.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<EntityManager>()
  await ctx.tx.query('insert into orders (id) values ($1)', [order.orderId])
})

await dataSource.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
// @ts-expect-error: a client of pg is not an entity manager
await hapax.publish({ query: async () => ({ rows: [], rowCount: 0 }) }, OrderPlaced, { orderId: 'a' })
