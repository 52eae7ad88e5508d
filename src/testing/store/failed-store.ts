import assert from 'node:assert/strict'
import { Permanent } from '../../core/errors.ts'
import type { FailedMessage, OutboxMessage } from '../../core/store.ts'
import type { Case } from './case.ts'
import {
  type AnyHapax,
  type AnyStore,
  assertOutcome,
  assertRejects,
  Pong,
  ping,
  type Reader,
  type ReaderOptions,
  type World,
} from './world.ts'

const BY = { actor: 'ada', note: 'because' } as const

/** A reader that fails for good at the ids in `bad`, and notes as an effect what its others carry. */
function picky(world: World, bad: Set<string>, options: ReaderOptions = {}): Reader {
  return world.reader(async (ctx, { n }) => {
    if (bad.has(ctx.message.id)) throw new Permanent(`order 4711 of "ada" is bad: ${ctx.message.id}`)
    await world.database.effect(ctx.tx, `${ctx.message.id} ${n}`)
  }, options)
}

/** Messages in failed, oldest first, and a reader that takes them from now on. */
async function failedOnes(world: World, ids: readonly string[]): Promise<{ reader: Reader; bad: Set<string> }> {
  const bad = new Set(ids)
  const reader = picky(world, bad)
  for (const id of ids) assertOutcome(await reader.deliver(id, { key: 'k' }), 'failed')
  bad.clear()
  return { reader, bad }
}

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

async function failedOne(hapax: AnyHapax, id: string): Promise<FailedMessage> {
  const found = (await hapax.failed.list()).find(({ message }) => message.id === id)
  assert.ok(found, `${id} is not in the failed store`)
  return found
}

/** The messages of the default relay that wait, in the order of seq. */
async function outbox(store: AnyStore): Promise<readonly OutboxMessage[]> {
  const lanes = Array.from({ length: 64 }, (_, lane) => lane)
  const share = { table: 'outbox', scope: 'default', types: [], lanes, limit: 1000, after: new Map() } as const
  const [look] = await store.look([share])
  return store.outboxRows((look?.entries ?? []).map(({ seq }) => seq))
}

/** Published messages of one key in the outbox. */
async function publishedOnes(world: World, ids: readonly string[]): Promise<AnyHapax> {
  const hapax = world.hapax()
  for (const id of ids) await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id }))
  return hapax
}

/** The first message of a key in the outbox is held, as after a broker refused it for good. */
async function heldOutbox(world: World): Promise<{ hapax: AnyHapax; held: FailedMessage }> {
  const hapax = await publishedOnes(world, ['a', 'b'])
  const [first] = await outbox(world.store)
  const error = { name: 'Error', message: 'too large' }
  assert.ok(await world.store.refuse({ seq: first?.seq as string, reason: 'too-large', error, hold: true }))
  return { hapax, held: await failedOne(hapax, 'a') }
}

async function audits(hapax: AnyHapax, id: string): Promise<readonly unknown[]> {
  const traces = await hapax.explain(id)
  return traces.flatMap((trace) => (trace.where === 'audit' ? [[trace.action, trace.actor, trace.note]] : []))
}

/** The same store, but for one row of it a retry does not work. */
function withBadRow(store: AnyStore, bad: string): AnyStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) =>
        name === 'failedRetry' && args[0] === bad ? Promise.reject(new Error('bad row')) : value.apply(target, args)
    },
  })
}

/** The same store, and something that happens after each retry. */
function afterRetry(store: AnyStore, happens: () => Promise<void>): AnyStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        const answer: unknown = await value.apply(target, args)
        if (name === 'failedRetry') await happens()
        return answer
      }
    },
  })
}

const single: readonly Case[] = [
  {
    name: 'C10: whoever retries or discards a message is in the audit with it',
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
  {
    name: 'an edit runs other data under an id of its own, once',
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
    name: 'C10: of two who edit at once one finds nothing, and one message comes of it',
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
      const summary = await hapax.failed.retryAll({})
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
        {},
        { onResult: (each) => void (each.result === 'error' && errors.push(`${each.seq} ${each.error.message}`)) },
      )
      assert.deepEqual(summary, { done: 2, gone: 0, errors: 1, stopped: false })
      assert.deepEqual(errors, [`${seq} bad row`])
      await world.drain(reader)
      await world.assertEffects(['a 1', 'c 1'])
    },
  },
  {
    name: 'stops between two rows when it is told to',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b', 'c'])
      const stop = new AbortController()
      const { signal } = stop
      const summary = await reader.hapax.failed.discardAll({}, { signal, onResult: () => stop.abort() })
      assert.deepEqual(summary, { done: 1, gone: 0, errors: 0, stopped: true })
      assert.deepEqual(
        (await reader.hapax.failed.list()).map(({ message }) => message.id),
        ['c', 'b'],
      )
    },
  },
]

