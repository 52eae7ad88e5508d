import { createHapax, silentLogger } from 'hapax'
import { endWithParent, job } from '../../support/child.ts'
import { openStore, type Place } from '../../support/databases.ts'
import { ledgerConsumer } from './ledger-consumer.ts'
import { workUntilTold } from './shift.ts'

/** What one worker has to do until it is told to stop, or dies. */
export interface WorkerJob {
  readonly place: Place
  readonly seed: number
  readonly worker: number
  readonly takeoverMs: number
}

endWithParent()
const { place, seed, worker: number, takeoverMs } = job<WorkerJob>()
const CONCURRENCY = 8
const hapax = createHapax({
  store: await openStore(place, { max: CONCURRENCY + 4 }),
  source: '/soak',
  delivery: 'local',
  logger: silentLogger,
})
const consumer = ledgerConsumer(hapax, {
  place,
  seed,
  worker: number,
  options: { order: 'wait', concurrency: CONCURRENCY, group: { size: number % 2 === 0 ? 1 : 10 } },
})
await workUntilTold(hapax, hapax.worker({ consume: [consumer], takeoverMs, pollMs: 200 }))
