import { createHapax, defineMessage, silentLogger } from 'hapax'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import type { Target, Way } from '../../src/conformance/stores/way.ts'
import { mysqlCounter, postgresCounter } from './costs/counting.ts'

const Ordered = defineMessage<{ n: number }>('ordered')
const MESSAGES = 5

/** The round trips of one message on a connection that is in use already, beyond the one of its handler's own statement. */
export async function roundTripsOf<Tx, Own>(way: Way<Tx, Own>, { url, name }: Target): Promise<number> {
  const counter = url.startsWith('postgres') ? postgresCounter() : mysqlCounter()
  await using proxy = await LinkProxy.open(url, () => counter.tap())
  const application = await way.open({ url: proxy.url, name, max: 1, control: false })
  const hapax = createHapax({ store: application.store, source: '/test', logger: silentLogger })
  const consumer = hapax.consumer('counted').on(Ordered, async (_, { tx }) => {
    await way.client(tx).query('select 1')
  })
  const deliver = (id: string) => consumer.handle({ id, source: '/test', type: 'ordered', data: { n: 1 } })
  await deliver('first')
  await deliver('second')
  const before = counter.read().roundTrips
  for (let n = 0; n < MESSAGES; n++) await deliver(`m${n}`)
  const counted = (counter.read().roundTrips - before) / MESSAGES
  await hapax.close()
  await application.close()
  return counted - 1
}
