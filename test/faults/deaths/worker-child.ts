import { createHapax, defineMessage, silentLogger } from 'hapax'
import { endWithParent, job, say, told } from '../../support/child.ts'
import { insertEffect, type Place } from '../../support/databases.ts'
import { openAsUsual } from './store.ts'

/** A process that works the inbox of a consumer, until it is killed or told to stop. */
export interface DeathsJob {
  readonly place: Place
  readonly ordered: boolean
  /** Undefined: the default. */
  readonly takeoverMs: number | undefined
}

/** Its report on a message: the id, and how long after its publish the handler ran. */
export interface Handled {
  readonly id: string
  readonly lagMs: number
}

endWithParent()
const { place, ordered, takeoverMs } = job<DeathsJob>()
const Sent = defineMessage<{ at: number }>('sent')
const hapax = createHapax({ store: openAsUsual(place), source: '/deaths', logger: silentLogger, delivery: 'local' })
const consumer = hapax
  .consumer('deaths', ordered ? { order: 'wait' } : {})
  .on(Sent, async ({ at }, { tx, message }) => {
    await tx.query(insertEffect(place, 'deaths', message.id))
    void say({ id: message.id, lagMs: Date.now() - at } satisfies Handled)
  })
const worker = hapax.worker({ consume: [consumer], ...(takeoverMs !== undefined && { takeoverMs }) })
await worker.start()
await say({ id: '', lagMs: 0 } satisfies Handled)
await told()
await worker.stop()
await hapax.close()
process.disconnect()
