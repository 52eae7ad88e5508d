import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import { numberOf } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { type AnyStore, assertOutcome, assertRejects, ping } from '../world.ts'
import { audits, BY, failedOne, failedOnes, picky } from './failed-world.ts'

/** The same store, but for one row of it a retry does not work. */
function withBadRow(store: AnyStore, bad: string): AnyStore {
  const retry: AnyStore['failed']['retry'] = (seq, audit, step) =>
    seq === bad ? Promise.reject(new Error('bad row')) : store.failed.retry(seq, audit, step)
  return altered(store, { failed: { retry } })
}

/** The same store, and something that happens after each retry. */
function afterRetry(store: AnyStore, happens: () => Promise<void>): AnyStore {
  const retry: AnyStore['failed']['retry'] = async (seq, audit, step) => {
    const there = await store.failed.retry(seq, audit, step)
    await happens()
    return there
  }
  return altered(store, { failed: { retry } })
}

const single: readonly Case[] = [
  {
    name: 'C10: a retry or a discard is recorded in the audit with its actor',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      await reader.hapax.failed.retry((await failedOne(reader.hapax, 'a')).seq, BY)
      await reader.hapax.failed.discard((await failedOne(reader.hapax, 'b')).seq, { actor: 'bob' })
      assert.deepEqual(await audits(reader.hapax, 'a'), [['retry', 'ada', 'because']])
      assert.deepEqual(await audits(reader.hapax, 'b'), [['discard', 'bob', null]])
      await world.assertPlaces('b', ['audit', 'receipt'])
    },
  },
  {
    name: 'a retry begins to count attempts anew',
    run: async (world) => {
      const attempts: number[] = []
      const reader = world.reader(({ attempt }) => {
        attempts.push(attempt)
        throw new Error('no')
      })
      await reader.deliver('a')
      await world.drain(reader)
      await reader.hapax.failed.retry((await failedOne(reader.hapax, 'a')).seq)
      await world.drain(reader)
      assert.deepEqual(attempts, [1, 2, 3, 1, 2, 3])
    },
  },
  ...(['none', 'wait'] as const).map(
    (order): Case => ({
      name: `C10: a message that fails again after a retry has the seq that it had, with order '${order}'`,
      run: async (world) => {
        const reader = picky(world, new Set(['a', 'b']), { receive: 'store', order })
        for (const id of ['a', 'b']) await reader.deliver(id, { key: id })
        await world.drain(reader)
        const { seq } = await failedOne(reader.hapax, 'a')
        for (let time = 0; time < 2; time++) {
          await reader.hapax.failed.retry(seq)
          await world.drain(reader)
          assert.equal((await failedOne(reader.hapax, 'a')).seq, seq)
        }
        assert.equal((await reader.hapax.failed.get(seq))?.message.id, 'a')
        assert.equal(await reader.hapax.failed.count(), 2)
      },
    }),
  ),
  {
    name: 'a message whose number was given to another one meanwhile fails under a new one',
    needs: ['setting seq'],
    run: async (world) => {
      const bad = new Set(['a', 'b'])
      const reader = picky(world, bad)
      await reader.deliver('a')
      const { seq } = await failedOne(reader.hapax, 'a')
      await reader.hapax.failed.retry(seq)
      await world.database.setSeq(numberOf(seq))
      await reader.deliver('b')
      const other = await failedOne(reader.hapax, 'b')
      assert.equal(numberOf(other.seq), numberOf(seq))
      await world.drain(reader)
      assert.notEqual(numberOf((await failedOne(reader.hapax, 'a')).seq), numberOf(seq))
      assert.equal((await failedOne(reader.hapax, 'b')).seq, other.seq)
    },
  },
  {
    name: 'an edit runs other data under a new id, once',
    run: async (world) => {
      const seen: unknown[] = []
      const bad = new Set(['a'])
      const reader = world.reader(async (ctx, data) => {
        if (bad.has(ctx.message.id)) throw new Permanent('bad')
        seen.push([ctx.message.source, ctx.message.key, ctx.message.causationId, ctx.message.correlationId, data])
        await world.database.effect(ctx.tx, ctx.message.id)
      })
      await reader.deliver('a', { key: 'k', correlationId: 'c', headers: { h: '1' } })
      const { seq } = await failedOne(reader.hapax, 'a')
      const { id } = await reader.hapax.failed.edit(seq, { n: 2 }, { by: BY })
      await world.assertPlaces(id, ['inbox', 'receipt'])
      await world.drain(reader)
      assert.deepEqual(seen, [['/sender', 'k', 'a', 'c', { n: 2 }]])
      await world.assertEffects([id])
      await world.assertPlaces(id, ['receipt'])
      await world.assertPlaces('a', ['audit', 'failed', 'receipt'])
      assert.deepEqual(await audits(reader.hapax, 'a'), [['edit', 'ada', 'because']])
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assertOutcome(await reader.deliver(id), 'duplicate')
    },
  },
  {
    name: 'an edit may give a message another type, with the same data',
    run: async (world) => {
      const seen: unknown[] = []
      const reader = world.reader(async (ctx, data) => void seen.push([ctx.message.id, ctx.message.type, data]))
      await reader.consumer.handle(ping('a', { type: 'the-name-of-a-queue' }))
      const { seq, message } = await failedOne(reader.hapax, 'a')
      const same = { id: 'b', exact: true }
      await assertRejects(reader.hapax.failed.edit(seq, message.data, { ...same, type: '' }), 'invalid-option')
      await reader.hapax.failed.edit(seq, message.data, { ...same, type: 'ping' })
      await world.drain(reader)
      assert.deepEqual(seen, [['b', 'ping', { n: 1 }]])
      assertOutcome(await reader.deliver('b'), 'duplicate')
    },
  },
  {
    name: 'an edited message stays as replaced, and is not decided about again',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      const { failed } = reader.hapax
      const { seq } = await failedOne(reader.hapax, 'a')
      const { id } = await failed.edit(seq, { n: 2 })
      assert.equal((await failed.get(seq))?.replacedBy, id)
      assert.deepEqual(await failed.list(), [])
      assert.equal(await failed.count(), 0)
      assert.deepEqual(
        (await failed.list({ replaced: true })).map(({ message }) => message.id),
        ['a'],
      )
      await assertRejects(failed.edit(seq, { n: 3 }), 'not-found')
      await assertRejects(failed.retry(seq), 'not-found')
      assert.deepEqual(await failed.retryAll({ replaced: true }), { done: 0, gone: 1, errors: 0, stopped: false })
      await failed.discard(seq)
      assert.equal(await failed.get(seq), undefined)
      await world.drain(reader)
      await world.assertEffects([`${id} 2`])
    },
  },
  {
    name: 'an edit under an id that was taken before is a conflict and changes nothing',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      await reader.deliver('used')
      const { seq } = await failedOne(reader.hapax, 'a')
      await assertRejects(reader.hapax.failed.edit(seq, { n: 2 }, { id: 'used' }), 'conflict')
      await world.assertPlaces('a', ['failed', 'receipt'])
      await world.assertPlaces('used', ['receipt'])
      assert.deepEqual(await reader.hapax.failed.edit(seq, { n: 2 }, { id: 'new' }), { id: 'new' })
    },
  },
  {
    name: 'an edit keeps what the data is: a text, JSON, or bytes',
    run: async (world) => {
      const got: unknown[] = []
      const reader = world.reader(({ message }, data: unknown) => {
        if (message.causationId === undefined) throw new Permanent('no')
        got.push(data, message.datacontenttype)
      })
      const types = { note: 'text/plain', quoted: 'application/json', photo: 'image/png' }
      const edits = { note: '"new"', quoted: '"new"', photo: new Uint8Array([1, 2]) }
      for (const [id, datacontenttype] of Object.entries(types)) {
        await reader.consumer.handle(ping(id, { data: '"old"', datacontenttype }))
      }
      for (const { seq, message } of await reader.hapax.failed.list()) {
        await reader.hapax.failed.edit(seq, Object.entries(edits).find(([id]) => id === message.id)?.[1])
      }
      await world.drain(reader)
      const pairs = [0, 2, 4].map((at) => [got[at + 1], got[at]])
      assert.deepEqual(Object.fromEntries(pairs), {
        'text/plain': '"new"',
        'application/json': '"new"',
        'image/png': new Uint8Array([1, 2]),
      })
    },
  },
  {
    name: 'an edit with data that is no JSON, or too large, is refused and changes nothing',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      const hapax = world.hapax({ maxMessageBytes: 1000 })
      const { seq } = await failedOne(reader.hapax, 'a')
      await assertRejects(hapax.failed.edit(seq, undefined), 'invalid-payload')
      await assertRejects(hapax.failed.edit(seq, 1n), 'invalid-payload')
      await assertRejects(hapax.failed.edit(seq, 'x'.repeat(1000)), 'too-large')
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'C10: of two concurrent edits, one finds nothing, and one message results',
    needs: ['another store'],
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      const { seq } = await failedOne(reader.hapax, 'a')
      const both = [reader.hapax, await world.rival()]
      const edited = await Promise.allSettled(both.map((hapax, n) => hapax.failed.edit(seq, { n })))
      assert.deepEqual(edited.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
      await world.drain(reader)
      assert.equal((await world.database.effects()).length, 1)
    },
  },
  {
    name: 'C10: of a retry, an edit and a discard at once one succeeds',
    needs: ['another store'],
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b', 'c', 'd'])
      const rival = await world.rival()
      for (const id of ['a', 'b', 'c', 'd']) {
        const { seq } = await failedOne(reader.hapax, id)
        const done = await Promise.allSettled([
          rival.failed.discard(seq),
          reader.hapax.failed.retry(seq),
          rival.failed.edit(seq, { n: 2 }),
        ])
        // An edit leaves the row as replaced, and that may still be discarded.
        const count = done.filter(({ status }) => status === 'fulfilled').length
        const edited = done[2]?.status === 'fulfilled' && done[0]?.status === 'fulfilled'
        assert.equal(count, edited ? 2 : 1)
      }
    },
  },
  {
    name: 'groups failed messages whose errors differ only in numbers, ids and quoted values',
    run: async (world) => {
      const reader = world.reader(({ message }) => {
        const no = message.id.length
        throw new Permanent(message.id.startsWith('a') ? `no order ${no} of "${message.id}"` : 'no such customer')
      })
      for (const id of ['a', 'aa', 'b', 'aaa']) await reader.deliver(id)
      const groups = await reader.hapax.failed.groups()
      assert.deepEqual(
        groups.map(({ count, consumer, type, reason, error }) => [count, consumer, type, reason, error.message]),
        [
          [3, 'billing', 'ping', 'permanent', 'no order 3 of "aaa"'],
          [1, 'billing', 'ping', 'permanent', 'no such customer'],
        ],
      )
      const [first] = groups
      assert.equal(first?.seq, (await failedOne(reader.hapax, 'aaa')).seq)
      assert.ok(first && first.firstAt <= first.lastAt)
      const { errorHash } = first
      assert.equal(await reader.hapax.failed.count({ errorHash }), 3)
      assert.equal((await reader.hapax.failed.groups({ errorHash })).length, 1)
      assert.equal((await reader.hapax.failed.groups({ limit: 1 })).length, 1)
    },
  },
  {
    name: 'counts failed messages by where they came from and how long ago',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { failed } = reader.hapax
      assert.equal(await failed.count(), 2)
      assert.equal(await failed.count({ origin: 'inbox', consumer: 'billing', type: 'ping', reason: 'permanent' }), 2)
      assert.equal(await failed.count({ origin: 'outbox' }), 0)
      assert.equal(await failed.count({ newerThanMs: 3_600_000 }), 2)
      assert.equal(await failed.count({ olderThanMs: 3_600_000 }), 0)
      assert.equal(await failed.count({ type: 'nothing' }), 0)
    },
  },
  {
    name: 'texts with every kind of character are kept as they are in the audit',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Permanent('bad')))
      const id = `it's "x"\\ \u0000 \u{1f600} ?$1 ${'é'.repeat(5)}`
      await reader.consumer.handle(ping(id))
      const { seq } = await failedOne(reader.hapax, id)
      await reader.hapax.failed.discard(seq, { actor: id, note: id })
      assert.deepEqual(await audits(reader.hapax, id), [['discard', id, id]])
    },
  },
]

