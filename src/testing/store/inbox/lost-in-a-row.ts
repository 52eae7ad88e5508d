import assert from 'node:assert/strict'
import { HapaxError } from '../../../base/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { type AnyStore, AT_ONCE, assertOutcome, type World } from '../world.ts'

/** The number of consecutive transactions of a message that may be lost. */
const MOST = 20

/** Wraps a store: a transaction in which a handler was called is lost if `isLost` returns true, and every retry is due at once. */
function losing(
  store: AnyStore,
  calls: () => number,
  isLost: (call: number) => boolean,
): { store: AnyStore; isIdle(): boolean } {
  let running = 0
  const run: AnyStore['transactions']['run'] = (options, opening, body) => {
    if (opening.kind !== 'claim') return store.transactions.run(options, opening, body)
    running += 1
    const claiming = store.transactions.run(options, opening, async (unit) => {
      const before = calls()
      const end = await body(unit)
      if (calls() > before && isLost(calls())) throw new HapaxError('transaction-lost', 'the link was cut')
      return end
    })
    return claiming.finally(() => {
      running -= 1
    })
  }
  const reschedule: AnyStore['inbox']['reschedule'] = (row) => store.inbox.reschedule({ ...row, delayMs: 0 })
  return { store: altered(store, { transactions: { run }, inbox: { reschedule } }), isIdle: () => running === 0 }
}

/** Handles a message whose transactions are lost in the given calls of its handler, which throws in the others. Resolves with its attempts. */
async function attempts(world: World, isLost: (call: number) => boolean, throws?: number): Promise<readonly number[]> {
  const seen: number[] = []
  const clock = new LeapingClock()
  const { store, isIdle } = losing(world.store, () => seen.length, isLost)
  const reader = world.reader(
    async ({ tx, message, attempt }) => {
      seen.push(attempt)
      if (seen.length === throws) throw new Error('flaw')
      await world.database.effect(tx, message.id)
    },
    { hapax: world.hapax({ store, clock }), receive: 'store', retry: AT_ONCE },
  )
  assertOutcome(await reader.deliver('a'), 'stored')
  const worker = await world.worker(reader, { takeoverMs: 86_400_000 })
  const isOver = async (): Promise<boolean> =>
    (await world.store.admin.trace('a')).every(({ where }) => where !== 'inbox')
  while (!(await isOver())) {
    const before = seen.length
    await world.until(() => {
      // A worker pauses before it retries rows that it could not finish. Not inside a transaction, whose time could run out.
      if (isIdle()) clock.leap(1_000)
      return seen.length > before || isOver()
    })
  }
  await worker.stop()
  return seen
}

/** Messages whose transactions are lost repeatedly. */
export const lostInARow: readonly Case[] = [
  {
    name: 'C15: twenty lost transactions in a row are kept as a failure of the infrastructure, and use up no attempt',
    run: async (world) => {
      assert.deepEqual(await attempts(world, () => true), Array(MOST).fill(1))
      const failed = await world.hapax().failed.list()
      assert.deepEqual(
        failed.map(({ message, reason }) => [message.id, reason]),
        [['a', 'infrastructure']],
      )
      await world.assertEffects([])
    },
  },
  {
    name: 'C15: an ordinary failure resets the count of lost transactions',
    run: async (world) => {
      // One loss fewer than the limit, the failure, and as many losses again.
      const seen = await attempts(world, (call) => call < 2 * MOST, MOST)
      assert.deepEqual(await world.hapax().failed.list(), [])
      await world.assertEffects(['a'])
      assert.deepEqual([seen.length, seen.at(0), seen.at(-1)], [2 * MOST, 1, 2])
    },
  },
]
