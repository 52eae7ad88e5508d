import assert from 'node:assert/strict'
import { HapaxError } from '../../../base/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import { feed } from '../../feed.ts'
import type { Case } from '../case.ts'
import type { AnyStore, World } from '../world.ts'

const IDS = ['a', 'b', 'c', 'd'] as const
const TIMEOUT_MS = 30_000

/** Wraps a store: while it is `held`, another process has the receipts of all messages. */
function contended(store: AnyStore): { store: AnyStore; state: { held: boolean; tries: number } } {
  const state = { held: true, tries: 0 }
  const check = (): void => {
    if (!state.held) return
    state.tries += 1
    throw new HapaxError('busy', 'another transaction has its receipt')
  }
  const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
    if (opening.kind === 'take') check()
    return store.transactions.run(options, opening, body)
  }
  const storing: AnyStore['inbox']['store'] = async (options, deliveries) => {
    check()
    return store.inbox.store(options, deliveries)
  }
  return { store: altered(store, { transactions: { run }, inbox: { store: storing } }), state }
}

async function neverAcked(world: World, options: object): Promise<void> {
  const clock = new LeapingClock()
  const { store, state } = contended(world.store)
  const hapax = world.hapax({ store, clock })
  const { consumer } = world.reader(undefined, { hapax, timeoutMs: TIMEOUT_MS, ...options })
  const queue = feed(IDS)
  // Two deliveries may wait here at a time; the others go back to the broker immediately.
  const source = consumer.from(queue.subscription, { prefetch: 8 })
  const worker = await world.worker({ hapax }, { consume: [source] })
  await world.until(() => {
    clock.leap(100)
    return state.tries >= 2 * IDS.length || queue.acked.length > 0
  })
  assert.deepEqual(queue.acked, [])
  // Longer than a handler elsewhere may take: waiting deliveries go back as well, and are redelivered.
  clock.leap(2 * TIMEOUT_MS)
  const tries = state.tries + 2 * IDS.length
  await world.until(() => {
    clock.leap(1_000)
    return state.tries >= tries || queue.acked.length > 0
  })
  assert.deepEqual(queue.acked, [])
  state.held = false
  await world.until(() => {
    clock.leap(1_000)
    return queue.acked.length === IDS.length
  })
  await worker.drain()
  await world.assertEffects(IDS)
}

/** Deliveries of messages that another process has. */
export const busyDeliveries: readonly Case[] = (
  [
    ['direct', {}],
    ['stored', { receive: 'store' }],
    ['stored in order', { receive: 'store', order: 'wait' }],
  ] as const
).map(([way, options]) => ({
  name: `B2: a delivery whose message is busy elsewhere is never acknowledged, and takes effect once it is free: ${way}`,
  run: (world) => neverAcked(world, options),
}))
