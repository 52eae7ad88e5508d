import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { LocalResult, LocalRow } from '../../../contracts/index.ts'
import { defineMessage, fingerprint, messageKey, unpackAttributes } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { assertOutcome, assertRejects, type Context, Ping, Pong, type Reader, type World } from '../world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

function localReader(world: World, name = 'billing', hapax = world.hapax({ delivery: 'local' })): Reader {
  return world.reader(({ tx, message }) => world.database.effect(tx, `${name} ${message.id}`), { hapax, name })
}

const levels: readonly Case[] = [
  {
    name: 'a local message is published with the transaction and handled by a worker',
    run: async (world) => {
      const { hapax, consumer } = localReader(world)
      const options = world.isolation === undefined ? {} : { isolation: world.isolation }
      const given = hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'gone' })
        throw new Error('given up')
      }, options)
      await assert.rejects(given, /given up/)
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }), options)
      await world.assertPlaces('gone', [])
      await world.assertPlaces('a', ['inbox', 'receipt'])
      await world.drain({ hapax, consumer })
      await world.assertEffects(['billing a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'a local message is delivered to every consumer of its type, once each',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const readers = [localReader(world, 'billing', hapax), localReader(world, 'stock', hapax)]
      hapax.consumer('others').on(Pong, () => {})
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      await world.assertPlaces('a', ['inbox', 'inbox', 'receipt', 'receipt'])
      for (const reader of readers) await world.drain(reader)
      await world.assertEffects(['billing a', 'stock a'])
    },
  },
  {
    name: 'an id that is published twice is one message',
    run: async (world) => {
      const reader = localReader(world)
      const { hapax } = reader
      const publish = () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      assert.deepEqual(await publish(), { id: 'a' })
      assert.deepEqual(await publish(), { id: 'a', duplicate: true })
      await world.drain(reader)
      assert.deepEqual(await publish(), { id: 'a', duplicate: true })
      await world.drain(reader)
      await world.assertEffects(['billing a'])
    },
  },
  {
    name: 'an id twice in one publishMany is one message',
    run: async (world) => {
      const reader = localReader(world)
      const { hapax } = reader
      const drafts = ['a', 'b', 'a'].map((id) => Ping.of({ n: 1 }, { id }))
      const published = await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
      assert.deepEqual(published, [{ id: 'a' }, { id: 'b' }, { id: 'a', duplicate: true }])
      await world.drain(reader)
      await world.assertEffects(['billing a', 'billing b'])
    },
  },
  {
    name: 'two transactions that publish the same id at once make one message',
    needs: ['another store'],
    run: async (world) => {
      const one = localReader(world)
      const two = localReader(world, 'billing', await world.rival({ delivery: 'local' }))
      const ids = Array.from({ length: 10 }, (_, index) => `m${index}`)
      const publishAll = ({ hapax }: Reader, order: readonly string[]) =>
        hapax.transaction((tx) =>
          hapax.publishMany(
            tx,
            order.map((id) => Ping.of({ n: 1 }, { id })),
          ),
        )
      const published = await Promise.all([publishAll(one, ids), publishAll(two, [...ids].reverse())])
      assert.equal(published.flat().filter(({ duplicate }) => duplicate).length, ids.length)
      await world.drain(one)
      await world.assertEffects(ids.map((id) => `billing ${id}`))
    },
  },
  {
    name: 'a type without a consumer is refused, and nothing is kept',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      hapax.consumer('billing').on(Ping, () => {})
      const given = hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'a' })
        await hapax.publish(tx, Pong, { n: 1 })
      })
      await assertRejects(given, 'no-consumer')
      await world.assertPlaces('a', [])
    },
  },
  {
    name: 'local messages that a transaction writes last are reported once they are committed, with their rows',
    run: async (world) => {
      await world.drain(localReader(world, 'stock'))
      const { store } = world
      const reported: (readonly LocalResult[])[] = []
      const end = async (rows: readonly LocalRow[], after: () => unknown) =>
        store.transactions.run(OPTIONS, { kind: 'plain' }, async ({ tx }) => {
          await world.database.effect(tx, 'with it')
          await after()
          return { value: 'done', writes: { local: { rows, committed: (results) => reported.push(results) } } }
        })
      const data = Buffer.from('{"n":1}')
      const key = messageKey('/test', 'a')
      const about = { source: '/test', id: 'a', type: 'ping', key: null, attributes: '{}' }
      const message = { messageKey: key, ...about, data, fingerprint: fingerprint(data) }
      const rows = [{ message, consumers: [{ name: 'billing', ordered: false }], delayMs: 0 }]
      await assert.rejects(
        end(rows, () => Promise.reject(new Error('given up'))),
        /given up/,
      )
      assert.equal(reported.length, 0)
      assert.equal(await end(rows, () => {}), 'done')
      const seqs = await Promise.all(['billing', 'stock'].map((consumer) => store.inbox.find(consumer, key)))
      const result = reported[0]?.[0]
      assert.deepEqual([reported.length, result?.consumers, result?.fresh], [1, 2, 2])
      if (result?.rows !== undefined) {
        assert.deepEqual(result.rows.map(({ seq }) => seq).sort(), seqs.sort())
        assert.deepEqual(result.rows.map(({ consumer }) => consumer).sort(), ['billing', 'stock'])
      }
      await end(rows, () => {})
      assert.deepEqual([reported[1]?.[0]?.consumers, reported[1]?.[0]?.fresh], [2, 0])
      await world.assertEffects(['with it', 'with it'])
    },
  },
  {
    name: 'local messages of one key keep their order, whether the publisher knows the consumer or not',
    run: async (world) => {
      const keyed = defineMessage<{ n: number }>('ping', { key: () => 'k' })
      const here = world.hapax({ delivery: 'local' })
      const failing = ({ message }: Context) => {
        if (message.id !== 'b') throw new Permanent('no')
      }
      const reader = world.reader(failing, { hapax: here, order: 'wait' })
      await here.transaction((tx) => here.publish(tx, keyed, { n: 1 }, { id: 'a' }))
      await world.drain(reader)
      const there = world.hapax({ delivery: 'local' })
      await there.transaction((tx) => there.publish(tx, keyed, { n: 2 }, { id: 'b' }))
      await world.drain(reader)
      const [held] = await here.keys.list()
      assert.deepEqual([held?.key, held?.id, held?.waiting], ['k', 'a', 1])
    },
  },
  {
    name: 'a consumer that only another process knows gets its messages as well',
    run: async (world) => {
      const there = localReader(world)
      await world.drain(there)
      const here = world.hapax({ delivery: 'local' })
      await here.transaction((tx) => here.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      await world.drain(there)
      await world.assertEffects(['billing a'])
    },
  },
  {
    name: 'a delivery of a type that another process of this consumer handles is kept for it',
    run: async (world) => {
      const there = world.reader()
      await world.drain(there)
      const here = world.hapax().consumer('billing')
      here.on(Pong, () => {})
      const message = { id: 'a', source: '/sender', type: 'ping', data: { n: 1 } }
      assertOutcome(await here.handle(message), 'stored')
      assertOutcome(await here.handle({ ...message, id: 'b', type: 'nobody' }), 'failed', 'unknown-type')
      await world.drain(there)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A4: what a handler publishes after its own rollback is not written',
    needs: ['ending the transaction'],
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      hapax.consumer('audit').on(Pong, () => {})
      const reader = world.reader(
        async ({ tx, publish }) => {
          await world.database.rollbackInside(tx)
          await publish(Pong, { n: 1 })
        },
        { hapax },
      )
      assertOutcome(await reader.deliver('a'), 'failed', 'broken-atomicity')
      assert.deepEqual((await world.look({ scope: 'audit', types: ['pong'] })).entries, [])
    },
  },
  {
    name: 'C14: a delayed message is not due before its time',
    run: async (world) => {
      const reader = localReader(world)
      const { hapax } = reader
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'later', delayMs: 60_000 })
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'now' })
      })
      await world.drain(reader)
      await world.assertEffects(['billing now'])
      await world.assertPlaces('later', ['inbox', 'receipt'])
    },
  },
  {
    name: 'D18: local messages are due in the order in which they were published',
    run: async (world) => {
      const { hapax } = localReader(world)
      const ids = Array.from({ length: 25 }, (_, index) => `m${index}`)
      await hapax.transaction((tx) =>
        hapax.publishMany(
          tx,
          ids.map((id) => Ping.of({ n: 1 }, { id })),
        ),
      )
      const seqs = await Promise.all(ids.map((id) => world.store.inbox.find('billing', messageKey('/test', id))))
      assert.deepEqual(await world.due(), seqs)
      assert.deepEqual(
        seqs,
        [...seqs].sort((a, b) => Number(a) - Number(b)),
      )
    },
  },
  {
    name: 'what a handler publishes names its cause',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const first = world.reader(({ publish }) => publish(Pong, { n: 1 }), { hapax })
      hapax.consumer('audit').on(Pong, () => {})
      await first.deliver('a', { correlationId: 'checkout 7' })
      const [entry] = (await world.look({ scope: 'audit', types: ['pong'] })).entries
      assert.ok(entry)
      const stored = await world.waiting(entry.seq)
      assert.ok(stored)
      const { causationId, correlationId, source, key } = unpackAttributes(stored)
      assert.deepEqual([causationId, correlationId, source, key], ['a', 'checkout 7', '/test', 'key 1'])
    },
  },
  {
    name: 'a chain of local messages runs to its end',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const reader = world.reader(
        async ({ tx, publish }, { n }) => {
          await world.database.effect(tx, `step ${n}`)
          if (n < 5) await publish(Ping, { n: n + 1 })
        },
        { hapax },
      )
      const worker = await world.worker(reader)
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
      await worker.drain()
      await world.assertEffects([1, 2, 3, 4, 5].map((n) => `step ${n}`))
    },
  },
]

export const local: readonly Case[] = [...atEachLevel(levels), ...once]
