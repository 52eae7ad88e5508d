import { rabbitmq } from 'hapax/rabbitmq'
import { promised } from '../../src/testing/promised.ts'
import { endWithParent, job, say, told } from '../support/child.ts'

// Sends and reads, closes when it is told to, and has to end by itself then.

const { url, exchange, queue } = job<{ url: string; exchange: string; queue: string }>()
endWithParent()
const rabbit = rabbitmq({ url, heartbeatMs: 2_000 })
const lost = Promise.withResolvers<void>()
const reader = await rabbit.queue(queue, { bind: { exchange } }).open({
  types: 'all',
  prefetch: { messages: 10, bytes: 1e6 },
  // Some wait here, and some wait to be rejected.
  receive: (deliveries) => {
    for (const [index, delivery] of deliveries.entries()) {
      if (index % 2 === 0) delivery.retry(3_600_000)
      else delivery.reject(3_600_000)
    }
  },
  report: () => lost.resolve(),
})
const destination = rabbit.exchange(exchange)
const ids = ['a', 'b', 'c', 'd']
const messages = ids.map((id) => ({ id, source: '/child', type: 'ping', data: Buffer.from('{}') }))
await Promise.all(promised(destination, messages))
await say({ ready: true })
const { afterLoss } = (await told()) as { afterLoss: boolean }
if (afterLoss) await lost.promise
const late = promised(destination, messages)
await Promise.all([reader.close(), destination.close()])
await Promise.all(late)
process.removeAllListeners('disconnect')
process.disconnect()
