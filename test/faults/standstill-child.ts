import { createHapax, defineMessage, silentLogger } from 'hapax'
import { job, say, told } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'

/** A process with a worker. */
export interface StandstillJob {
  readonly place: Place
  /** `stays`: handlers block the first time. `commits`: they also block, after a statement that commits. */
  readonly behaviour: 'good' | 'stays' | 'commits'
  readonly timeoutMs: number
  readonly inHand: number
}

/** Its report that a handler has written its effect and now blocks. */
export interface StandstillReport {
  readonly said: 'entered'
}

const SLEEP = { postgres: 'select pg_sleep(2)', mysql: 'select sleep(2)', sqlite: 'select 1' } as const

const { place, behaviour, timeoutMs, inHand } = job<StandstillJob>()
const store = await openStore(place, { max: inHand + 1 })
const hapax = createHapax({ store, source: '/standstill', logger: silentLogger })

const billing = hapax
  .consumer('billing', {
    receive: 'store',
    group: { size: 1 },
    concurrency: inHand,
    timeoutMs,
    retry: { minDelayMs: 0, maxDelayMs: 0 },
  })
  .on(defineMessage<number>('order'), async (number, { tx, attempt }) => {
    await tx.query(insertEffect(place, 'billing', `m-${number}`))
    if (behaviour === 'good' || attempt > 1) return
    if (behaviour === 'commits') await tx.query(`create table standstill_${number} (id integer)`)
    // In every second handler, a statement is running when the process is stopped.
    const running = number % 2 === 0 ? undefined : tx.query(SLEEP[place.store])
    await say({ said: 'entered' } satisfies StandstillReport)
    await running
    await new Promise(() => {})
  })

const worker = hapax.worker({ consume: [billing], takeoverMs: 1_000, pollMs: 50 })
await worker.start()
await told()
await worker.drain()
await worker.stop()
await hapax.close()
process.disconnect()
