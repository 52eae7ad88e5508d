import { createHapax, type Destination, defineMessage, type Hapax, type Store, silentLogger } from 'hapax'
import type { Confirmation, OutgoingMessage, Settle } from 'hapax/contracts'
import { memoryBroker } from 'hapax/memory-broker'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { describe, expect, it, vi } from 'vitest'
import { type Gate, gate } from '../../src/testing/wait.ts'
import type { RigTx } from '../support/databases.ts'
import { noPrivateServer } from '../support/private-server.ts'
import { type Replicated, replicated } from '../support/replicated.ts'
import { oneInTest } from '../support/runs.ts'
import { testStores } from '../support/servers.ts'

const stores = oneInTest(
  (['postgres', 'mysql'] as const).filter((store) => testStores().includes(store)),
  'postgres',
)
const Placed = defineMessage<{ id: string }>('order.placed')
/** More than PostgreSQL writes ahead of a sequence: a promoted replica gives numbers out again only beyond those. */
const LOST = 100

vi.setConfig({ testTimeout: 240_000 })

const AWAY: Confirmation = { status: 'unavailable', error: new Error('the broker is away') }

/** A broker whose confirmations can be held back; while it is away, it takes nothing. */
class Slow implements Destination {
  readonly name: string
  readonly features: Destination['features']
  readonly arrived = new Set<string>()
  readonly #topic: Destination
  confirming: Gate = gate()
  away = false
  held = 0

  constructor(topic: Destination) {
    this.#topic = topic
    this.name = topic.name
    this.features = topic.features
    this.confirming.open()
  }

  prepare(...args: Parameters<Destination['prepare']>): ReturnType<Destination['prepare']> {
    return this.#topic.prepare(...args)
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    if (this.away) {
      for (const index of messages.keys()) settle(index, AWAY)
      return
    }
    for (const { id } of messages) this.arrived.add(id)
    this.held += messages.length
    const { passed } = this.confirming
    this.#topic.publish(messages, signal, async (index, confirmation) => {
      await passed
      this.held -= 1
      settle(index, confirmation)
    })
  }

  close(): Promise<void> {
    return this.#topic.close()
  }
}

/** Places orders one after the other until it is stopped; some fail while the database is away. */
class Shop {
  #stopped = false
  #next = 0
  readonly #open: Promise<void>[]

  constructor(hapax: Hapax<RigTx, never>, name: string, parallel: number) {
    this.#open = Array.from({ length: parallel }, async () => {
      while (!this.#stopped) {
        this.#next += 1
        const id = `${name}-${this.#next}`
        await hapax
          .transaction(async (tx) => {
            await tx.query(`insert into orders (id) values ('${id}')`)
            await hapax.publish(tx, Placed, { id }, { id })
          })
          .catch(() => new Promise((resolve) => setTimeout(resolve, 20)))
      }
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#open)
  }
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + 60_000; !(await holds()); ) {
    if (performance.now() > deadline) throw new Error(`expected that ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function ids(asked: Promise<readonly Readonly<Record<string, unknown>>[]>): Promise<string[]> {
  return (await asked).map(({ id }) => (id instanceof Uint8Array ? Buffer.from(id).toString() : String(id)))
}

function openStore(store: 'postgres' | 'mysql', url: string) {
  return (store === 'postgres' ? postgres({ url }) : mysql({ url })) as unknown as Store<RigTx, never>
}

const outboxOf = { postgres: 'hapax.outbox', mysql: 'hapax_outbox' }

describe.each(stores)('%s: a replica that lags is promoted', (store) => {
  const missing = noPrivateServer(store)
  if (missing !== undefined) return it.skip(missing)

  it('K1: what is committed on the new primary is sent, and takes effect once', async ({ annotate }) => {
    await using servers = await replicated(store)
    const hapax = createHapax({ store: openStore(store, servers.url), source: '/shop', logger: silentLogger })
    await using _closing = { [Symbol.asyncDispose]: () => hapax.close() }
    await hapax.migrate()
    for (const table of ['orders', 'payments'])
      await servers.onPrimary(`create table ${table} (id varchar(50) not null)`)
    const broker = memoryBroker()
    const billing = hapax.consumer('billing', { receive: 'store', concurrency: 4 })
    billing.on(Placed, async ({ id }, { tx }) => {
      await tx.query(`insert into payments (id) values ('${id}')`)
    })
    const destination = new Slow(broker.topic('shop'))
    const subscription = broker.queue('billing', { topic: 'shop' })
    const worker = hapax.worker({ relay: destination, consume: [billing.from(subscription)], pollMs: 50 })
    await worker.start()

    const before = new Shop(hapax, 'before', 4)
    await until('the replica follows', async () => (await countOrders(servers, 'onReplica')) >= 50)
    // From here on the replica gets nothing, and the broker's confirmations come late.
    destination.confirming = gate()
    await servers.cut()
    const replicatedOrders = await countOrders(servers, 'onReplica')
    await until(
      'the replica lags',
      async () => (await countOrders(servers, 'onPrimary')) >= replicatedOrders + LOST && destination.held > 0,
    )
    destination.away = true
    await servers.fail()
    const kept = new Set(await ids(servers.onReplica(`select id from ${outboxOf[store]}`)))
    await before.stop()
    const after = new Shop(hapax, 'after', 4)
    await servers.promote()
    const promoted = performance.now()
    // The numbers of what was lost are given out again; then the confirmations of the lost ones arrive, before anything else is sent.
    await until('orders are placed again', async () => (await countOrders(servers, 'onReplica', 'after')) >= 2 * LOST)
    await annotate(`${Math.round(performance.now() - promoted)} ms from the promotion to ${2 * LOST} orders`)
    destination.confirming.open()
    await until('late confirmations have arrived', async () => destination.held === 0)
    destination.away = false
    await after.stop()

    // What was sent before the fail-over may have been taken, acknowledged and lost with the old primary; what is placed now may not.
    const orders = await ids(servers.onReplica(`select id from orders where id like 'after%'`))
    const ask = (table: string) => ids(servers.onReplica(`select id from ${table}`))
    await until('the outbox is empty', async () => (await ask(outboxOf[store])).length === 0)
    expect([...orders, ...kept].filter((id) => !destination.arrived.has(id))).toEqual([])
    await until('every order has taken effect', async () => {
      const there = new Set(await ask('payments'))
      return orders.every((id) => there.has(id))
    })
    await worker.drain()
    const effects = await ask('payments')
    expect(effects.length).toBe(new Set(effects).size)
    expect(await hapax.failed.list()).toEqual([])
    await annotate(`${kept.size} in the outbox of the replica, ${orders.length} orders after it was promoted`)
    await worker.stop()
  })
})

async function countOrders(
  servers: Replicated,
  where: 'onPrimary' | 'onReplica',
  begins: 'before' | 'after' = 'before',
): Promise<number> {
  // The table itself may not have reached the replica yet.
  const rows = await servers[where](`select count(*) as n from orders where id like '${begins}%'`).catch(() => [])
  return Number(rows[0]?.['n'] ?? 0)
}
