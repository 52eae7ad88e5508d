import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHapax, defineMessage, type Hapax, Permanent, RetryAfter, silentLogger } from 'hapax'
import { type ConsoleOptions, createConsole } from 'hapax/console'
import { memoryBroker } from 'hapax/memory-broker'
import { toNode } from 'hapax/node'
import { until } from '../../../src/testing/wait.ts'
import { type Checker, type DurableStore, makePlace, openStore, type RigTx } from '../databases.ts'

export interface Order {
  readonly n: number
  readonly customer?: string
  /** How the handler ends. */
  readonly fate?: 'rejected' | 'declined' | 'later' | 'unknown'
}

export const OrderPlaced = defineMessage<Order>('order.placed')
export const ChargeDue = defineMessage<Order>('charge.due')
/** Nobody consumes these: they are sent. */
export const InvoiceSent = defineMessage<Order>('invoice.sent', { delivery: 'relay' })

/** A shop with a console. What its handlers do, the messages say, as long as the provider is down. */
export interface World extends AsyncDisposable {
  readonly hapax: Hapax<RigTx, unknown>
  readonly url: string
  readonly checker: Checker
  readonly handled: number[]
  /** The idempotency keys of calls whose outcome is unknown. */
  readonly keys: string[]
  /** While true, messages meet the fate that they name. */
  down: boolean
}

/** How a world differs from the usual one. */
export interface WorldOptions {
  readonly console?: Partial<ConsoleOptions>
  /** Reaches the database another way. */
  readonly through?: string
  /** @default true */
  readonly working?: boolean
}

/** Opens a shop on this store, with a worker and a console on a port of its own. */
export async function openWorld(store: DurableStore, options: WorldOptions = {}): Promise<World> {
  const checker = await makePlace(store)
  const opened = await openStore(checker.place, options.through === undefined ? {} : { url: options.through })
  const hapax = createHapax({ store: opened, source: '/shop', delivery: 'local', logger: silentLogger })
  const world = { down: true, handled: [] as number[], keys: [] as string[] }
  const stop = options.working === false ? undefined : await work(hapax, world)
  const ops = createConsole(hapax, {
    authorize: (request) => {
      const [actor, role] = [request.headers.get('x-actor'), request.headers.get('x-role')]
      return actor === null || role === null ? null : ({ actor: decodeURIComponent(actor), role } as never)
    },
    links: { trace: (id) => `https://traces.example/${id}` },
    name: store,
    ...options.console,
  })
  const server = createServer(toNode(ops.handler))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(world, {
    hapax,
    checker,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      await closed(server)
      ops.close()
      await stop?.()
      await hapax.close()
      await checker[Symbol.asyncDispose]()
    },
  })
}

async function closed(server: Server): Promise<void> {
  const over = new Promise((resolve) => server.close(resolve))
  server.closeAllConnections()
  await over
}

type Rig = Hapax<RigTx, unknown>

async function work(hapax: Rig, world: Pick<World, 'down' | 'handled' | 'keys'>): Promise<() => Promise<void>> {
  const meet = ({ n, fate }: Order): void => {
    if (world.down && fate === 'rejected') throw new Permanent('the order has no customer')
    if (world.down && fate === 'declined') throw new Permanent('the card was declined')
    if (world.down && fate === 'later') throw new RetryAfter(3_600_000)
    world.handled.push(n)
  }
  const billing = hapax.consumer('billing', { order: 'wait' }).on(OrderPlaced, async (order) => meet(order))
  const emails = hapax.consumer('emails').on(OrderPlaced, async (order) => meet(order))
  const charges = hapax.leased('charges').on(ChargeDue, async (order, ctx) => {
    await ctx.effect('charge', async (key) => {
      if (order.fate === 'unknown') world.keys.push(key)
      if (world.down && order.fate === 'unknown') throw new Error('the request timed out')
      world.handled.push(order.n)
      return { charged: order.n }
    })
  })
  const worker = hapax.worker({
    consume: [billing, emails, charges],
    relay: memoryBroker().topic('shop'),
    keepSentMs: 3_600_000,
    pollMs: 50,
  })
  await worker.start()
  return () => worker.stop()
}

/** Fills a shop with everything that the console shows, and waits until it is there. */
export async function fill({ hapax }: World, failures = 6): Promise<void> {
  await hapax.transaction(async (tx) => {
    for (let n = 0; n < failures; n += 1) {
      const fate = n % 3 === 0 ? 'rejected' : 'declined'
      await hapax.publish(tx, OrderPlaced, { n, customer: 'Ada', fate }, { key: `customer-${n}` })
    }
    await hapax.publish(tx, OrderPlaced, { n: 900, fate: 'later' }, { key: 'customer-later' })
    await hapax.publish(tx, OrderPlaced, { n: 901 }, { key: 'customer-0' })
    await hapax.publish(tx, ChargeDue, { n: 902, fate: 'unknown' })
    await hapax.publish(tx, InvoiceSent, { n: 903 })
  })
  // Two consumers take each order, and one charge fails.
  await until(async () => (await hapax.failed.count()) === 2 * failures + 1)
  await until(async () => (await hapax.sent.list()).length > 0)
}
