import assert from 'node:assert/strict'
import { HapaxError, isHapaxError } from '../../../base/index.ts'
import type { BulkOperation } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import { audits, BY, failedOnes, picky } from '../admin/failed-world.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, type AnyStore, assertRejects, type World } from '../world.ts'

const ids = (count: number, prefix = 'm'): readonly string[] => Array.from({ length: count }, (_, n) => `${prefix}${n}`)

/** Waits until an operation has ended. */
async function ended(world: World, hapax: AnyHapax, id: string): Promise<BulkOperation> {
  let found: BulkOperation | undefined
  await world.until(async () => {
    found = await hapax.operations.get(id)
    return found?.endedAt != null
  })
  assert.ok(found)
  return found
}

/** How far an operation is. */
const counts = ({ total, done, gone, errors, state }: BulkOperation) => ({ total, done, gone, errors, state })

/** The same store, and something that happens around each retry. */
function around(store: AnyStore, happens: (retry: () => Promise<boolean>, seq: string) => Promise<boolean>): AnyStore {
  const retry: AnyStore['failed']['retry'] = (seq, audit, step) =>
    happens(() => store.failed.retry(seq, audit, step), seq)
  return altered(store, { failed: { retry } })
}

const unavailable = (): HapaxError => new HapaxError('store-unavailable', 'the link was cut')

/** Every message was retried once, by hand. */
async function assertOnce(hapax: AnyHapax, of: readonly string[]): Promise<void> {
  for (const id of of) assert.equal((await audits(hapax, id)).length, 1, id)
}

const frozen: readonly Case[] = [
  {
    name: 'an operation changes exactly what had failed when it began, while more messages fail',
    run: async (world) => {
      const before = ids(30)
      const { reader, bad } = await failedOnes(world, before)
      const { hapax } = reader
      const { id, total } = await hapax.operations.begin({ kind: 'retry', all: true, by: BY, perSecond: 100 })
      assert.equal(total, 30)
      const later = ids(20, 'later')
      for (const each of later) {
        bad.add(each)
        await reader.deliver(each)
      }
      await world.worker(reader)
      assert.deepEqual(counts(await ended(world, hapax, id)), {
        total: 30,
        done: 30,
        gone: 0,
        errors: 0,
        state: 'done',
      })
      await world.until(async () => (await world.database.effects()).length === 30)
      await world.assertEffects(before.map((each) => `${each} 1`))
      const left = (await hapax.failed.list()).map(({ message }) => message.id)
      assert.deepEqual([...left].sort(), [...later].sort())
      await assertOnce(hapax, before)
    },
  },
  {
    name: 'a message that fails again while its operation goes on is not retried a second time',
    run: async (world) => {
      const before = ids(10)
      const bad = new Set(before)
      const reader = picky(world, bad)
      for (const id of before) await reader.deliver(id)
      const worker = await world.worker(reader)
      const summary = await reader.hapax.failed.retryAll({ all: true }, { perSecond: 50 })
      assert.deepEqual(summary, { done: 10, gone: 0, errors: 0, stopped: false })
      await worker.drain()
      assert.equal(await reader.hapax.failed.count(), 10)
      assert.equal(reader.calls.length, 20)
    },
  },
  {
    name: 'one that failed again under its number, after somebody else had retried it, is left alone',
    run: async (world) => {
      const { reader, bad } = await failedOnes(world, ['a', 'b'])
      const rival = reader.hapax
      bad.add('b')
      const store = around(world.store, async (retry, seq) => {
        const there = await retry()
        const other = (await rival.failed.list()).find(({ message, seq: each }) => message.id === 'b' && each !== seq)
        if (other !== undefined && reader.calls.length === 2) {
          await rival.failed.retry(other.seq)
          await world.drain(reader)
        }
        return there
      })
      const hapax = world.hapax({ store })
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 1, gone: 1, errors: 0, stopped: false })
      assert.equal(await hapax.failed.count(), 1)
    },
  },
  {
    name: 'one that an edit replaces while its operation goes on stays as replaced',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { failed } = reader.hapax
      const last = (await failed.list()).find(({ message }) => message.id === 'b')?.seq ?? ''
      const discard: AnyStore['failed']['discard'] = async (seq, audit, step) => {
        if (seq !== last) await failed.edit(last, { n: 2 })
        return world.store.failed.discard(seq, audit, step)
      }
      const hapax = world.hapax({ store: altered(world.store, { failed: { discard } }) })
      assert.deepEqual(await hapax.failed.discardAll({ all: true }), { done: 1, gone: 1, errors: 0, stopped: false })
      assert.equal(await failed.count({ replaced: true }), 1)
      assert.deepEqual(await failed.discardAll({ replaced: true }), { done: 1, gone: 0, errors: 0, stopped: false })
    },
  },
]

