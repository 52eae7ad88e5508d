// A worker that exports its counters after every message, to a file that survives it.

import { openSync, writeSync } from 'node:fs'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { prometheus } from 'hapax/prometheus'
import { endWithParent, job, say, told } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'
import { numberOf } from '../support/exporter.ts'

/** What the worker has to do. */
export interface ReconcileJob {
  readonly place: Place
  /** Where its counter goes. */
  readonly file: string
  readonly concurrency: number
  readonly group: number
}

endWithParent()
const { place, file, concurrency, group } = job<ReconcileJob>()
const counter = openSync(file, 'w')
const store = await openStore(place, { max: concurrency + 1 })
const hapax = createHapax({ store, source: '/soak', logger: silentLogger })
const metrics = prometheus(hapax, { state: false })
// Listens after the metrics, so that it sees what they have counted.
hapax.events.on('processed', () => {
  const counted = numberOf(metrics.text(), 'hapax_messages_total{consumer="ledger",outcome="processed"}')
  writeSync(counter, String(counted).padStart(8), 0)
})
const consumer = hapax
  .consumer('ledger', { concurrency, group: { size: group } })
  .on(defineMessage<number>('entry'), async (_, { tx, message }) => {
    await tx.query(insertEffect(place, 'ledger', message.id))
  })
await hapax.worker({ consume: [consumer], pollMs: 50, takeoverMs: 3_000, cleanup: false }).start()
await say({})
await told()
await hapax.close()
process.disconnect()
