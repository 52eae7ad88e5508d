import { createServer } from 'node:http'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { toNode } from 'hapax/node'
import { webhook } from 'hapax/webhooks'
import { endWithParent, job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'
import { providerOf } from '../support/webhook-providers.ts'

/** A process that receives webhooks, and works those that are stored. */
export interface WebhookJob {
  readonly place: Place
  readonly provider: string
  readonly receive: 'store' | 'direct'
}

const { place, provider: name, receive } = job<WebhookJob>()
endWithParent()
const provider = providerOf(name)
const hapax = createHapax({ store: await openStore(place, { max: 8 }), source: '/webhooks', logger: silentLogger })
const billing = hapax.consumer('billing').on(defineMessage('paid'), async (_, { tx, message }) => {
  await tx.query(insertEffect(place, 'billing', message.id))
})
const feed = billing.from(webhook(provider.scheme(provider.secrets[0]), { receive }))
const worker = hapax.worker({ consume: [feed], takeoverMs: 2_000, pollMs: 50 })
await worker.start()
const server = createServer(toNode(feed.handler))
server.listen(0, '127.0.0.1', async () => {
  const address = server.address()
  await say({ port: typeof address === 'object' ? address?.port : undefined })
})
