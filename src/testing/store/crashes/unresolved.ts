import assert from 'node:assert/strict'
import { HapaxError } from '../../../base/index.ts'
import type { ConsumerOptions } from '../../../consumer/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import { feed } from '../../feed.ts'
import type { Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import type { AnyStore, World } from '../world.ts'

/** Wraps a store whose connection breaks during a COMMIT; its database is then unreachable until restored. */
function leaving(store: AnyStore, cut: 'before' | 'after'): { store: AnyStore; isAway(): boolean; back(): void } {
  let away: 'not yet' | 'away' | 'back' = 'not yet'
  // Several transactions may be in progress, and all of them lose their connection.
  const lost = lossy(store, cut, 3)
  const through = async <T>(work: () => Promise<T>): Promise<T> => {
    if (away === 'away') throw new HapaxError('store-unavailable', 'the database is away')
    try {
      return await work()
    } catch (error) {
      if (away === 'not yet') away = 'away'
      throw error
    }
  }
  const run: AnyStore['transactions']['run'] = (...args) => through(() => lost.transactions.run(...args))
  const storing: AnyStore['inbox']['store'] = (...args) => through(() => lost.inbox.store(...args))
  const back = (): void => {
    away = 'back'
  }
  const isAway = (): boolean => away === 'away'
  return { store: altered(store, { transactions: { run }, inbox: { store: storing } }), isAway, back }
}

const ways: readonly (readonly [string, ConsumerOptions])[] = [
  ['direct', {}],
  ['direct in groups', { group: { size: 5 } }],
  ['stored', { receive: 'store' }],
  ['stored in order', { receive: 'store', order: 'wait' }],
]

async function unresolved(world: World, options: ConsumerOptions, cut: 'before' | 'after'): Promise<void> {
  const ids = ['a', 'b', 'c']
  const clock = new LeapingClock()
  const { store, isAway, back } = leaving(world.store, cut)
  const hapax = world.hapax({ store, clock })
  let givenUp = 0
  hapax.events.on('worker-error', () => {
    givenUp += 1
  })
  const { consumer } = world.reader(undefined, { hapax, ...options })
  const queue = feed(ids)
  const worker = hapax.worker({ consume: [consumer.from(queue.subscription)], pollMs: 20 })
  await worker.start()
  try {
    // The commit is looked up until that is given up; then everything goes back to the broker, more than once.
    await world.until(() => {
      // Not before: no time may run out for the connections that it needs until then.
      if (isAway()) clock.leap(5_000)
      return givenUp > 2
    })
    assert.deepEqual(queue.acked, [])
    back()
    await world.until(() => {
      clock.leap(1_000)
      return queue.acked.length === ids.length
    })
    await worker.drain()
  } finally {
    await worker.stop()
  }
  await world.assertEffects(ids)
}

/** Deliveries whose commit remains unknown. */
export const unresolvedCommits: readonly Case[] = ways.flatMap(([way, options]) =>
  (['before', 'after'] as const).map((cut) => ({
    name: `A25: a delivery whose commit stays unknown goes back to the broker, and takes effect once: ${way}, cut ${cut} the commit`,
    run: (world) => unresolved(world, options, cut),
  })),
)
