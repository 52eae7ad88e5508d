import { type DynamicModule, Module } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { defineMessage, type HandlerContext, type Hapax } from 'hapax'
import type { MemoryTx } from 'hapax/memory'
import {
  getHapaxToken,
  HAPAX,
  HapaxModule,
  HapaxTesting,
  HapaxTestingModule,
  type HapaxTestingOptions,
  OnMessage,
} from 'hapax/nestjs'
import { sqlite } from 'hapax/sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { provided } from '../support/nest.ts'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const Invoiced = defineMessage<{ orderId: string }>('order.invoiced')

class Billing {
  async onOrder({ orderId }: { orderId: string }, ctx: HandlerContext<MemoryTx>): Promise<void> {
    ctx.tx.insert('invoices', { orderId })
    await ctx.publish(Invoiced, { orderId })
    if (orderId === 'bad' && ctx.attempt === 1) throw new Error('not yet')
  }
}
provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'billing' })] } })

/** The module of an application, with the hapax of production, which is not there. */
const production: DynamicModule = HapaxModule.forRoot({ store: sqlite({ path: '/nowhere/shop.db' }), source: '/shop' })
class AppModule {}
Module({ imports: [production], providers: [Billing] })(AppModule)

async function tested(options?: HapaxTestingOptions) {
  const builder = Test.createTestingModule({ imports: [AppModule] })
  const module = await builder.overrideModule(production).useModule(HapaxTestingModule.forRoot(options)).compile()
  await module.init()
  onTestFinished(() => module.close())
  return module
}

it('delivers twice to the handlers of an application, and shows what was published', async () => {
  const module = await tested()
  const testing = module.get(HapaxTesting)
  const [first, second] = await testing.deliverTwice('billing', OrderPlaced, { orderId: 'A1' })
  expect([first.status, second.status]).toEqual(['processed', 'duplicate'])
  const hapax = module.get<Hapax<MemoryTx>>(HAPAX)
  expect(await hapax.transaction(async (tx) => tx.rows('invoices'))).toEqual([{ orderId: 'A1' }])
  expect(await testing.published()).toMatchObject([
    { type: 'order.invoiced', source: '/test', data: { orderId: 'A1' } },
  ])
  expect(await testing.published(OrderPlaced)).toEqual([])
})

it('takes options of consumers, and drains retries', async () => {
  const consumers = { billing: { retry: { minDelayMs: 0, maxDelayMs: 0 } } }
  const testing = (await tested({ consumers })).get(HapaxTesting)
  expect((await testing.deliver('billing', OrderPlaced, { orderId: 'bad' })).status).toBe('retrying')
  expect(await testing.published(Invoiced)).toMatchObject([{ data: { orderId: 'bad' } }])
})

it('runs beside another one, under a name', async () => {
  class Audit {
    onOrder(): void {}
  }
  provided(Audit, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'audit', hapax: 'audit' })] } })
  class App {}
  Module({ imports: [HapaxTestingModule.forRoot({ name: 'audit' })], providers: [Audit] })(App)
  const module = await Test.createTestingModule({ imports: [App] }).compile()
  await module.init()
  onTestFinished(() => module.close())
  expect(module.get(getHapaxToken('audit'))).toBeDefined()
  const testing = module.get(HapaxTesting)
  expect((await testing.deliver('audit', OrderPlaced, { orderId: 'A1' }, { id: 'm1' })).status).toBe('processed')
})
