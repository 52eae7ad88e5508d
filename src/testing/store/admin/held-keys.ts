import assert from 'node:assert/strict'
import type { FailedMessage } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, type Reader, type World } from '../world.ts'
import { audits, BY, failedOne, picky } from './failed-world.ts'

/** The first message of key k is held, two wait behind it, and one of another key has run. */
async function heldKey(world: World): Promise<{ reader: Reader; bad: Set<string>; held: FailedMessage }> {
  const bad = new Set(['a'])
  const reader = picky(world, bad, { order: 'wait' })
  for (const id of ['a', 'b', 'c']) assertOutcome(await reader.deliver(id, { key: 'k' }), 'stored')
  await reader.deliver('other', { key: 'l' })
  await world.drain(reader)
  await world.assertEffects(['other 1'])
  bad.clear()
  return { reader, bad, held: await failedOne(reader.hapax, 'a') }
}

export const heldKeys: readonly Case[] = [
  {
    name: 'a message that failed for good holds its key, and both are shown',
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      assert.equal(held.held, true)
      const [key, ...others] = await reader.hapax.keys.list()
      assert.deepEqual(others, [])
      assert.deepEqual(
        [key?.origin, key?.scope, key?.key, key?.id, key?.failedSeq, key?.waiting],
        ['inbox', 'billing', 'k', 'a', held.seq, 2],
      )
      const { consumers } = await reader.hapax.status()
      const [billing] = consumers
      assert.deepEqual([billing?.waiting, billing?.retrying, billing?.held, billing?.failed], [2, 0, 1, 1])
      const traces = await reader.hapax.explain('a')
      assert.ok(traces.some((trace) => trace.where === 'inbox' && trace.heldAt !== null && trace.key === 'k'))
    },
  },
  {
    name: 'a held message that is retried runs from its place, before what waits behind it',
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      const seq = await world.store.inbox.find('billing', held.message.messageKey)
      await reader.hapax.failed.retry(held.seq, BY)
      assert.equal(await world.store.inbox.find('billing', held.message.messageKey), seq)
      await world.assertPlaces('a', ['audit', 'inbox', 'receipt'])
      assert.deepEqual(await reader.hapax.keys.list(), [])
      await world.drain(reader)
      assert.deepEqual(reader.calls.slice(-3), ['a', 'b', 'c'])
      await world.assertEffects(['a 1', 'b 1', 'c 1', 'other 1'])
    },
  },
  {
    name: 'a held message that is edited runs in its place, before what waits behind it',
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      const { id } = await reader.hapax.failed.edit(held.seq, { n: 7 })
      await world.assertPlaces('a', ['audit', 'failed', 'receipt'])
      assert.equal((await reader.hapax.failed.get(held.seq))?.held, false)
      await world.drain(reader)
      assert.deepEqual(reader.calls.slice(-3), [id, 'b', 'c'])
      await world.assertEffects([`${id} 7`, 'b 1', 'c 1', 'other 1'])
    },
  },
  {
    name: 'a held message that is discarded releases its key and stays gone',
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      await reader.hapax.failed.discard(held.seq, BY)
      await world.assertPlaces('a', ['audit', 'receipt'])
      assert.deepEqual(await reader.hapax.keys.list(), [])
      await world.drain(reader)
      assert.deepEqual(reader.calls.slice(-2), ['b', 'c'])
      assertOutcome(await reader.deliver('a', { key: 'k' }), 'duplicate')
    },
  },
  {
    name: 'a released key continues without its message, which stays in the failed store',
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      const key = { origin: 'inbox', scope: 'billing', key: 'k' } as const
      await reader.hapax.keys.release(key, BY)
      await assertRejects(reader.hapax.keys.release(key), 'not-found')
      await world.assertPlaces('a', ['audit', 'failed', 'receipt'])
      assert.deepEqual(await audits(reader.hapax, 'a'), [['release', 'ada', 'because']])
      assert.equal((await reader.hapax.failed.get(held.seq))?.held, false)
      await world.drain(reader)
      await world.assertEffects(['b 1', 'c 1', 'other 1'])
      await reader.deliver('d', { key: 'k' })
      await reader.hapax.failed.retry(held.seq)
      await world.drain(reader)
      assert.deepEqual(reader.calls.slice(-2), ['d', 'a'])
    },
  },
  {
    name: 'a held message that fails again after its retry holds its key again',
    run: async (world) => {
      const { reader, bad, held } = await heldKey(world)
      bad.add('a')
      await reader.hapax.failed.retry(held.seq)
      await world.drain(reader)
      const again = await failedOne(reader.hapax, 'a')
      assert.deepEqual([again.held, (await reader.hapax.keys.list()).length], [true, 1])
      await world.assertEffects(['other 1'])
    },
  },
  {
    name: 'a held message that is retried begins to count attempts anew',
    run: async (world) => {
      const attempts: number[] = []
      const reader = world.reader(
        ({ attempt }) => {
          attempts.push(attempt)
          throw new Error('no')
        },
        { order: 'wait' },
      )
      await reader.deliver('a', { key: 'k' })
      await world.drain(reader)
      await reader.hapax.failed.retry((await failedOne(reader.hapax, 'a')).seq)
      await world.drain(reader)
      assert.deepEqual(attempts, [1, 2, 3, 1, 2, 3])
    },
  },
  {
    name: 'of a retry and a release at once the message is neither lost nor doubled',
    needs: ['another store'],
    run: async (world) => {
      const { reader, held } = await heldKey(world)
      const rival = await world.rival()
      const [retried] = await Promise.allSettled([
        reader.hapax.failed.retry(held.seq),
        rival.keys.release({ origin: 'inbox', scope: 'billing', key: 'k' }),
      ])
      await world.drain(reader)
      const ran = reader.calls.filter((id) => id === 'a').length - 1
      const places = (await reader.hapax.explain('a')).map(({ where }) => where)
      assert.equal(ran + places.filter((where) => where === 'failed').length, 1, places.join(' '))
      if (retried?.status === 'fulfilled') assert.equal(ran, 1)
    },
  },
]
