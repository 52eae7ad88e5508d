import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Permanent, silentLogger } from '../../base/index.ts'
import { createHapax } from '../../index.ts'
import { sqlite } from '../../stores/sqlite/index.ts'
import { type Handed, type QueueReport, queueOf } from './broker.ts'
import { chance } from './chance.ts'
import { InvoiceCreated, OrderPlaced, writeInvoice } from './shop.ts'

/** What the worker's process reports to the broker's. */
export type Report = QueueReport | { readonly kind: 'working' | 'duplicate' | 'retrying' }

/** What the broker's process sends to the worker's. */
export type Order = { readonly kind: 'deliver'; readonly handed: Handed } | { readonly kind: 'stop' }

const THIS_FILE = fileURLToPath(import.meta.url)
const WORK_MS = 3
/** How soon the next process takes over from a killed one: far below the default, so that the demo stays short. */
export const TAKEOVER_MS = 1500
const ERROR_RATE = 1 / 6
const DECLINED_RATE = 1 / 12

/** Starts the worker as a process of its own. */
export function startWorker(path: string, seed: number, declining: boolean): ChildProcess {
  return fork(THIS_FILE, [path, String(seed), ...(declining ? ['declining'] : [])], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Payloads are bytes, which JSON cannot carry.
    serialization: 'advanced',
  })
}

const [, script, database, seedText, declining] = process.argv
if (script === THIS_FILE && database !== undefined) await main(database, Number(seedText), declining !== undefined)

async function main(path: string, seed: number, isDeclining: boolean): Promise<void> {
  const tell = (report: Report): void => {
    // Sending to a parent that has just died would throw.
    if (process.connected) process.send?.(report, undefined, {}, () => {})
  }
  const hapax = createHapax({ store: sqlite({ path }), source: '/demo/billing', logger: silentLogger })
  hapax.events.on('duplicate', () => tell({ kind: 'duplicate' }))
  hapax.events.on('retrying', () => tell({ kind: 'retrying' }))

  const billing = hapax.consumer('billing', { retry: { attempts: 20, minDelayMs: 50, maxDelayMs: 400 } })
  billing.on(OrderPlaced, async (order, ctx) => {
    await writeInvoice(ctx.tx, order)
    await ctx.publish(InvoiceCreated, order)
    tell({ kind: 'working' })
    // The invoice is written but not committed. From here to the acknowledgement, the process may be killed at any time.
    await sleep(WORK_MS)
    // Most of those that a person tries again are fine then.
    if (isDeclining && chance(seed, 'card', order.orderId) < DECLINED_RATE && Math.random() < 0.5)
      throw new Permanent('the card was declined')
    if (chance(seed, 'error', order.orderId, ctx.attempt) < ERROR_RATE)
      throw new Error('the tax service did not answer')
  })
  let deliver: (handed: Handed) => void = () => {}
  const stop = async (): Promise<void> => {
    await hapax.close()
    process.exit(0)
  }
  process.on('message', (order: Order) => void (order.kind === 'stop' ? stop() : deliver(order.handed)))
  process.on('disconnect', () => process.exit(1))
  const onHanded = (receive: typeof deliver): void => {
    deliver = receive
  }
  const worker = hapax.worker({ consume: [billing.from(queueOf({ tell, onHanded }))], takeoverMs: TAKEOVER_MS })
  await worker.start()
}
