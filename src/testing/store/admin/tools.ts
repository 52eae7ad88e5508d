import assert from 'node:assert/strict'
import { type Isolation, Permanent } from '../../../base/index.ts'
import { defineMessage, unpackAttributes } from '../../../message/index.ts'
import { assertRefused, toolCalls } from '../../tool-inputs.ts'
import type { Case } from '../case.ts'
import { outbox } from '../outbox/outgoing.ts'
import { assertRejects } from '../world.ts'
import { failedOne, failedOnes } from './failed-world.ts'

const Noted = defineMessage<{ readonly n: number; readonly hostile: string }>('noted')

/** Texts that mean something to a database, a terminal or JavaScript. */
const HOSTILE_TEXTS = [
  `x'; delete from effects; --`,
  `"'\`\\\\'; $1 ? :a @b {} %s %00`,
  `\\'; delete from effects; --`,
  'a\0b',
  '\u0001%00\0',
  'a\u0085\u009b\u202e\u2028b\n',
  '__proto__',
  "縗\u005c'ソ表", // in GBK, Big5 and Shift JIS the second byte of some characters is a backslash
]

export const tools: readonly Case[] = [
  {
    name: 'K8: a message is found by its id, with or without its source, from any sender',
    run: async (world) => {
      const reader = world.reader()
      const uuid = '019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'
      for (const id of [uuid, uuid.toUpperCase(), 'order-17'])
        for (const source of ['/one', '/two']) await reader.deliver(id, { source })
      const found = async (...args: Parameters<typeof reader.hapax.explain>) =>
        (await reader.hapax.explain(...args)).map(({ where, source }) => `${where} ${source}`).sort()
      for (const id of [uuid, uuid.toUpperCase(), 'order-17']) {
        assert.deepEqual(await found(id), ['receipt /one', 'receipt /two'])
        assert.deepEqual(await found(id, undefined, { scan: true }), ['receipt /one', 'receipt /two'])
        assert.deepEqual(await found(id, '/two'), ['receipt /two'])
        assert.deepEqual(await found(id, '/two', { scan: true }), ['receipt /two'])
      }
      assert.deepEqual(await found('order-18'), [])
      await assertRejects(reader.hapax.explain('a', '/one', { scan: null } as never), 'invalid-option')
    },
  },
  {
    name: 'K8: a message is found by its key in every place, also in the outbox, with the trace it was published in',
    run: async (world) => {
      const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
      const hapax = world.hapax({ delivery: 'relay', source: '/rare' })
      const uuid = '019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'
      for (const id of [uuid, 'order-17'])
        await hapax.transaction((tx) => hapax.publish(tx, Noted, { n: 1, hostile: '' }, { id, traceparent }))
      const stored = world.reader(undefined, { hapax, name: 'stored', receive: 'store' })
      await stored.deliver('order-17', { source: '/rare', traceparent })
      await stored.deliver('plain', { source: '/rare' })
      const failing = world.reader(() => Promise.reject(new Permanent('no')), { hapax })
      await failing.deliver('order-17', { source: '/rare', traceparent })
      const found = async (...args: Parameters<typeof hapax.explain>) =>
        (await hapax.explain(...args)).map((each) => [each.where, 'traceparent' in each ? each.traceparent : '']).sort()
      const waits = [['outbox', traceparent]]
      const all = [['failed', traceparent], ['inbox', traceparent], ...waits, ['receipt', ''], ['receipt', '']]
      for (const scan of [false, true]) {
        assert.deepEqual(await found(uuid, undefined, { scan }), waits)
        assert.deepEqual(await found(uuid, '/rare', { scan }), waits)
        assert.deepEqual(await found('order-17', undefined, { scan }), all)
        assert.deepEqual(await found('order-17', '/rare', { scan }), all)
        assert.deepEqual(await found('order-17', '/other', { scan }), [])
        assert.deepEqual(await found('plain', undefined, { scan }), [
          ['inbox', null],
          ['receipt', ''],
        ])
      }
    },
  },
  {
    name: 'K8: a dry run of the cleanup counts page by page, and stops when aborted',
    run: async (world) => {
      const reader = world.reader()
      const ids = Array.from({ length: 1_005 }, (_, n) => `id ${n}`)
      for (let at = 0; at < ids.length; at += 201) await reader.deliverMany(ids.slice(at, at + 201))
      await world.until(async () => (await world.cleanable('billing')) === ids.length)
      const old = { consumer: 'billing', olderThanMs: 1, dryRun: true }
      const counted: number[] = []
      const all = await reader.hapax.cleanup({ ...old, onProgress: ({ receipts }) => void counted.push(receipts) })
      assert.deepEqual([all, counted], [{ receipts: 1_005 }, [1_000, 1_005]])
      const stop = new AbortController()
      const some = await reader.hapax.cleanup({ ...old, signal: stop.signal, onProgress: () => stop.abort() })
      assert.deepEqual(some, { receipts: 1_000 })
    },
  },
  {
    name: 'K18: a tool refuses input that is incomplete or ambiguous',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { seq } = await failedOne(reader.hapax, 'a')
      await assertRefused(toolCalls(reader.hapax, seq))
      for (const id of ['a', 'b']) await world.assertPlaces(id, ['failed', 'receipt'])
    },
  },
  {
    name: 'K18: everything is changed only by the word for it',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { failed } = reader.hapax
      const where = { consumer: 'billing', type: 'ping' }
      const mutable: { consumer?: string; type?: string } = { ...where, consumer: 'other' }
      const none = failed.discardAll(mutable)
      // What the caller does to its object afterwards is its own business.
      delete mutable.consumer
      assert.equal((await none).done, 0)
      assert.equal(await failed.count(), 2)
      assert.equal((await failed.discardAll({ all: true })).done, 2)
      assert.equal(await failed.count(where), 0)
    },
  },
  {
    name: 'K19: an isolation level that does not exist reaches no database',
    run: async (world) => {
      const hapax = world.hapax()
      const bad = 'serializable; delete from effects; --'
      await hapax.transaction((tx) => world.database.effect(tx, 'there'))
      for (const isolation of [bad, `read committed'`, '', null, ['serializable'], { toString: () => bad }]) {
        const level = isolation as Isolation
        await assertRejects(
          hapax.transaction(async () => assert.fail('begun'), { isolation: level }),
          'invalid-option',
        )
        assert.throws(() => hapax.consumer('a', { isolation: level }), { code: 'invalid-option' })
        assert.throws(() => hapax.leased('b', { isolation: level }), { code: 'invalid-option' })
        // Nor in another way: the code that writes it into a statement checks it again.
        const direct = world.store.transactions.run(
          { isolation: level, lockTimeoutMs: 1_000, idleTimeoutMs: 1_000 },
          { kind: 'plain' },
          async () => assert.fail('begun'),
        )
        await assertRejects(direct, 'invalid-option')
      }
      await world.assertEffects(['there'])
    },
  },
  {
    name: 'K19: whatever a text contains that a publisher may set, it is kept as it is and does nothing else',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction((tx) => world.database.effect(tx, 'there'))
      for (const [n, hostile] of HOSTILE_TEXTS.entries()) {
        const attributes = {
          subject: hostile,
          correlationId: hostile,
          causationId: hostile,
          traceparent: hostile,
          tracestate: hostile,
          headers: { plain: hostile },
        }
        const options = { id: hostile, key: hostile, ...attributes }
        await hapax.transaction((tx) => hapax.publish(tx, Noted, { n, hostile }, options))
        const [row] = (await outbox(world.store)).slice(-1)
        assert.deepEqual([row?.message.id, row?.message.key], [hostile, hostile])
        assert.partialDeepStrictEqual(unpackAttributes(row?.message as never), attributes)
        assert.deepEqual(JSON.parse(Buffer.from(row?.message.data as Uint8Array).toString()), { n, hostile })
        assert.equal((await hapax.explain(hostile, '/test')).length, 1)
      }
      await world.assertEffects(['there'])
    },
  },
]
