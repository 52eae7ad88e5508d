// A process with a worker that exports metrics. Its clock leaps when it is asked for them, so that nobody has to wait for samples.

import { createHapax, defineMessage, silentLogger } from 'hapax'
import { prometheus } from 'hapax/prometheus'
import { LeapingClock } from '../../src/testing/clock.ts'
import { endWithParent, job, say } from './child.ts'
import { openStore, type Place } from './databases.ts'

/** What it says: its metrics as text. */
export interface Exported {
  readonly text: string
}

endWithParent()
const { place } = job<{ readonly place: Place }>()
const clock = new LeapingClock()
const hapax = createHapax({ store: await openStore(place), source: '/test', logger: silentLogger, clock })
const metrics = prometheus(hapax)
const consumer = hapax.consumer('billing').on(defineMessage('ping'), () => {})
await hapax.worker({ consume: [consumer], cleanup: false, takeoverMs: 4_000 }).start()
process.on('message', async () => {
  clock.leap(1_000)
  // Time must not pass faster than the database responds: the limits of the worker are on the same clock.
  // A database that took too long is asked again, by the next message.
  await hapax.status().catch(() => {})
  await say({ text: metrics.text() })
})
await say({ text: '' })
