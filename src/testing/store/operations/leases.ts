import assert from 'node:assert/strict'
import { failedOnes } from '../admin/failed-world.ts'
import type { Case } from '../case.ts'
import { audited, BEGUN, draft, LONG_MS, leased, NOTHING, newId, operation } from './world.ts'

/** Who works on an operation, and what people want of it. */
export const operationLeases: readonly Case[] = [
  {
    name: 'one process at a time works on an operation, the oldest one first',
    run: async (world) => {
      const { operations } = world.store
      const first = await operations.begin(draft(), BEGUN)
      const second = await operations.begin(draft(), BEGUN)
      const found = [await operations.lease('t1', LONG_MS), await operations.lease('t2', LONG_MS)]
      assert.deepEqual(
        found.map((each) => each?.id),
        [first.id, second.id],
      )
      assert.ok(found.every((each) => each?.worked))
      assert.equal((await operation(world, first.id)).worked, true)
      assert.equal(await operations.lease('t3', LONG_MS), undefined)
      assert.equal(await operations.lease('t3', LONG_MS, first.id), undefined)
      assert.equal(await operations.lease('t3', LONG_MS, newId()), undefined)
    },
  },
  {
    name: 'of several processes that want to work on an operation at once, one does',
    run: async (world) => {
      const { id } = await world.store.operations.begin(draft(), BEGUN)
      const tokens = ['t1', 't2', 't3', 't4']
      const found = await Promise.all(tokens.map((token) => world.store.operations.lease(token, LONG_MS)))
      assert.equal(found.filter((each) => each?.id === id).length, 1)
    },
  },
  {
    name: 'a process that does not prolong its lease loses the operation to another one',
    run: async (world) => {
      const { operations } = world.store
      const lost = await leased(world, {}, 1)
      await world.until(async () => (await operations.lease('other', LONG_MS, lost.id)) !== undefined)
      assert.equal(await operations.advance(lost, LONG_MS, { ...NOTHING, gone: 5 }, true), undefined)
      await operations.release(lost)
      const { state, gone, worked } = await operation(world, lost.id)
      assert.deepEqual([state, gone, worked], ['running', 0, true])
    },
  },
  {
    name: 'a lease that is over and that nobody took is prolonged',
    run: async (world) => {
      const { operations } = world.store
      const step = await leased(world, {}, 1)
      await world.until(async () => !(await operation(world, step.id)).worked)
      assert.equal((await operations.advance(step, LONG_MS, NOTHING, false))?.worked, true)
      assert.equal(await operations.lease('other', LONG_MS), undefined)
    },
  },
  {
    name: 'a lease that is given up is free at once',
    run: async (world) => {
      const step = await leased(world)
      await world.store.operations.release(step)
      assert.equal((await operation(world, step.id)).worked, false)
      assert.equal((await world.store.operations.lease('other', LONG_MS))?.id, step.id)
    },
  },
  {
    name: 'what was visited adds up, what is recorded twice counts once, and the last row never moves back',
    run: async (world) => {
      await failedOnes(world, ['a', 'b', 'c'])
      const [first = '', second = '', third = ''] = await world.store.failed.seqs({}, undefined, 10)
      const step = await leased(world)
      const { advance } = world.store.operations
      const error = { name: 'Error', message: 'no \u0000 \ud800', code: 'conflict' }
      const visited = { after: second, gone: 1, errors: 1, error }
      await advance(step, LONG_MS, visited, false)
      // The answer to a call may be lost.
      await advance(step, LONG_MS, visited, false)
      const again = await advance(step, LONG_MS, { ...visited, after: first }, false)
      assert.deepEqual([again?.after, again?.gone, again?.errors, again?.error], [second, 1, 1, error])
      const later = await advance(step, LONG_MS, { ...NOTHING, after: third, gone: 2, errors: 3 }, false)
      assert.deepEqual([later?.after, later?.gone, later?.errors, later?.error], [third, 3, 4, error])
      assert.deepEqual([later?.state, later?.worked], ['running', true])
    },
  },
  {
    name: 'an operation is done once every row was visited; what nobody met is gone',
    run: async (world) => {
      await failedOnes(world, ['a', 'b', 'c'])
      const step = await leased(world)
      const [first = ''] = await world.store.failed.seqs({}, undefined, 10)
      const done = await world.store.operations.advance(step, LONG_MS, { ...NOTHING, after: first, errors: 1 }, true)
      assert.deepEqual([done?.state, done?.total, done?.gone, done?.errors, done?.worked], ['done', 3, 2, 1, false])
      assert.ok(done?.endedAt instanceof Date)
      assert.equal(await world.store.operations.advance(step, LONG_MS, NOTHING, true), undefined)
      assert.equal(await world.store.operations.lease('other', LONG_MS), undefined)
    },
  },
  {
    name: 'a paused operation is worked on by nobody until it is resumed',
    run: async (world) => {
      const { operations } = world.store
      await failedOnes(world, ['a'])
      const [first = ''] = await world.store.failed.seqs({}, undefined, 10)
      const step = await leased(world)
      assert.equal(await operations.change(step.id, 'paused', { actor: 'bob', action: 'pause', note: 'wait' }), true)
      assert.equal(await operations.change(step.id, 'paused', { actor: 'eve', action: 'pause' }), false)
      const told = await operations.advance(step, LONG_MS, { ...NOTHING, after: first, gone: 1 }, false)
      assert.deepEqual([told?.state, told?.gone, told?.worked], ['paused', 1, false])
      assert.equal(await operations.advance(step, LONG_MS, NOTHING, false), undefined)
      assert.equal(await operations.lease('other', LONG_MS), undefined)
      assert.equal(await operations.change(step.id, 'running', { actor: 'ada', action: 'resume' }), true)
      assert.equal((await operations.lease('other', LONG_MS))?.id, step.id)
      assert.deepEqual(
        (await audited(world, step.id)).map(([action, actor]) => `${action} ${actor}`),
        ['begin ada', 'pause bob', 'resume ada'],
      )
    },
  },
  {
    name: 'a cancelled operation has ended, and stays so',
    run: async (world) => {
      const { operations } = world.store
      const step = await leased(world)
      const cancel = { actor: 'bob', action: 'cancel' } as const
      assert.equal(await operations.change(step.id, 'cancelled', cancel), true)
      for (const to of ['running', 'paused', 'cancelled'] as const) {
        assert.equal(await operations.change(step.id, to, cancel), false)
      }
      const told = await operations.advance(step, LONG_MS, NOTHING, true)
      assert.deepEqual([told?.state, told?.worked], ['cancelled', false])
      assert.ok(told?.endedAt instanceof Date)
      assert.equal(await operations.lease('other', LONG_MS), undefined)
      assert.equal(await operations.change(newId(), 'cancelled', cancel), false)
      assert.equal((await audited(world, step.id)).length, 2)
    },
  },
  {
    name: 'of several people who cancel an operation, one does',
    run: async (world) => {
      const { id } = await world.store.operations.begin(draft(), BEGUN)
      const cancel = { actor: 'bob', action: 'cancel' } as const
      const cancelled = await Promise.all([1, 2, 3].map(() => world.store.operations.change(id, 'cancelled', cancel)))
      assert.equal(cancelled.filter(Boolean).length, 1)
      assert.equal((await audited(world, id)).length, 2)
    },
  },
  {
    name: 'operations that ended are cleaned with the audit, others stay',
    run: async (world) => {
      const { operations } = world.store
      const ended = await leased(world)
      await operations.advance(ended, LONG_MS, NOTHING, true)
      const running = await operations.begin(draft(), BEGUN)
      await world.store.admin.clean({ kind: 'audit', dryRun: true }, 0, 100)
      assert.equal((await operations.list(undefined, 9)).length, 2)
      await world.store.admin.clean({ kind: 'audit' }, LONG_MS, 100)
      assert.equal((await operations.list(undefined, 9)).length, 2)
      await world.until(async () => {
        await world.store.admin.clean({ kind: 'audit' }, 1, 100)
        return (await operations.get(ended.id)) === undefined
      })
      assert.deepEqual(
        (await operations.list(undefined, 9)).map(({ id }) => id),
        [running.id],
      )
    },
  },
]