const many: readonly Case[] = [
  {
    name: 'retries all of them, oldest first, so that a key keeps its order',
    run: async (world) => {
      const bad = new Set(['a', 'b', 'c'])
      const reader = picky(world, bad, { order: 'skip' })
      for (const id of ['a', 'b', 'c']) await reader.deliver(id, { key: 'k' })
      await world.drain(reader)
      bad.clear()
      const results: unknown[] = []
      const onResult = (each: object): unknown => results.push(each)
      const summary = await reader.hapax.failed.retryAll({ consumer: 'billing' }, { by: BY, onResult })
      assert.deepEqual(summary, { done: 3, gone: 0, errors: 0, stopped: false })
      assert.equal(results.length, 3)
      await world.drain(reader)
      assert.deepEqual(reader.calls, ['a', 'b', 'c', 'a', 'b', 'c'])
      await world.assertEffects(['a 1', 'b 1', 'c 1'])
      assert.deepEqual(await audits(reader.hapax, 'b'), [['retry', 'ada', 'because']])
    },
  },
  {
    name: 'retries what was there when it began, and not what failed meanwhile',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      // Each row that is retried fails again before the next one is looked at.
      const hapax = world.hapax({ store: afterRetry(world.store, () => world.drain(always)) })
      const always = world.reader(() => Promise.reject(new Permanent('again')), { hapax: world.hapax() })
      const summary = await hapax.failed.retryAll({ all: true })
      assert.deepEqual(summary, { done: 2, gone: 0, errors: 0, stopped: false })
      assert.equal(await reader.hapax.failed.count(), 2)
    },
  },
  {
    name: 'C12: one row that cannot be retried stops no other',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b', 'c'])
      const { seq } = await failedOne(reader.hapax, 'b')
      const hapax = world.hapax({ store: withBadRow(world.store, seq) })
      const errors: string[] = []
      const summary = await hapax.failed.retryAll(
        { all: true },
        { onResult: (each) => void (each.result === 'error' && errors.push(`${each.seq} ${each.error.message}`)) },
      )
      assert.deepEqual(summary, { done: 2, gone: 0, errors: 1, stopped: false })
      assert.deepEqual(errors, [`${seq} bad row`])
      await world.drain(reader)
      await world.assertEffects(['a 1', 'c 1'])
    },
  },
  {
    name: 'stops between two rows when aborted',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b', 'c'])
      const stop = new AbortController()
      const { signal } = stop
      const summary = await reader.hapax.failed.discardAll({ all: true }, { signal, onResult: () => stop.abort() })
      assert.deepEqual(summary, { done: 1, gone: 0, errors: 0, stopped: true })
      assert.deepEqual(
        (await reader.hapax.failed.list()).map(({ message }) => message.id),
        ['c', 'b'],
      )
    },
  },
]

export const failedStore: readonly Case[] = [...single, ...many]
