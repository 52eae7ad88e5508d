import { createHapax, silentLogger } from 'hapax'
import { endWithParent, job, say } from '../support/child.ts'
import { openStore, type Place } from '../support/databases.ts'

/** A process that begins an operation and works on it, or that works on what others have begun, until it is killed. */
export interface OperationJob {
  readonly place: Place
  readonly does: 'begin' | 'go on'
}

endWithParent()
const { place, does } = job<OperationJob>()
const hapax = createHapax({ store: await openStore(place), source: '/operations', logger: silentLogger })
await say({ said: 'started' })
if (does === 'begin') await hapax.failed.retryAll({ all: true }, { by: { actor: 'ada' } })
else await hapax.operations.work({ signal: new AbortController().signal })