const lost: readonly Case[] = [
  {
    name: 'an operation goes on in another process when the store is away from the first one, and each row is changed once',
    run: async (world) => {
      const all = ids(40)
      const { reader } = await failedOnes(world, all)
      let left = 15
      const store = around(world.store, async (retry) => {
        left -= 1
        if (left === 0) throw unavailable()
        return retry()
      })
      const results: string[] = []
      const first = world.hapax({ store })
      const onResult = ({ result }: { readonly result: string }): void => void results.push(result)
      await assertRejects(first.failed.retryAll({ all: true }, { onResult, by: BY }), 'store-unavailable')
      assert.equal(results.length, 14)
      const [operation] = await reader.hapax.operations.list()
      assert.ok(operation)
      assert.deepEqual(counts(operation), { total: 40, done: 14, gone: 0, errors: 0, state: 'running' })
      await world.worker(reader)
      const done = await ended(world, reader.hapax, operation.id)
      assert.deepEqual(counts(done), { total: 40, done: 40, gone: 0, errors: 0, state: 'done' })
      await assertOnce(reader.hapax, all)
    },
  },
  {
    name: 'a change whose commit is unknown is counted once, whether it was made or not',
    run: async (world) => {
      const all = ids(6)
      await failedOnes(world, all)
      let times = 0
      const store = around(world.store, async (retry) => {
        times += 1
        if (times !== 2 && times !== 4) return retry()
        if (times === 2) await retry()
        throw new HapaxError('commit-unknown', 'the link was cut')
      })
      const hapax = world.hapax({ store })
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 6, gone: 0, errors: 0, stopped: false })
      await assertOnce(hapax, all)
    },
  },
]

const unanswered: readonly Case[] = [
  {
    name: 'a row that could not be changed is counted once, also if the answer to that was lost',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(5))
      const bad = (await reader.hapax.failed.list()).find(({ message }) => message.id === 'm2')?.seq
      const retry: AnyStore['failed']['retry'] = async (seq, audit, step) => {
        if (seq === bad) throw new Error('bad row')
        return world.store.failed.retry(seq, audit, step)
      }
      let cut = false
      const advance: AnyStore['operations']['advance'] = async (step, leaseMs, progress, end) => {
        const now = await world.store.operations.advance(step, leaseMs, progress, end)
        if (cut || progress.errors === 0) return now
        cut = true
        throw unavailable()
      }
      const store = altered(world.store, { failed: { retry }, operations: { advance } })
      await assertRejects(world.hapax({ store }).failed.retryAll({ all: true }), 'store-unavailable')
      const [operation] = await reader.hapax.operations.list()
      assert.ok(operation)
      await world.worker(reader)
      const end = await ended(world, reader.hapax, operation.id)
      assert.deepEqual(counts(end), { total: 5, done: 4, gone: 0, errors: 1, state: 'done' })
    },
  },
]

