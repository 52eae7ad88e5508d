import { once } from 'node:events'
import { createServer } from 'node:http'
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'
import { webhooks } from 'hapax/webhooks'

// A receiver on this machine. Its first response is a 503, so that the delivery is repeated, under the same id.
const received: string[] = []
const { promise: done, resolve } = Promise.withResolvers<void>()
const receiver = createServer((request, response) => {
  received.push(String(request.headers['webhook-id']))
  request.resume().on('end', () => response.writeHead(received.length === 1 ? 503 : 204).end())
  if (received.length === 3) resolve()
})
await once(receiver.listen(0, '127.0.0.1'), 'listening')
const address = receiver.address()
const port = typeof address === 'object' ? address?.port : undefined

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed', { key: (order) => order.orderId })

// Only addresses on the internet are called, by https, unless the options say otherwise.
const partners = webhooks({ scheduleMs: [100, 1_000], allow: ['127.0.0.1'], allowHttp: true, ports: 'all' })
const worker = hapax.worker({ relays: { partners } })
await worker.start()

const { id, secret } = await hapax.endpoints.add({
  relay: 'partners',
  url: `http://127.0.0.1:${port}/hooks`,
  types: ['order.*'],
})
console.log(`give the receiver of ${id} its secret: ${secret.slice(0, 6)}…`)

// The events commit with whatever else the transaction writes.
await hapax.transaction(async (tx) => {
  await hapax.publish(tx, OrderPlaced, { orderId: '17' }, { id: 'first', relay: 'partners', key: 'customer 1' })
  await hapax.publish(tx, OrderPlaced, { orderId: '18' }, { id: 'second', relay: 'partners', key: 'customer 1' })
})
await done
console.log(received.join(', ')) // first, first, second: in order, and under the same id

await worker.stop()
await hapax.close()
receiver.close()
