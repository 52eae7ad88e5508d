import { able, object } from '../base/index.ts'
import type { ConsumerCore } from '../consumer/index.ts'
import type { Destination, EndpointDestination } from '../contracts/index.ts'
import type { Engine } from '../transaction/index.ts'
import { deliveriesOf } from './deliveries.ts'
import { Spread } from './spread.ts'

/** A relay with registered endpoints: where it sends its messages, and the consumer that delivers them. */
export interface EndpointRelay<Tx> {
  readonly destination: Destination
  readonly consumer: ConsumerCore<Tx>
  /** How many deliveries run at once. No transaction is open meanwhile. */
  readonly concurrency: number
}

/** Puts together what a relay with registered endpoints needs. */
export function endpointRelay<Tx>(engine: Engine<Tx>, relay: string, driver: EndpointDestination): EndpointRelay<Tx> {
  return {
    destination: new Spread(engine, relay, driver),
    consumer: deliveriesOf(engine, relay, driver),
    concurrency: driver.settings.concurrency,
  }
}

/** Whether a destination is one of registered endpoints; checks that it can do what it has to. */
export function isEndpoints(destination: Destination | EndpointDestination): destination is EndpointDestination {
  if (typeof destination !== 'object' || destination === null || !('kind' in destination)) return false
  able('destination of endpoints', 'a destination, for example webhooks()', destination, [
    'check',
    'secret',
    'deliver',
    'prepare',
    'close',
  ])
  object('settings of the destination', destination.settings)
  return true
}
