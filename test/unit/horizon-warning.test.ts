import { createHapax, defineMessage, type Logger } from 'hapax'
import type { Subscription } from 'hapax/contracts'
import { memory } from 'hapax/memory'
import { rabbitmq } from 'hapax/rabbitmq'
import { expect, it } from 'vitest'

const DAY_MS = 86_400_000
const Order = defineMessage('order')

/** A subscription whose broker is there, and says nothing about its horizon once it is open. */
function opened(subscription: Subscription): Subscription {
  const { name, features } = subscription
  return { name, features, open: async () => ({ horizonMs: undefined, pause: async () => {}, close: async () => {} }) }
}

async function warningsOf(subscription: Subscription, retentionMs: number | 'forever'): Promise<readonly string[]> {
  const warnings: string[] = []
  const ignore = (): void => {}
  const warn: Logger['warn'] = (_, sentence) => warnings.push(sentence)
  const logger = { debug: ignore, info: ignore, warn, error: ignore }
  const hapax = createHapax({ store: memory(), source: '/test', logger })
  const consumer = hapax.consumer('billing', { retentionMs }).on(Order, () => {})
  const worker = hapax.worker({ consume: [consumer.from(opened(subscription))] })
  await worker.start()
  await worker.stop()
  await hapax.close()
  return warnings
}

const rabbit = rabbitmq({ url: 'amqp://127.0.0.1:1' })
const queue: typeof rabbit.queue = (name, options) => rabbit.queue(name, options)

it('a worker warns of receipts that are kept for hours while a queue may redeliver for days', async () => {
  expect(await warningsOf(queue('billing'), 2 * 3_600_000)).toEqual([
    'billing keeps its receipts for 2 hours, and it is not known for how long rabbitmq queue billing may deliver a message again: ' +
      'a copy that comes later takes effect twice. Raise retentionMs, or state the time (horizonMs of a queue)',
  ])
})

it('a worker does not warn where receipts outlast a week, or the horizon is known', async () => {
  expect(await warningsOf(queue('billing'), 7 * DAY_MS)).toEqual([])
  expect(await warningsOf(queue('billing'), 'forever')).toEqual([])
  expect(await warningsOf(queue('billing', { horizonMs: 3_600_000 }), DAY_MS)).toEqual([])
})

it('a worker refuses receipts that are deleted before the messages of a queue expire', async () => {
  const code = 'retention-too-short'
  const expiring = queue('billing', { arguments: { 'x-message-ttl': 3 * DAY_MS } })
  await expect(warningsOf(expiring, DAY_MS)).rejects.toMatchObject({ code })
  await expect(warningsOf(queue('billing', { horizonMs: 3 * DAY_MS }), DAY_MS)).rejects.toMatchObject({ code })
  expect(await warningsOf(expiring, 3 * DAY_MS)).toEqual([])
})
