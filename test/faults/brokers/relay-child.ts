import { createHapax, silentLogger } from 'hapax'
import { endWithParent, job } from '../../support/child.ts'
import { openStore, type Place } from '../../support/databases.ts'
import { workUntilTold } from '../soak/shift.ts'
import { type BrokerPlace, kindOf } from './broker-place.ts'
import { type Sabotage, unconfirmed } from './sabotage.ts'

/** What one relay has to do until it is told to stop, or dies. */
export interface RelayJob {
  readonly place: Place
  readonly broker: BrokerPlace
  readonly takeoverMs: number
  readonly sabotage?: Sabotage | undefined
}

endWithParent()
const { place, broker, takeoverMs, sabotage } = job<RelayJob>()
const hapax = createHapax({ store: await openStore(place), source: '/soak', logger: silentLogger })
const destination = await (await kindOf(broker.broker)).destination(broker)
const relay = sabotage === 'does not wait for confirms' ? unconfirmed(destination) : destination
await workUntilTold(hapax, hapax.worker({ relay, takeoverMs, pollMs: 200 }))
