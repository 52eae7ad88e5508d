import { createHapax, defineMessage, isHapaxError, silentLogger } from 'hapax'
import { job, say, told } from '../support/child.ts'
import { insertEffect, openStore, type Place } from '../support/databases.ts'

/** A process with a handler that behaves badly. */
export interface HandlerJob {
  readonly place: Place
  readonly id: string
  readonly behaviour: 'good' | 'outlives' | 'waits' | 'computes'
  readonly timeoutMs: number
  /** Waits for a word before it delivers. */
  readonly waits?: boolean
}

/** What it says: that it waits for a word, that the handler has been entered, what late writes met, how the delivery ended. */
export type HandlerReport =
  | { readonly said: 'ready' }
  | { readonly said: 'entered' }
  | { readonly said: 'late'; readonly refusals: readonly string[] }
  | { readonly said: 'ended'; readonly status: string }

const { place, id, behaviour, timeoutMs, waits } = job<HandlerJob>()
const store = await openStore(place, { max: 2 })
const hapax = createHapax({ store, source: '/handlers', logger: silentLogger })
const Order = defineMessage<{ id: string }>('order')
let outlived: Promise<void> | undefined

const consumer = hapax
  .consumer('billing', { timeoutMs, lockTimeoutMs: 100, retry: { minDelayMs: 0, maxDelayMs: 0 } })
  .on(Order, async (_data, { tx, signal, attempt }) => {
    await tx.query(insertEffect(place, 'billing', id))
    if (attempt > 1 || behaviour === 'good') return
    await say({ said: 'entered' })
    if (behaviour === 'computes') return compute(timeoutMs * 3)
    if (behaviour === 'waits') return void (await told())
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve))
    outlived = aborted.then(() => writeLate(tx))
    // It returns as if it were in time.
    await outlived
  })

if (waits) {
  await say({ said: 'ready' })
  await told()
}
for (let acked = false; !acked; ) {
  const { status, ack } = await consumer.handle({ id, source: '/shop', type: 'order', data: { id } }).catch(notYet)
  acked = ack
  await say({ said: 'ended', status })
}
await outlived
const worker = hapax.worker({ consume: [consumer], takeoverMs: 1_000 })
await worker.start()
await worker.drain()
await worker.stop()
await hapax.close()
process.disconnect()

/** Uses everything that a handler can still hold, at once and again when the connection has found its next user. */
async function writeLate(tx: { query(text: string): Promise<unknown>; client: unknown }): Promise<void> {
  const refusals: string[] = []
  const late = insertEffect(place, 'late', id)
  const attempts: (() => unknown)[] = [
    () => tx.query(late),
    () => (tx.client as { query(text: string): unknown }).query(late),
    () => (tx.client as { exec(text: string): unknown }).exec(late),
  ]
  for (let round = 0; round < 3; round++) {
    for (const attempt of attempts) {
      try {
        await attempt()
        refusals.push('none')
      } catch (error) {
        refusals.push(isHapaxError(error) ? error.code : String(error))
      }
    }
    await hapax.status()
  }
  await say({ said: 'late', refusals })
}

function compute(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

function notYet(error: unknown): { status: string; ack: false } {
  if (!isHapaxError(error)) throw error
  return { status: error.code, ack: false }
}
