import { createHapax, silentLogger } from 'hapax'
import type { Store } from 'hapax/contracts'
import { webhooks } from 'hapax/webhooks'
import { altered } from '../../src/testing/altered.ts'
import { job, say, told } from '../support/child.ts'
import { openStore, type Place } from '../support/databases.ts'

/** A process that delivers webhooks. */
export interface WebhooksJob {
  readonly place: Place
  /** Ends the process after the copies of an event are committed, and before its row in the outbox is deleted. */
  readonly diesBeforeConfirm: boolean
}

const { place, diesBeforeConfirm } = job<WebhooksJob>()
const store: Store<unknown> = await openStore(place)
const confirm: Store<unknown>['outbox']['confirm'] = (seqs, keep) => {
  if (diesBeforeConfirm) process.kill(process.pid, 'SIGKILL')
  return store.outbox.confirm(seqs, keep)
}
const hapax = createHapax({ store: altered(store, { outbox: { confirm } }), source: '/shop', logger: silentLogger })
const worker = hapax.worker({
  relay: webhooks({
    allow: ['127.0.0.1'],
    allowHttp: true,
    ports: 'all',
    scheduleMs: Array.from({ length: 20 }, () => 100),
    breaker: { failures: 1_000 },
  }),
  takeoverMs: 1_000,
  pollMs: 50,
})
await worker.start()
await say({ said: 'started' })
await told()
await worker.stop()
await hapax.close()
process.disconnect()
