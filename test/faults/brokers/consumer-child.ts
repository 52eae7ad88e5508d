import { createHapax, silentLogger } from 'hapax'
import { endWithParent, job } from '../../support/child.ts'
import { openStore, type Place } from '../../support/databases.ts'
import { ledgerConsumer } from '../soak/ledger-consumer.ts'
import { workUntilTold } from '../soak/shift.ts'
import { type BrokerPlace, kindOf } from './broker-place.ts'
import { ackingFirst, type Sabotage } from './sabotage.ts'

/** What one consumer has to do until it is told to stop, or dies. */
export interface ConsumerJob {
  readonly place: Place
  readonly broker: BrokerPlace
  readonly seed: number
  readonly worker: number
  readonly takeoverMs: number
  readonly sabotage?: Sabotage | undefined
}

endWithParent()
const { place, broker, seed, worker: number, takeoverMs, sabotage } = job<ConsumerJob>()
const CONCURRENCY = 2
const hapax = createHapax({
  store: await openStore(place, { max: CONCURRENCY + 2 }),
  source: '/soak',
  logger: silentLogger,
})
const consumer = ledgerConsumer(hapax, {
  place,
  seed,
  worker: number,
  options: {
    order: broker.single ? 'wait' : 'none',
    concurrency: CONCURRENCY,
    group: { size: number % 2 === 0 ? 1 : 10 },
  },
  // Slow enough to have something in hand most of the time.
  paceMs: 30,
  effects: (id) => (sabotage === 'doubles effects' && id.endsWith('77') ? 2 : 1),
})
const subscription = await (await kindOf(broker.broker)).subscription(broker)
const source = consumer.from(sabotage === 'acks first' ? ackingFirst(subscription) : subscription)
await workUntilTold(hapax, hapax.worker({ consume: [source], takeoverMs, pollMs: 200 }))
