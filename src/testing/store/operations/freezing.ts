import assert from 'node:assert/strict'
import type { BulkOperation } from '../../../contracts/index.ts'
import { failedOnes, picky } from '../admin/failed-world.ts'
import { kept } from '../admin/kept.ts'
import type { Case } from '../case.ts'
import type { World } from '../world.ts'
import { assertTexts, audited, BEGUN, draft, leased, ODD, operation, RETRIED, rowsOf } from './world.ts'

/** Someone else retries a message, and it fails again under its number. The worker that runs it does not run the operation. */
async function failedAgain(
  world: World,
  reader: Parameters<World['drain']>[0],
  bad: Set<string>,
  { id }: BulkOperation,
  seq: string,
): Promise<void> {
  await world.store.operations.change(id, 'paused', { actor: 'ada', action: 'pause' })
  bad.add('a')
  assert.equal(await world.store.failed.retry(seq, RETRIED), true)
  await world.drain(reader)
}

/** Which rows an operation is about. */
export const freezing: readonly Case[] = [
  {
    name: 'an operation counts its rows, and names the newest of them',
    run: async (world) => {
      await failedOnes(world, ['a', 'b', 'c'])
      const seqs = await world.store.failed.seqs({}, undefined, 10)
      const begun = await world.store.operations.begin(draft({ perSecond: 2.5 }), BEGUN)
      assert.deepEqual([begun.kind, begun.state, begun.total, begun.upTo], ['retry', 'running', 3, seqs[2]])
      assert.deepEqual([begun.done, begun.gone, begun.errors, begun.error, begun.after], [0, 0, 0, null, null])
      assert.deepEqual([begun.actor, begun.note, begun.perSecond, begun.worked], ['ada', 'incident 7', 2.5, false])
      assert.deepEqual([begun.endedAt, begun.createdAt.getTime()], [null, begun.changedAt.getTime()])
      assert.deepEqual(await operation(world, begun.id), begun)
      assert.deepEqual(await rowsOf(world, begun), seqs)
      assert.deepEqual(await audited(world, begun.id), [['begin', 'ada', 'incident 7']])
    },
  },
  {
    name: 'an operation on nothing has no row',
    run: async (world) => {
      const begun = await world.store.operations.begin(draft({ where: { consumer: 'nobody' } }), BEGUN)
      assert.deepEqual([begun.total, begun.upTo], [0, null])
    },
  },
  {
    name: 'a limit takes the oldest rows',
    run: async (world) => {
      await failedOnes(world, ['a', 'b', 'c'])
      const seqs = await world.store.failed.seqs({}, undefined, 10)
      const begun = await world.store.operations.begin(draft({ limit: 2 }), BEGUN)
      assert.deepEqual([begun.total, begun.upTo], [2, seqs[1]])
      const more = await world.store.operations.begin(draft({ limit: 9 }), BEGUN)
      assert.deepEqual([more.total, more.upTo], [3, seqs[2]])
    },
  },
  {
    name: 'messages that fail afterwards do not belong to an operation',
    run: async (world) => {
      await failedOnes(world, ['a', 'b'])
      const begun = await world.store.operations.begin(draft(), BEGUN)
      const late = picky(world, new Set(['c']))
      await late.deliver('c')
      assert.equal(await world.store.failed.count({}), 3)
      const rows = await rowsOf(world, begun)
      assert.deepEqual([rows.length, rows.at(-1)], [2, begun.upTo])
    },
  },
  {
    name: 'a message that fails again, under its old number, does not belong to an operation any more',
    run: async (world) => {
      const { reader, bad } = await failedOnes(world, ['a', 'b'])
      const [first = '', second = ''] = await world.store.failed.seqs({}, undefined, 10)
      const begun = await world.store.operations.begin(draft(), BEGUN)
      await failedAgain(world, reader, bad, begun, first)
      assert.deepEqual(await world.store.failed.seqs({}, undefined, 10), [first, second])
      assert.deepEqual(await rowsOf(world, begun), [second])
    },
  },
  {
    name: 'a message that fails again within the millisecond in which an operation began no longer belongs to it',
    needs: ['setting times'],
    run: async (world) => {
      const { reader, bad } = await failedOnes(world, ['a', 'b'])
      const [first = '', second = ''] = await world.store.failed.seqs({}, undefined, 10)
      const begun = await world.store.operations.begin(draft(), BEGUN)
      await failedAgain(world, reader, bad, begun, first)
      await world.database.sameTime()
      assert.deepEqual(await world.store.failed.seqs({}, undefined, 10), [first, second])
      assert.deepEqual(await rowsOf(world, begun), [second])
      // It belongs to the next operation.
      const next = await world.store.operations.begin(draft(), BEGUN)
      assert.deepEqual([next.total, await rowsOf(world, next)], [2, [first, second]])
    },
  },
  {
    name: 'an operation does not change a message that failed again after it was selected, whatever its timestamp',
    needs: ['setting times'],
    run: async (world) => {
      const { reader, bad } = await failedOnes(world, ['a', 'b'])
      const [first = '', second = ''] = await world.store.failed.seqs({}, undefined, 10)
      for (const change of ['retry', 'discard'] as const) {
        const step = await leased(world, { kind: change })
        assert.equal(await world.store.failed.retry(first, RETRIED), true)
        bad.add('a')
        await world.drain(reader)
        await world.database.sameTime()
        assert.equal(await world.store.failed[change](first, { actor: 'ada', action: change }, step), false)
        assert.deepEqual(await world.store.failed.seqs({}, undefined, 10), [first, second])
        assert.equal((await operation(world, step.id)).done, 0)
      }
      // The other message still belongs to it.
      const step = await leased(world)
      assert.equal(await world.store.failed.retry(second, RETRIED, step), true)
    },
  },
  {
    name: 'ages become times when an operation begins',
    run: async (world) => {
      await failedOnes(world, ['a'])
      const where = { newerThanMs: 60_000, type: 'ping', consumer: 'billing' } as const
      const young = await world.store.operations.begin(draft({ where }), BEGUN)
      const { since, until, ...others } = young.where
      assert.deepEqual(others, { type: 'ping', consumer: 'billing' })
      assert.equal(young.total, 1)
      assert.equal(until, undefined)
      assert.ok((since ?? 0) < young.createdAt)
      const old = await world.store.operations.begin(draft({ where: { olderThanMs: 60_000 } }), BEGUN)
      assert.deepEqual([old.total, old.where.since], [0, undefined])
      assert.ok((old.where.until ?? 0) >= (since ?? 0))
    },
  },
  {
    name: 'times select failed and sent messages, the first one included, the last one not',
    run: async (world) => {
      await failedOnes(world, ['a'])
      await kept(world, [['s', 'default']])
      const { failed, sent } = world.store
      const [{ failedAt } = { failedAt: new Date(0) }] = await failed.list({ limit: 1 })
      const [{ sentAt } = { sentAt: new Date(0) }] = await sent.list({ limit: 1 })
      for (const [at, count] of [
        [failedAt, (times: object) => failed.count(times)],
        [sentAt, async (times: object) => (await sent.seqs(times, undefined, 9)).length],
      ] as const) {
        const next = new Date(at.getTime() + 1)
        assert.equal(await count({ since: at }), 1)
        assert.equal(await count({ since: next }), 0)
        assert.equal(await count({ until: at }), 0)
        assert.equal(await count({ until: next }), 1)
        assert.equal(await count({ since: at, until: next }), 1)
      }
    },
  },
  {
    name: 'an operation on sent messages counts those of its relay',
    run: async (world) => {
      await kept(world, [
        ['a', 'default'],
        ['b', 'partners'],
        ['c', 'default'],
      ])
      const begun = await world.store.operations.begin(draft({ kind: 'republish', where: { relay: 'default' } }), BEGUN)
      const seqs = await world.store.sent.seqs({ relay: 'default' }, undefined, 9)
      assert.deepEqual([begun.kind, begun.total, begun.upTo], ['republish', 2, seqs[1]])
    },
  },
  {
    name: 'the same operation, begun again, is returned as it is',
    run: async (world) => {
      await failedOnes(world, ['a'])
      const same = draft()
      const first = await world.store.operations.begin(same, BEGUN)
      await failedOnes(world, ['b'])
      assert.deepEqual(await world.store.operations.begin(same, { ...BEGUN, actor: 'bob' }), first)
      assert.equal((await audited(world, same.id)).length, 1)
    },
  },
  {
    name: 'of several that begin the same operation at once, one does',
    run: async (world) => {
      await failedOnes(world, ['a'])
      const same = draft()
      const begun = await Promise.all([1, 2, 3, 4].map(() => world.store.operations.begin(same, BEGUN)))
      assert.deepEqual(new Set(begun.map(({ id, total }) => `${id} ${total}`)), new Set([`${same.id} 1`]))
      assert.equal((await world.store.operations.list(undefined, 10)).length, 1)
      assert.equal((await audited(world, same.id)).length, 1)
    },
  },
  {
    name: 'operations are listed from the newest to the oldest, page by page',
    run: async (world) => {
      const ids: string[] = []
      for (let n = 0; n < 5; n++) ids.push((await world.store.operations.begin(draft(), BEGUN)).id)
      const page = async (before: string | undefined): Promise<readonly string[]> =>
        (await world.store.operations.list(before, 2)).map(({ id }) => id)
      assert.deepEqual(await page(undefined), [ids[4], ids[3]])
      assert.deepEqual(await page(ids[3]), [ids[2], ids[1]])
      assert.deepEqual(await page(ids[1]), [ids[0]])
      assert.deepEqual(await page(ids[0]), [])
      assert.equal(await world.store.operations.get('nobody'), undefined)
    },
  },
  {
    name: 'any text of an operation comes back as it was',
    run: async (world) => {
      const audit = { actor: ODD, action: 'begin', note: `${ODD}${'x'.repeat(10_000)}` } as const
      const begun = await world.store.operations.begin(draft({ where: { type: ODD, reason: 'a' } }), audit)
      const found = await operation(world, begun.id)
      assertTexts(found.actor, audit.actor)
      assertTexts(found.note, audit.note)
      assertTexts(found.kind === 'retry' ? found.where.type : '', ODD)
      assert.equal(await world.store.operations.get(`${ODD}${'y'.repeat(200)}`), undefined)
      const [[, actor, note] = []] = await audited(world, begun.id)
      assertTexts(String(actor), audit.actor)
      assertTexts(String(note), audit.note)
    },
  },
]
