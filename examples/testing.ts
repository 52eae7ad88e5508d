import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const order = { id: 'evt_1', source: '/shop', type: 'order.placed', data: { orderId: 'A1' } }

const newHapax = () => createHapax({ store: memory(), source: '/billing', logger: silentLogger })

test('an order that is delivered twice has one invoice', async () => {
  const hapax = newHapax()
  const billing = hapax.consumer('billing')
  billing.on(OrderPlaced, ({ orderId }, ctx) => ctx.tx.insert('invoices', { orderId }))

  assert.equal((await billing.handle(order)).status, 'processed')
  assert.equal((await billing.handle(order)).status, 'duplicate')

  const invoices = await hapax.transaction(async (tx) => tx.rows('invoices'))
  assert.deepEqual(invoices, [{ orderId: 'A1' }])
  await hapax.close()
})

test('a handler that fails once is called again, and nothing of its first attempt is left', async () => {
  const hapax = newHapax()
  const billing = hapax.consumer('billing', { retry: { minDelayMs: 0, maxDelayMs: 0 } })
  billing.on(OrderPlaced, ({ orderId }, ctx) => {
    ctx.tx.insert('invoices', { orderId })
    if (ctx.attempt === 1) throw new Error('try again')
  })

  assert.equal((await billing.handle(order)).status, 'retrying')
  await using worker = hapax.worker({ consume: [billing] })
  await worker.start()
  await worker.drain()

  const invoices = await hapax.transaction(async (tx) => tx.rows('invoices'))
  assert.equal(invoices.length, 1)
  await worker.stop()
  await hapax.close()
})

test('an order reaches the warehouse through a broker', async () => {
  const broker = memoryBroker()
  const shop = newHapax()
  const warehouse = newHapax()
  const stock = warehouse.consumer('stock')
  stock.on(OrderPlaced, ({ orderId }, ctx) => ctx.tx.insert('parcels', { orderId }))

  await using receiving = warehouse.worker({ consume: [stock.from(broker.queue('stock', { topic: 'shop' }))] })
  await using sending = shop.worker({ relay: broker.topic('shop') })
  await receiving.start()
  await sending.start()

  const processed = new Promise((resolve) => warehouse.events.on('processed', resolve))
  await shop.transaction((tx) => shop.publish(tx, OrderPlaced, { orderId: 'A1' }))
  await processed

  const parcels = await warehouse.transaction(async (tx) => tx.rows('parcels'))
  assert.deepEqual(parcels, [{ orderId: 'A1' }])
  await Promise.all([sending.stop(), receiving.stop()])
  await Promise.all([shop.close(), warehouse.close()])
})