const people: readonly Case[] = [
  {
    name: 'an operation that is paused changes nothing until it is resumed, and one that is cancelled nothing more',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(30))
      const { operations, failed } = reader.hapax
      await world.worker(reader)
      // So slow that it cannot end before it is paused, or cancelled, on a busy machine.
      const { id } = await operations.begin({ kind: 'discard', all: true, perSecond: 4 })
      const done = async (): Promise<number> => (await operations.get(id))?.done ?? 0
      await world.until(async () => (await done()) > 2)
      await operations.pause(id, BY)
      await assertRejects(operations.pause(id, BY), 'conflict')
      const then = await done()
      // Another operation is begun and ends meanwhile, in the same worker.
      await reader.deliver('unrelated')
      const other = await operations.begin({ kind: 'retry', where: { type: 'none' } })
      await ended(world, reader.hapax, other.id)
      assert.equal(await done(), then)
      await operations.resume(id, BY)
      await world.until(async () => (await done()) > then)
      await operations.cancel(id, BY)
      const end = await ended(world, reader.hapax, id)
      assert.equal(end.state, 'cancelled')
      assert.equal(await failed.count(), 30 - end.done)
      await assertRejects(operations.resume(id), 'conflict')
      await assertRejects(operations.cancel(id), 'conflict')
      await assertRejects(operations.cancel(crypto.randomUUID().replace(/^(.{14})./, '$17')), 'not-found')
    },
  },
  {
    name: 'an operation that was paused during a change goes on as soon as it is resumed',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(3))
      const { operations } = reader.hapax
      const { id } = await operations.begin({ kind: 'retry', all: true })
      const store = around(world.store, async (retry) => {
        await operations.pause(id)
        return retry()
      })
      const stop = new AbortController()
      const working = world.hapax({ store }).operations.work({ signal: stop.signal })
      await world.until(async () => (await operations.get(id))?.state === 'paused')
      stop.abort()
      await working
      await operations.resume(id)
      assert.equal((await operations.get(id))?.worked, false)
      const again = await world.store.operations.lease(crypto.randomUUID(), 10_000, id)
      assert.deepEqual([again?.done, again?.total], [0, 3])
    },
  },
  {
    name: 'an error that is thrown for a result cancels its operation, also one that the store might have thrown',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(4))
      const { failed, operations } = reader.hapax
      for (const code of ['store-unavailable', 'lease-lost'] as const) {
        const onResult = (): never => {
          throw new HapaxError(code, 'mine')
        }
        await assertRejects(failed.discardAll({ all: true }, { onResult }), code)
        const [operation] = await operations.list()
        assert.deepEqual([operation?.state, operation?.done], ['cancelled', 1])
      }
      assert.equal(await failed.count(), 2)
    },
  },
  {
    name: 'an operation keeps its rate',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(30))
      const begun = performance.now()
      await reader.hapax.failed.discardAll({ all: true }, { perSecond: 15 })
      // The first one is due at once, and a tenth of a second may be made up for.
      assert.ok(performance.now() - begun >= (29 * 1000) / 15 - 100)
    },
  },
  {
    name: 'an operation with a limit changes the oldest, and what others change before it comes there is gone',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(8))
      const { operations, failed } = reader.hapax
      const { id, total } = await operations.begin({ kind: 'discard', all: true, limit: 5 })
      assert.equal(total, 5)
      const oldest = (await failed.list()).filter(({ message }) => ['m1', 'm3'].includes(message.id))
      for (const { seq } of oldest) await failed.discard(seq)
      await world.worker(reader)
      const end = await ended(world, reader.hapax, id)
      assert.deepEqual(counts(end), { total: 5, done: 3, gone: 2, errors: 0, state: 'done' })
      const left = (await failed.list()).map(({ message }) => message.id)
      assert.deepEqual([...left].sort(), ['m5', 'm6', 'm7'])
    },
  },
  {
    name: 'the same id begins one operation',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(3))
      const { operations } = reader.hapax
      const { id } = await operations.begin({ kind: 'discard', all: true })
      assert.equal((await operations.begin({ kind: 'discard', all: true, id })).total, 3)
      assert.equal((await operations.list()).length, 1)
      await world.worker(reader)
      await ended(world, reader.hapax, id)
    },
  },
]

const several: readonly Case[] = [
  {
    name: 'two operations about the same rows change each of them once between them',
    needs: ['another store'],
    run: async (world) => {
      const all = ids(40)
      const { reader } = await failedOnes(world, all)
      const both = [reader.hapax, await world.rival()]
      // Both begin before either changes a row.
      const begun = await Promise.all(
        both.map((hapax) => hapax.operations.begin({ kind: 'retry', all: true, perSecond: 200 })),
      )
      const stop = new AbortController()
      const working = both.map((hapax) => hapax.operations.work({ signal: stop.signal }))
      const operations = await Promise.all(begun.map(({ id }) => ended(world, reader.hapax, id)))
      stop.abort()
      await Promise.all(working)
      assert.equal(
        operations.reduce((sum, { done }) => sum + done, 0),
        40,
      )
      for (const { total, done, gone, errors } of operations)
        assert.deepEqual([total, done + gone, errors], [40, 40, 0])
      await assertOnce(reader.hapax, all)
    },
  },
  {
    name: 'a row that cannot be changed is an error of its operation, which goes on',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(5))
      const bad = (await reader.hapax.failed.list()).find(({ message }) => message.id === 'm2')?.seq
      const store = around(world.store, async (retry, seq) => {
        if (seq === bad) throw new Error('bad row')
        return retry()
      })
      const hapax = world.hapax({ store })
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 4, gone: 0, errors: 1, stopped: false })
      const [operation] = await hapax.operations.list()
      assert.equal(operation?.error?.message, 'bad row')
      assert.ok(!isHapaxError(operation?.error))
    },
  },
  {
    name: 'a process without a worker works on operations for as long as it is asked to',
    run: async (world) => {
      const { reader } = await failedOnes(world, ids(5))
      const { operations } = reader.hapax
      const { id } = await operations.begin({ kind: 'discard', all: true })
      const stop = new AbortController()
      const working = operations.work({ signal: stop.signal })
      assert.equal((await ended(world, reader.hapax, id)).done, 5)
      stop.abort()
      await working
    },
  },
]

export const bulkOperations: readonly Case[] = [...frozen, ...lost, ...unanswered, ...people, ...several]