const keys: readonly Case[] = [
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
      const seq = await world.store.inboxSeq('billing', held.message.messageKey)
      await reader.hapax.failed.retry(held.seq, BY)
      assert.equal(await world.store.inboxSeq('billing', held.message.messageKey), seq)
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
    name: 'a held message that is discarded lets its key go on and stays gone',
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
    name: 'a key that is released goes on without its message, which stays in failed',
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

const outgoing: readonly Case[] = [
  {
    name: 'a message that the broker refused for good holds its key in the outbox',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      assert.deepEqual([held.origin, held.consumer, held.held, held.reason], ['outbox', 'default', true, 'too-large'])
      const [key] = await hapax.keys.list()
      assert.deepEqual(
        [key?.origin, key?.scope, key?.key, key?.id, key?.failedSeq, key?.waiting],
        ['outbox', 'default', 'key 1', 'a', held.seq, 1],
      )
      const { relays, outbox: all, oldestOutboxAt } = await hapax.status()
      assert.deepEqual([relays[0]?.relay, relays[0]?.waiting, relays[0]?.held, relays[0]?.failed], ['default', 1, 1, 1])
      assert.deepEqual([all, oldestOutboxAt?.getTime()], [2, relays[0]?.oldestAt?.getTime()])
    },
  },
  {
    name: 'a held message of the outbox is retried, or edited, in its place',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.failed.retry(held.seq)
      const [first] = await outbox(world.store)
      assert.deepEqual([first?.message.id, first?.attempts], ['a', 0])
      assert.deepEqual(await hapax.keys.list(), [])
      const error = { name: 'Error', message: 'too large' }
      await world.store.refuse({ seq: first?.seq as string, reason: 'too-large', error, hold: true })
      const { id } = await hapax.failed.edit((await failedOne(hapax, 'a')).seq, { n: 2 })
      const rows = await outbox(world.store)
      assert.deepEqual(
        rows.map(({ seq, message }) => [seq, message.id, message.key, Buffer.from(message.data).toString()]),
        [
          [first?.seq, id, 'key 1', '{"n":2}'],
          [rows[1]?.seq, 'b', 'key 1', '{"n":1}'],
        ],
      )
      await world.assertPlaces(id, ['outbox'])
    },
  },
  {
    name: 'a key of the outbox that is released goes on, and its message can be retried at the end',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.keys.release({ origin: 'outbox', scope: 'default', key: 'key 1' }, BY)
      assert.deepEqual(await world.database.outbox(), ['b'])
      await world.assertPlaces('a', ['audit', 'failed'])
      await hapax.failed.retry(held.seq)
      assert.deepEqual(await world.database.outbox(), ['b', 'a'])
    },
  },
  {
    name: 'a held message of the outbox that is discarded is never sent',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.failed.discard(held.seq)
      assert.deepEqual(await world.database.outbox(), ['b'])
      await world.assertPlaces('a', ['audit'])
    },
  },
  {
    name: 'D31: a published message that was kept is published again under its own id',
    run: async (world) => {
      const hapax = await publishedOnes(world, ['a', 'b', 'c'])
      const rows = await outbox(world.store)
      await world.store.confirm(
        rows.map(({ seq }) => seq),
        true,
      )
      assert.deepEqual(await world.database.outbox(), [])
      const sent = await hapax.sent.list({ relay: 'default', type: 'pong' })
      assert.deepEqual(
        sent.map(({ message }) => message.id),
        ['c', 'b', 'a'],
      )
      assert.deepEqual(sent[2]?.message, rows[0]?.message)
      await hapax.sent.republish(sent[1]?.seq as string, BY)
      assert.deepEqual(await world.database.outbox(), ['b'])
      assert.deepEqual(await audits(hapax, 'b'), [['republish', 'ada', 'because']])
      const [again] = await outbox(world.store)
      assert.deepEqual(again?.message, sent[1]?.message)
      assert.deepEqual(await hapax.sent.republishAll({ relay: 'default' }, { limit: 2 }), {
        done: 2,
        gone: 0,
        errors: 0,
        stopped: false,
      })
      assert.deepEqual(await world.database.outbox(), ['b', 'a', 'b'])
      await assertRejects(hapax.sent.republish('999999'), 'not-found')
      assert.deepEqual(
        (await hapax.sent.list({ before: sent[0]?.seq as string, limit: 1 })).map(({ seq }) => seq),
        [sent[1]?.seq],
      )
      assert.deepEqual(await hapax.sent.list({ relay: 'nowhere' }), [])
    },
  },
]

const known: readonly Case[] = [
  {
    name: 'lists consumers with their types, and forgets one on request; its messages stay',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      await world.store.subscribe('billing', ['pong', 'ping'], true)
      await world.store.subscribe('audit', ['ping'], false)
      assert.deepEqual(await reader.hapax.consumers.list(), [
        { name: 'audit', types: ['ping'], ordered: false },
        { name: 'billing', types: ['ping', 'pong'], ordered: true },
      ])
      await reader.hapax.consumers.remove('billing', BY)
      assert.deepEqual(
        (await reader.hapax.consumers.list()).map(({ name }) => name),
        ['audit'],
      )
      await assertRejects(reader.hapax.consumers.remove('billing'), 'not-found')
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'a relay keeps the destination that was recorded first, until somebody moves it',
    run: async (world) => {
      const hapax = world.hapax()
      assert.equal(await world.store.recordRelay('default', 'rabbit: shop'), 'rabbit: shop')
      assert.equal(await world.store.recordRelay('default', 'nats: shop'), 'rabbit: shop')
      await hapax.relays.move('default', 'nats: shop', BY)
      assert.equal(await world.store.recordRelay('default', 'rabbit: shop'), 'nats: shop')
      assert.deepEqual(
        (await hapax.relays.list()).map(({ relay, destination }) => [relay, destination]),
        [['default', 'nats: shop']],
      )
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

export const failedStore: readonly Case[] = [...single, ...many, ...keys, ...outgoing, ...known]
