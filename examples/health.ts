import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage } from 'hapax'
import { rabbitmq } from 'hapax/rabbitmq'
import { sqlite } from 'hapax/sqlite'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop' })
await hapax.migrate()

// What a health page can show: why the broker of a relay is unreachable, until it answers again.
const down = new Map<string, string>()
hapax.events.on('relay-down', ({ relay, error }) => down.set(relay, error.message))
hapax.events.on('relay-up', ({ relay }) => down.delete(relay))

const unreachable = rabbitmq({ url: 'amqp://127.0.0.1:1' })
const worker = hapax.worker({ relay: unreachable.exchange('shop') })
await worker.start()
await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'A1' }))

while (down.size === 0) await delay(20)
console.log('ready:', worker.ready) // ready: true
console.log('down:', [...down.keys()]) // down: [ 'default' ]

await worker.stop()
await hapax.close()
