import { createHapax, silentLogger } from 'hapax'
import { job, say } from '../support/child.ts'
import { openStore, type Place } from '../support/databases.ts'
import { shopOn } from './clock-steps.ts'

/** A process that is killed while it handles messages. */
export interface ClockStepsJob {
  readonly place: Place
  readonly takeoverMs: number
}

const { place, takeoverMs } = job<ClockStepsJob>()
const hapax = createHapax({ store: await openStore(place), source: '/shop', delivery: 'local', logger: silentLogger })
// It never finishes its leased messages.
const consumers = shopOn(hapax, place, () => new Promise(() => {}))
const worker = hapax.worker({ consume: consumers, takeoverMs, pollMs: 50 })
await worker.start()
await say({ said: 'started' })
