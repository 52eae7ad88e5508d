import assert from 'node:assert/strict'
import type { Case } from '../case.ts'
import { assertRejects, Ping, type Reader, type World } from '../world.ts'

/** A reader of local messages that wants order, or does not say so. */
function localReader(world: World, order?: 'wait'): Reader {
  const options = order === undefined ? {} : { order, receive: 'store' as const }
  return world.reader(undefined, { hapax: world.hapax({ delivery: 'local' }), ...options })
}

/** The ids of what waits for billing, in the order in which it takes effect. */
async function inOrder(world: World): Promise<readonly string[]> {
  const seqs = await world.due()
  const opening = { kind: 'claim', seqs, locked: 'skip' } as const
  return world.store.transactions.run(
    { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 },
    opening,
    async ({ claimed }) => ({
      value: [...claimed.values()].map(({ message }) => message.id),
      writes: undefined,
    }),
  )
}

export const keptOrder: readonly Case[] = [
  {
    name: 'K5: a process without order does not turn it off for others',
    run: async (world) => {
      await world.store.subscriptions.add('billing', ['ping'], true)
      await world.store.subscriptions.add('billing', ['ping', 'pong'], false)
      const listed = await world.store.subscriptions.list()
      assert.deepEqual(
        listed.map(({ type, ordered }) => [type, ordered]),
        [
          ['ping', true],
          ['pong', false],
        ],
      )
      await world.store.subscriptions.add('billing', ['pong'], true)
      assert.ok((await world.store.subscriptions.list()).every(({ ordered }) => ordered))
    },
  },
  {
    name: 'K5: a worker without the order that another one keeps does not start',
    run: async (world) => {
      await world.worker(localReader(world, 'wait'))
      const orderless = localReader(world)
      await assertRejects(orderless.hapax.worker({ consume: [orderless.consumer] }).start(), 'order-mismatch')
      assert.deepEqual(
        (await world.store.subscriptions.list()).map(({ ordered }) => ordered),
        [true],
      )
    },
  },
  {
    name: 'K5: what a process without order publishes locally is stored with the order that is recorded',
    run: async (world) => {
      await world.store.subscriptions.add('billing', ['ping'], true)
      const { hapax } = localReader(world)
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { key: 'k' }))
      assert.deepEqual(
        (await world.look()).entries.map(({ key }) => key),
        ['k'],
      )
    },
  },
  {
    name: 'K5: a local publish with an id of its own, or at once, does not overtake earlier ones of its key',
    run: async (world) => {
      const { hapax } = localReader(world, 'wait')
      const ids = await hapax.transaction(async (tx) => {
        const first = await hapax.publish(tx, Ping, { n: 1 }, { key: 'k' })
        const second = await hapax.publish(tx, Ping, { n: 2 }, { key: 'k', id: 'own' })
        const third = await hapax.publish(tx, Ping, { n: 3 }, { key: 'k' })
        const fourth = await hapax.publish(tx, Ping, { n: 4 }, { key: 'k', now: true })
        assert.deepEqual(second, { id: 'own' })
        return [first, second, third, fourth].map(({ id }) => id)
      })
      assert.deepEqual(await inOrder(world), ids)
    },
  },
  {
    name: 'K5: a savepoint that is undone takes what was published in it, and nothing else',
    needs: ['savepoints'],
    run: async (world) => {
      const { hapax } = localReader(world, 'wait')
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { key: 'k' })
        await world.database.undone(tx, () => hapax.publish(tx, Ping, { n: 2 }, { key: 'k', id: 'undone' }))
      })
      assert.equal((await world.look()).entries.length, 1)
      await world.assertPlaces('undone', [])
    },
  },
  {
    name: 'K5: a publish at once to a relay is refused if an earlier one of its key is written last',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { key: 'k', id: 'first' })
        await assertRejects(hapax.publish(tx, Ping, { n: 2 }, { key: 'k', now: true }), 'invalid-option')
        await hapax.publish(tx, Ping, { n: 3 }, { key: 'other', id: 'other', now: true })
        await hapax.publish(tx, Ping, { n: 4 }, { key: 'k', id: 'third' })
      })
      assert.deepEqual(await world.database.outbox(), ['other', 'first', 'third'])
    },
  },
]
