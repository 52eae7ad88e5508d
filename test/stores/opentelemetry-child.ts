import { createHapax, defineMessage, silentLogger } from 'hapax'
import { job, say } from '../support/child.ts'
import { openStore, type Place } from '../support/databases.ts'

/** A process whose handler never returns, so that it is killed in the middle of an attempt. */
const place = job<Place>()
const hapax = createHapax({ store: await openStore(place), source: '/shop', delivery: 'local', logger: silentLogger })
const billing = hapax.consumer('billing').on(defineMessage('ping'), async () => {
  await say({ said: 'handling' })
  await new Promise(() => {})
})
const worker = hapax.worker({ consume: [billing], takeoverMs: 2_000, pollMs: 50 })
await worker.start()
await say({ said: 'started' })
