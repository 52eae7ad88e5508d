import assert from 'node:assert/strict'
import type { OperationStep } from '../../../contracts/index.ts'
import { ALL_LANES } from '../../../message/index.ts'
import { failedOnes } from '../admin/failed-world.ts'
import { kept } from '../admin/kept.ts'
import type { Case } from '../case.ts'
import { assertRejects, type World } from '../world.ts'
import { LONG_MS, leased, NOTHING, operation, RETRIED } from './world.ts'

const IDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'] as const

/** Retries these rows as steps; how many were there. Stops without a word when the lease is lost. */
async function walk(world: World, step: OperationStep, seqs: readonly string[]): Promise<number> {
  let done = 0
  for (const seq of seqs) {
    try {
      if (await world.store.failed.retry(seq, RETRIED, step)) done += 1
    } catch {
      return done
    }
  }
  return done
}

/** How many retries the audit has. */
async function retries(world: World): Promise<number> {
  const found = await Promise.all(IDS.map((id) => world.store.admin.trace(id)))
  return found.flat().filter((each) => each.where === 'audit' && each.action === 'retry').length
}

/** Rows that are changed as steps of an operation. */
export const operationSteps: readonly Case[] = [
  {
    name: 'a retried or discarded row is counted, one that is gone is not',
    run: async (world) => {
      await failedOnes(world, ['a', 'b', 'c'])
      const [first = '', second = '', third = ''] = await world.store.failed.seqs({}, undefined, 10)
      const step = await leased(world)
      const { failed } = world.store
      assert.equal(await failed.retry(first, RETRIED, step), true)
      assert.equal(await failed.retry(first, RETRIED, step), false)
      assert.equal(await failed.discard(second, { actor: 'ada', action: 'discard' }, step), true)
      const { done, after, gone } = await operation(world, step.id)
      assert.deepEqual([done, after, gone], [2, second, 0])
      assert.deepEqual(await failed.seqs({}, undefined, 10), [third])
    },
  },
  {
    name: 'a republished message is counted',
    run: async (world) => {
      await kept(world, [['a', 'default']])
      const [seq = ''] = await world.store.sent.seqs({}, undefined, 9)
      const step = await leased(world, { kind: 'republish', where: {} })
      assert.equal(await world.store.sent.republish(seq, { actor: 'ada', action: 'republish' }, step), true)
      const { done, after } = await operation(world, step.id)
      assert.deepEqual([done, after], [1, seq])
      const share = {
        table: 'outbox',
        scope: 'default',
        types: [],
        lanes: ALL_LANES,
        limit: 9,
        after: new Map(),
      } as const
      assert.equal((await world.store.workers.look([share]))[0]?.entries.length, 1)
    },
  },
  ...(['paused', 'cancelled'] as const).map(
    (state): Case => ({
      name: `a row is left alone once its operation is ${state}`,
      run: async (world) => {
        await failedOnes(world, ['a'])
        const [seq = ''] = await world.store.failed.seqs({}, undefined, 10)
        const step = await leased(world)
        await world.store.operations.change(step.id, state, { actor: 'bob', action: 'pause' })
        await assertRejects(world.store.failed.retry(seq, RETRIED, step), 'lease-lost')
        await assertRejects(world.store.failed.discard(seq, RETRIED, step), 'lease-lost')
        assert.equal(await world.store.failed.count({}), 1)
        assert.equal((await operation(world, step.id)).done, 0)
        await world.assertPlaces('a', ['failed', 'receipt'])
      },
    }),
  ),
  {
    name: 'a row is left alone by a process that has lost its lease, and audited by nobody',
    run: async (world) => {
      await failedOnes(world, ['a'])
      const [seq = ''] = await world.store.failed.seqs({}, undefined, 10)
      const lost = await leased(world, {}, 1)
      await world.until(async () => (await world.store.operations.lease('other', LONG_MS)) !== undefined)
      await assertRejects(world.store.failed.retry(seq, RETRIED, lost), 'lease-lost')
      await assertRejects(world.store.failed.discard(seq, RETRIED, lost), 'lease-lost')
      await assertRejects(world.store.failed.retry(seq, RETRIED, { ...lost, id: 'nobody' }), 'lease-lost')
      assert.equal(await world.store.failed.count({}), 1)
      assert.equal(await retries(world), 0)
      assert.equal((await operation(world, lost.id)).done, 0)
    },
  },
  {
    name: 'a message that is published stays unpublished by a process that has lost its lease',
    run: async (world) => {
      await kept(world, [['a', 'default']])
      const [seq = ''] = await world.store.sent.seqs({}, undefined, 9)
      const step = await leased(world, { kind: 'republish', where: {} })
      await world.store.operations.release(step)
      const republished = world.store.sent.republish(seq, { actor: 'ada', action: 'republish' }, step)
      await assertRejects(republished, 'lease-lost')
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'numbers stay exact when one process takes over from another in the middle',
    run: async (world) => {
      await failedOnes(world, IDS)
      const seqs = await world.store.failed.seqs({}, undefined, 100)
      const slow = await leased(world, {}, 1)
      const first = walk(world, slow, seqs)
      const fast = { id: slow.id, token: 'other' }
      let second = 0
      await world.until(async () => {
        const { state, done } = await operation(world, slow.id)
        if (state === 'running' && done < IDS.length && (await world.store.operations.lease('other', LONG_MS))) {
          second = await walk(world, fast, await world.store.failed.seqs({}, undefined, 100))
          return true
        }
        return done === IDS.length
      })
      assert.equal((await first) + second, IDS.length)
      assert.equal((await operation(world, slow.id)).done, IDS.length)
      assert.equal(await retries(world), IDS.length)
      assert.equal(await world.store.failed.count({}), 0)
    },
  },
  {
    name: 'a row that somebody else decides about at the same time is counted by whoever changed it',
    run: async (world) => {
      await failedOnes(world, IDS)
      const seqs = await world.store.failed.seqs({}, undefined, 100)
      const step = await leased(world)
      const others = Promise.all(
        seqs.map((seq) => world.store.failed.discard(seq, { actor: 'eve', action: 'discard' })),
      )
      const own = await walk(world, step, seqs)
      const discarded = (await others).filter(Boolean).length
      assert.equal(own + discarded, IDS.length)
      const ended = await world.store.operations.advance(step, LONG_MS, NOTHING, true)
      assert.deepEqual([ended?.done, ended?.gone], [own, discarded])
    },
  },
]
