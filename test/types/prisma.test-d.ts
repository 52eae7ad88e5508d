import { PrismaPg } from '@prisma/adapter-pg'
import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromPrisma } from 'hapax/prisma'
import { expectTypeOf } from 'vitest'
import { type Prisma, PrismaClient } from '../support/prisma/generated/postgresql/client.ts'

const prisma = new PrismaClient({ adapter: new PrismaPg('postgres://localhost/shop') })
const hapax = createHapax({ store: postgres(fromPrisma(prisma)), source: '/shop' })
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

// Handlers have Prisma's own transaction, with the models of the schema.
hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(ctx.tx).toEqualTypeOf<Prisma.TransactionClient>()
  const created = await ctx.tx.order.create({ data: { id: order.orderId } })
  expectTypeOf(created.total).toEqualTypeOf<bigint>()
  // @ts-expect-error: a field has its type
  await ctx.tx.order.create({ data: { id: 1 } })
  // @ts-expect-error: a transaction cannot be disconnected
  await ctx.tx.$disconnect()
})

// Publishing takes the transactions of hapax, of Prisma, and nested ones.
await hapax.transaction(async (tx) => {
  expectTypeOf(tx).toEqualTypeOf<Prisma.TransactionClient>()
  await hapax.publish(tx, OrderPlaced, { orderId: 'a' })
})
await prisma.$transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: 'a' })
  await tx.$transaction((nested) => hapax.publish(nested, OrderPlaced, { orderId: 'b' }))
})

// @ts-expect-error: a client of pg is not a transaction of Prisma
await hapax.publish({ query: async () => ({ rows: [], rowCount: 0 }) }, OrderPlaced, { orderId: 'a' })
// @ts-expect-error: what is published has the type of the message
await prisma.$transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 1 }))

// A client with extensions: their methods and fields are there in handlers.
const extended = prisma.$extends({
  model: { order: { archive: async (id: string): Promise<number> => id.length } },
  result: { order: { label: { needs: { id: true }, compute: ({ id }): string => `order ${id}` } } },
  client: { $tenant: (): string => 'a' },
})
const shop = createHapax({ store: postgres(fromPrisma(extended)), source: '/shop' })

shop.consumer('archive').on(OrderPlaced, async (order, ctx) => {
  expectTypeOf(await ctx.tx.order.archive(order.orderId)).toEqualTypeOf<number>()
  expectTypeOf((await ctx.tx.order.findFirstOrThrow()).label).toEqualTypeOf<string>()
  expectTypeOf(ctx.tx.$tenant()).toEqualTypeOf<string>()
  // @ts-expect-error: a model that is not in the schema
  ctx.tx.invoice
})
await extended.$transaction((tx) => shop.publish(tx, OrderPlaced, { orderId: 'a' }))
