import { createHapax, defineMessage } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { sqlite } from 'hapax/sqlite'

// Two services with a database each, and a broker between them.
const broker = memoryBroker()
const OrderPlaced = defineMessage<{ orderId: string; version: number }>('order.placed', { key: (o) => o.orderId })

const shop = createHapax({ store: sqlite({ path: 'orders.db' }), source: '/shop' })
await shop.migrate()

const warehouse = createHapax({ store: sqlite({ path: 'warehouse.db' }), source: '/warehouse' })
await warehouse.migrate()
const stock = warehouse.consumer('stock', { order: 'wait' })
const seen: string[] = []
stock.on(OrderPlaced, (order) => {
  seen.push(`${order.orderId} v${order.version}`)
})

// The shop sends its outbox to a topic; the warehouse reads a queue that has one reader at a time.
const queue = broker.queue('stock', { topic: 'shop', single: true })
const sending = shop.worker({ relay: broker.topic('shop') })
const receiving = warehouse.worker({ consume: [stock.from(queue)] })
await sending.start()
await receiving.start()

await shop.transaction(async (tx) => {
  for (const version of [1, 2, 3]) await shop.publish(tx, OrderPlaced, { orderId: 'A1', version })
})
await sending.drain()
while (seen.length < 3) await receiving.drain()
console.log(seen.join(', ')) // A1 v1, A1 v2, A1 v3

await sending.stop()
await receiving.stop()
await shop.close()
await warehouse.close()
