import { EntitySchema, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql'
import { createHapax, defineMessage } from 'hapax'
import { fromMikroOrm } from 'hapax/mikro-orm'
import { postgres } from 'hapax/postgres'
import { expectTypeOf } from 'vitest'

class Order {
  id!: string
}
const entities = [new EntitySchema({ class: Order, properties: { id: { type: 'string', primary: true } } })]
const orm = await MikroORM.init({ entities, clientUrl: 'postgres://localhost/shop' })
const hapax = createHapax({ store: postgres(fromMikroOrm(orm)), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have the entity manager of the transaction.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<typeof orm.em>()
  expectTypeOf(ctx.tx).toExtend<SqlEntityManager>()
  ctx.tx.persist(ctx.tx.create(Order, { id: order.orderId }))
})

await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'a' }))
await orm.em.fork().transactional((em) => hapax.publish(em, OrderPlaced, { orderId: 'a' }))
// @ts-expect-error: a client of pg is not an entity manager
await hapax.publish({ query: async () => ({ rows: [], rowCount: 0 }) }, OrderPlaced, { orderId: 'a' })
