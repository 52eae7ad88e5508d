import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { prometheus } from 'hapax/prometheus'
import { sqlite } from 'hapax/sqlite'

const hapax = createHapax({ store: sqlite({ path: 'metrics.db' }), source: '/shop', logger: silentLogger })
await hapax.migrate()
const metrics = prometheus(hapax)

const OrderPlaced = defineMessage<{ amount: number }>('order.placed')
const billing = hapax.consumer('billing').on(OrderPlaced, ({ amount }) => {
  if (amount < 0) throw new Permanent('a negative amount')
})
for (const [id, amount] of [['1', 5] as const, ['2', -1] as const, ['1', 5] as const]) {
  await billing.handle({ id, source: '/partner', type: 'order.placed', data: { amount } })
}

// What a scrape gets. A server that speaks Request and Response takes metrics.handler as it is.
const scraped = metrics.handler(new Request('http://localhost/metrics'))
for (const line of (await scraped.text()).split('\n')) {
  if (line.startsWith('hapax_messages_total') && !line.endsWith(' 0')) console.log(line)
}
// hapax_messages_total{consumer="billing",outcome="processed"} 1
// hapax_messages_total{consumer="billing",outcome="duplicate"} 1
// hapax_messages_total{consumer="billing",outcome="failed"} 1

await hapax.close()
