import assert from 'node:assert/strict'
import type { Trace } from '../../../contracts/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import { assertOutcome, assertRejects, Pong } from '../world.ts'

const ownOnly: Case['skip'] = ({ ownTransactions }) =>
  ownTransactions ? undefined : 'hapax has its own connection: there are no transactions of the user to join'

const levels: readonly Case[] = [
  {
    name: 'what a handler publishes commits with its effect and its receipt',
    connection: true,
    run: async (world) => {
      const ids: string[] = []
      const reader = world.reader(async ({ tx, message, publish, attempt }) => {
        await world.database.effect(tx, message.id)
        for (const n of [1, 2, 3]) ids.push((await publish(Pong, { n })).id)
        if (attempt === 1) throw new Error('not yet')
      })
      assertOutcome(await reader.deliver('a'), 'retrying')
      assert.deepEqual(await world.database.outbox(), [])
      await world.drain(reader)
      await world.assertEffects(['a'])
      assert.deepEqual(await world.database.outbox(), ids.slice(3))
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assert.equal((await world.database.outbox()).length, 3)
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'I4: hapax.transaction publishes when it commits and not when it throws',
    connection: true,
    run: async (world) => {
      const hapax = world.hapax()
      const { id } = await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }))
      const given = hapax.transaction(async (tx) => {
        await hapax.publish(tx, Pong, { n: 2 })
        throw new Error('given up')
      })
      await assert.rejects(given)
      assert.deepEqual(await world.database.outbox(), [id])
      await world.assertPlaces(id, ['outbox'])
    },
  },
  {
    name: 'A1: what is published with a commit that had no reply is sent once',
    run: async (world) => {
      for (const cut of ['before', 'after'] as const) {
        const hapax = world.hapax({ store: lossy(world.store, cut) })
        const reader = world.reader(({ publish }) => publish(Pong, { n: 1 }, { id: cut }), { hapax, name: cut })
        assertOutcome(await reader.deliver(cut), 'processed')
      }
      assert.deepEqual(await world.database.outbox(), ['before', 'after'])
    },
  },
  {
    name: 'D7: an id of the publisher is kept, others are minted once and rise',
    run: async (world) => {
      const hapax = world.hapax()
      const ids = await hapax.transaction(async (tx) => {
        const own = await hapax.publish(tx, Pong, { n: 1 }, { id: 'my own' })
        const minted = await hapax.publishMany(tx, [Pong.of({ n: 2 }), Pong.of({ n: 3 })])
        return [own, ...minted].map(({ id }) => id)
      })
      assert.equal(ids[0], 'my own')
      assert.ok((ids[1] as string) < (ids[2] as string))
      assert.deepEqual(await world.database.outbox(), ids)
    },
  },
  {
    name: 'D19: rows of one transaction keep the order in which they were published',
    run: async (world) => {
      const hapax = world.hapax()
      const ids = Array.from({ length: 50 }, (_, index) => `p${index}`)
      await hapax.transaction(async (tx) => {
        for (const id of ids.slice(0, 20)) await hapax.publish(tx, Pong, { n: 1 }, { id })
        await hapax.publishMany(
          tx,
          ids.slice(20, 40).map((id) => Pong.of({ n: 1 }, { id })),
        )
        for (const id of ids.slice(40)) await hapax.publish(tx, Pong, { n: 1 }, { id })
      })
      assert.deepEqual(await world.database.outbox(), ids)
    },
  },
  {
    name: 'refuses to publish with what is no open transaction',
    connection: true,
    run: async (world) => {
      const hapax = world.hapax()
      for (const tx of [undefined, null, {}, 'tx', 7]) {
        await assertRejects(hapax.publish(tx, Pong, { n: 1 }), 'not-in-transaction')
      }
      const settled = await hapax.transaction(async (tx) => ({ tx }))
      await assertRejects(hapax.publish(settled.tx, Pong, { n: 1 }), 'transaction-closed')
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'refuses to publish on a client that has not begun a transaction',
    connection: true,
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      await world.database.notBegun((tx) => assertRejects(hapax.publish(tx, Pong, { n: 1 }), 'not-in-transaction'))
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: "A17: publishes at once in the user's own transaction, and goes with it",
    connection: true,
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const given = world.database.own(async (tx) => {
        await world.database.effect(tx, 'gone')
        await hapax.publish(tx, Pong, { n: 1 })
        throw new Error('given up')
      })
      await assert.rejects(given, /given up/)
      assert.deepEqual(await world.database.outbox(), [])
      const { id } = await world.database.own(async (tx) => {
        await world.database.effect(tx, 'kept')
        return hapax.publish(tx, Pong, { n: 1 })
      })
      assert.deepEqual(await world.database.outbox(), [id])
      await world.assertEffects(['kept'])
    },
  },
  {
    name: 'A17: a publish at once is undone with its savepoint, a buffered one belongs to the whole transaction',
    connection: true,
    needs: ['savepoints'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, publish }) => {
        await world.database.undone(tx, async () => {
          await publish(Pong, { n: 1 }, { id: 'at once', now: true })
          await publish(Pong, { n: 2 }, { id: 'buffered' })
        })
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      assert.deepEqual(await world.database.outbox(), ['buffered'])
    },
  },
  {
    name: 'D14: a publish that is refused leaves the transaction usable',
    run: async (world) => {
      const hapax = world.hapax({ maxMessageBytes: 1000 })
      const ids = await hapax.transaction(async (tx) => {
        await assertRejects(hapax.publish(tx, Pong, { n: 1 }, { subject: 'x'.repeat(1000) }), 'too-large')
        await assertRejects(hapax.publish(tx, Pong, 1n as never), 'invalid-payload')
        await assertRejects(hapax.publish(tx, Pong, { n: 1 }, { id: '' }), 'invalid-id')
        await assertRejects(hapax.publish(tx, Pong, { n: 1 }, { delayMs: -1 }), 'invalid-option')
        return [(await hapax.publish(tx, Pong, { n: 1 })).id]
      })
      assert.deepEqual(await world.database.outbox(), ids)
    },
  },
  {
    name: 'counts and traces what waits in the outbox',
    run: async (world) => {
      const hapax = world.hapax()
      const { at, tables, ...empty } = await hapax.status()
      assert.deepEqual(empty, { consumers: [], relays: [], failed: [], workers: [], paused: [] })
      assert.ok(Math.abs(at.getTime() - Date.now()) < 60_000)
      assert.equal(tables.length, 8)
      await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id: 'a', relay: 'partners' }))
      const [relay] = (await hapax.status()).relays
      assert.deepEqual([relay?.relay, relay?.waiting, relay?.estimated], ['partners', 1, false])
      assert.ok(Math.abs(Number(relay?.oldestAt) - Date.now()) < 60_000)
      const [trace] = (await hapax.explain('a')) as [Trace & { where: 'outbox' }]
      assert.deepEqual([trace.where, trace.relay, trace.source, trace.type], ['outbox', 'partners', '/test', 'pong'])
      assert.deepEqual(await hapax.explain('a', '/other'), [])
    },
  },
]

export const publishing: readonly Case[] = [...atEachLevel(levels), ...once]
