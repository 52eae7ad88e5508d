import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineMessage } from 'hapax'
import { crashAt, deliverTwice, safeToRepeat, testHapax } from 'hapax/testing'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const InvoiceSent = defineMessage<{ orderId: string }>('invoice.sent')
const order = { id: 'evt_1', source: '/shop', type: 'order.placed', data: { orderId: 'A1' } }

test('billing is safe to repeat', async () => {
  const { hapax, rows, reset } = testHapax()
  const billing = hapax.consumer('billing').on(OrderPlaced, async ({ orderId }, ctx) => {
    ctx.tx.insert('invoices', { orderId })
    await ctx.publish(InvoiceSent, { orderId })
  })
  await safeToRepeat(billing, order, { snapshot: () => [rows('invoices'), rows('hapax_outbox').length], reset })
})

test('a handler that writes elsewhere is not', async () => {
  const { hapax, reset } = testHapax()
  const mails: string[] = []
  const mailing = hapax.consumer('mailing').on(OrderPlaced, ({ orderId }) => void mails.push(orderId))
  const clear = async () => {
    await reset()
    mails.length = 0
  }
  await assert.rejects(
    safeToRepeat(mailing, order, { snapshot: () => [...mails], reset: clear }),
    /not safe to repeat, with a crash before-commit/,
  )
})

test('an order is billed once, and says so', async () => {
  const { hapax, rows, expectPublished } = testHapax()
  const billing = hapax.consumer('billing').on(OrderPlaced, async ({ orderId }, ctx) => {
    ctx.tx.insert('invoices', { orderId })
    await ctx.publish(InvoiceSent, { orderId })
  })
  await deliverTwice(billing, order)
  await crashAt('after-commit', billing, { ...order, id: 'evt_2' })
  assert.equal(rows('invoices').length, 2)
  expectPublished(InvoiceSent, { orderId: 'A1' })
})

test('a handler that fails is called again ten minutes later', async () => {
  const { hapax, rows, drain, close } = testHapax()
  const billing = hapax.consumer('billing', { retry: { minDelayMs: 600_000 } })
  billing.on(OrderPlaced, ({ orderId }, ctx) => {
    if (ctx.attempt === 1) throw new Error('try again')
    ctx.tx.insert('invoices', { orderId })
  })
  assert.equal((await billing.handle(order)).status, 'retrying')
  const worker = hapax.worker({ consume: [billing] })
  await worker.start()
  await drain(worker, { leap: true })
  assert.deepEqual(rows('invoices'), [{ orderId: 'A1' }])
  await close()
})

test('an order reaches the warehouse through a broker', async () => {
  const { hapax, broker, rows, drain, close } = testHapax()
  const stock = hapax.consumer('stock').on(OrderPlaced, ({ orderId }, ctx) => ctx.tx.insert('parcels', { orderId }))
  const worker = hapax.worker({
    relay: broker.topic('shop'),
    consume: [stock.from(broker.queue('stock', { topic: 'shop' }))],
  })
  await worker.start()
  await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'A1' }))
  await drain(worker)
  assert.deepEqual(rows('parcels'), [{ orderId: 'A1' }])
  await close()
})
