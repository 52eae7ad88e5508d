import { randomBytes } from 'node:crypto'
import { connect } from 'amqplib'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { rabbitmq } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { Child, type Ending } from '../support/child.ts'
import { type Checker, countEffects, durableStores, makePlace, openStore, table } from '../support/databases.ts'
import { requireServer, testBrokers } from '../support/servers.ts'
import type { NestJob } from './nestjs-child.ts'

const Order = defineMessage<{ id: string }>('order')
const ORDERS = 1_000
const SHUTDOWN_MS = 10_000
/** What the documentation promises beyond `shutdownMs`. */
const WIND_UP_MS = 10_000

const start = (job: NestJob): Child<object> => new Child(new URL('./nestjs-child.ts', import.meta.url), job, 590_000)

const ids = Array.from({ length: ORDERS }, (_, index) => `o${index}`)

/** Sends SIGTERM, and SIGKILL at the deadline: whoever got that did not end in time. */
async function terminated(child: Child<object>, deadlineMs: number): Promise<Ending> {
  child.kill('SIGTERM')
  const deadline = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
  const ending = await child.ended
  clearTimeout(deadline)
  return ending
}

async function billed(checker: Checker): Promise<number> {
  return (await countEffects(checker)).size
}

/** Bills all orders in processes that are terminated in the middle, one after the other. The first one runs when orders are placed. */
async function billAll(checker: Checker, job: NestJob, place: () => Promise<void>): Promise<void> {
  let placing: Promise<void> | undefined
  let amid = 0
  for (const share of [0.1, 0.4, 0.7, 1]) {
    const child = start(job)
    await child.next()
    // Not awaited: what is placed is billed meanwhile.
    placing ??= place()
    placing.catch(() => {})
    await expect.poll(() => billed(checker), { timeout: 100_000, interval: 20 }).toBeGreaterThanOrEqual(share * ORDERS)
    if ((await billed(checker)) < ORDERS) amid += 1
    expect(await terminated(child, SHUTDOWN_MS + WIND_UP_MS)).toMatchObject({ signal: 'SIGTERM', errors: '' })
  }
  await placing
  // Not always all three: while this process stands still, the other may come to the end.
  expect(amid).toBeGreaterThanOrEqual(2)
}

/** Every order took effect once, and nothing is left. */
async function expectAllOnce(checker: Checker): Promise<void> {
  expect(await countEffects(checker)).toEqual(new Map(ids.map((id) => [`billing ${id}`, 1])))
  for (const name of ['inbox', 'failed'] as const) {
    expect(await checker.query(`select 1 from ${table(checker.place, name)} limit 1`)).toEqual([])
  }
}

/** Places orders on the database, for local delivery. */
async function placed(checker: Checker, orders: readonly string[]): Promise<void> {
  const store = await openStore(checker.place)
  const hapax = createHapax({ store, source: '/nest', delivery: 'local', logger: silentLogger })
  hapax.consumer('billing').on(Order, () => {})
  const drafts = orders.map((id) => Order.of({ id }))
  await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
  await hapax.close()
}

/** Places orders through an exchange. */
async function sent(checker: Checker, exchange: string): Promise<void> {
  const rabbit = rabbitmq({ url: requireServer('rabbitmq') })
  const hapax = createHapax({ store: await openStore(checker.place), source: '/nest', logger: silentLogger })
  const worker = hapax.worker({ relay: rabbit.exchange(exchange) })
  await worker.start()
  const drafts = ids.map((id) => Order.of({ id }))
  await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
  await worker.drain()
  await hapax.close()
}

describe.each(durableStores())('%s: a Nest application', (store) => {
  it('that is terminated in the middle of 1,000 handlers loses nothing and doubles nothing', async () => {
    await using checker = await makePlace(store)
    await billAll(checker, { place: checker.place, shutdownMs: SHUTDOWN_MS }, () => placed(checker, ids))
    await expectAllOnce(checker)
  }, 600_000)

  it('whose handler never ends is there no longer than it may be, and the next one does the work', async () => {
    await using checker = await makePlace(store)
    const { place } = checker
    await placed(checker, ['o1'])
    const child = start({ place, shutdownMs: 1_000, stuck: 'o1' })
    const said = [await child.next(), await child.next()]
    expect(said).toContainEqual({ said: 'stuck' })
    expect(await terminated(child, 1_000 + WIND_UP_MS)).toMatchObject({ signal: 'SIGTERM' })
    expect(await billed(checker)).toBe(0)
    const next = start({ place, shutdownMs: SHUTDOWN_MS })
    await expect.poll(() => countEffects(checker), { timeout: 100_000 }).toEqual(new Map([['billing o1', 1]]))
    expect(await terminated(next, SHUTDOWN_MS + WIND_UP_MS)).toMatchObject({ signal: 'SIGTERM', errors: '' })
  }, 600_000)
})

describe.runIf(durableStores().includes('postgres') && testBrokers().includes('rabbitmq'))('with RabbitMQ', () => {
  it('what a terminated process had in hand is delivered to the next one, and takes effect once', async () => {
    await using checker = await makePlace('postgres')
    const name = `nest-${randomBytes(5).toString('hex')}`
    const from = { url: requireServer('rabbitmq'), exchange: name, queue: name }
    const connection = await connect(from.url)
    const channel = await connection.createChannel()
    try {
      await billAll(checker, { place: checker.place, from, shutdownMs: SHUTDOWN_MS }, () => sent(checker, name))
      await expectAllOnce(checker)
    } finally {
      await channel.deleteQueue(name)
      await channel.deleteExchange(name)
      await connection.close()
    }
  }, 600_000)
})
