import { createHapax, defineMessage, silentLogger } from 'hapax'
import { job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'

/** A process that works an inbox in which one message ends it. */
export interface KillerJob {
  readonly place: Place
  readonly takeoverMs: number
}

const { place, takeoverMs } = job<KillerJob>()
const hapax = createHapax({ store: await openStore(place), source: '/killer', logger: silentLogger })
const consumer = hapax
  .consumer('billing', { receive: 'store', group: { size: 100 } })
  .on(defineMessage('order'), async (_data, { tx, message }) => {
    await tx.query(insertEffect(place, 'billing', message.id))
    if (message.id === 'killer') process.kill(process.pid, 'SIGKILL')
  })
const worker = hapax.worker({ consume: [consumer], takeoverMs, pollMs: 20 })
await worker.start()
await worker.drain()
await say({ said: 'drained' })
await worker.stop()
await hapax.close()
process.disconnect()
