import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { endWithParent, job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'
import { mounts } from '../support/mounts.ts'

/** An application that takes orders over HTTP and bills them, until it gets a SIGTERM. */
export interface FrameworkJob {
  readonly place: Place
  /** A name of a place in test/support/mounts.ts. */
  readonly framework: string
  readonly deadlineMs: number
}

/** What it says: where it listens. */
export interface FrameworkReport {
  readonly url: string
}

const { place, framework, deadlineMs } = job<FrameworkJob>()
endWithParent()
const terminated = once(process, 'SIGTERM')

const Order = defineMessage<{ id: string }>('order')
const store = await openStore(place, { max: 12 })
const hapax = createHapax({ store, source: '/shop', delivery: 'local', logger: silentLogger })

const billing = hapax.consumer('billing', { concurrency: 4, group: { size: 5 } }).on(Order, async ({ id }, ctx) => {
  await ctx.tx.query(insertEffect(place, 'billing', id))
  await delay(Math.random() * 30)
})

const orders = hapax.http('orders', { principal: 'none' }).handler(async (request, ctx) => {
  const { id } = (await request.json()) as { id: string }
  await ctx.tx.query(insertEffect(place, 'orders', id))
  await ctx.publish(Order, { id })
  await delay(Math.random() * 30)
  return Response.json({ id }, { status: 201 })
})

const worker = hapax.worker({ consume: [billing] })
await worker.start()
const server = await mounts.find(({ name }) => name === framework)?.serve(orders)
if (server === undefined) throw new Error(`expected a framework, got '${framework}'`)
await say({ url: server.url })

// The order that docs/deployment.md shows.
await terminated
await Promise.all([server.drain(), worker.stop({ deadlineMs })])
await hapax.close()
process.exit()
