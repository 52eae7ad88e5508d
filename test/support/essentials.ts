import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import type { Store } from 'hapax/contracts'
import { memoryBroker } from 'hapax/memory-broker'
import { expect } from 'vitest'

const Placed = defineMessage<{ n: number }>('placed')
const Done = defineMessage<{ n: number }>('done')

/** A short run of everything a store is used for: every kind of statement, on an empty database. */
export async function essentials<Tx, Own>(store: Store<Tx, Own>): Promise<void> {
  const hapax = createHapax<Store<Tx, Own>>({ store, source: '/test', logger: silentLogger })
  const worker = await work(hapax)
  try {
    await failAndRetry(hapax)
    await worker.stop()
    expect((await hapax.cleanup({ consumer: 'failing', olderThanMs: 1 })).receipts).toBe(MANY)
    expect(await hapax.failed.count()).toBe(0)
    const status = await hapax.status()
    expect(status.consumers.map(({ consumer }) => consumer).sort()).toEqual(['billing', 'ordered'])
    expect((await hapax.explain('1', '/s')).length).toBeGreaterThan(0)
  } finally {
    await worker.stop()
    await hapax.close()
  }
}

const MANY = 5

/** Takes, drops duplicates, publishes, keeps the order of a key, and tries again. */
async function work<Tx, Own>(hapax: Hapax<Tx, Own>): Promise<{ stop(): Promise<void> }> {
  await hapax.migrate()
  expect(await hapax.migrate()).toEqual([])
  const ran: string[] = []
  const billing = hapax.consumer('billing', { receive: 'store' }).on(Placed, async ({ n }, ctx) => {
    ran.push(`billing ${n}`)
    await ctx.publish(Done, { n })
  })
  const ordered = hapax.consumer('ordered', { order: 'wait', retry: { minDelayMs: 0, maxDelayMs: 0 } })
  ordered.on(Placed, ({ n }, ctx) => {
    if (n === 1 && ctx.attempt === 1) throw new Error('once')
    ran.push(`ordered ${n}`)
  })
  const broker = memoryBroker()
  const sent: string[] = []
  broker.queue('done', { topic: 'shop' })
  hapax.events.on('published', () => sent.push('published'))
  const worker = hapax.worker({ relay: broker.topic('shop'), consume: [billing, ordered] })
  await worker.start()
  const message = (n: number) => ({ id: String(n), source: '/s', type: 'placed', data: { n }, key: 'k' })
  const numbers = Array.from({ length: MANY }, (_, index) => index + 1)
  for (const n of numbers) {
    expect((await billing.handle(message(n))).status).toBe('stored')
    await ordered.handle(message(n))
  }
  for (const n of numbers) {
    expect((await billing.handle(message(n))).status).toBe('duplicate')
    expect((await ordered.handle(message(n))).status).toBe('duplicate')
  }
  await hapax.transaction(() => hapax.publish(Done, { n: 0 }))
  // A handler may run again after a conflict.
  await expect.poll(() => new Set(ran).size, { timeout: 20_000 }).toBe(2 * MANY)
  expect([...new Set(ran)].filter((each) => each.startsWith('ordered'))).toEqual(numbers.map((n) => `ordered ${n}`))
  await expect.poll(() => sent.length, { timeout: 20_000 }).toBe(MANY + 1)
  await worker.drain()
  return worker
}

/** Messages that fail for good, and a bulk retry of them. */
async function failAndRetry<Tx, Own>(hapax: Hapax<Tx, Own>): Promise<void> {
  let works = false
  const ran = new Set<string>()
  const failing = hapax.consumer('failing', { retry: { attempts: 1 } }).on(Placed, (_, { message }) => {
    if (!works) throw new Error('not yet')
    ran.add(message.id)
  })
  for (let n = 1; n <= MANY; n += 1) {
    expect((await failing.handle({ id: `f${n}`, source: '/s', type: 'placed', data: { n } })).status).toBe('failed')
  }
  expect((await hapax.failed.list({ limit: 100 })).length).toBe(MANY)
  works = true
  await hapax.failed.retryAll({ consumer: 'failing' })
  const worker = hapax.worker({ consume: [failing] })
  await worker.start()
  await expect.poll(() => ran.size, { timeout: 20_000 }).toBe(MANY)
  await worker.drain()
  await worker.stop()
}
