import assert from 'node:assert/strict'
import { BY, failedOnes } from './admin/failed-world.ts'
import type { Case } from './case.ts'
import { assertRejects } from './world.ts'

export const known: readonly Case[] = [
  {
    name: 'lists consumers with their types, and forgets one on request; its messages stay',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      await world.store.subscriptions.add('billing', ['pong', 'ping'], true)
      await world.store.subscriptions.add('audit', ['ping'], false)
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
    name: 'a relay keeps the destination that was recorded first, until it is moved',
    run: async (world) => {
      const hapax = world.hapax()
      assert.equal(await world.store.outbox.recordRelay('default', 'rabbit: shop'), 'rabbit: shop')
      assert.equal(await world.store.outbox.recordRelay('default', 'nats: shop'), 'rabbit: shop')
      await hapax.relays.move('default', 'nats: shop', BY)
      assert.equal(await world.store.outbox.recordRelay('default', 'rabbit: shop'), 'nats: shop')
      assert.deepEqual(
        (await hapax.relays.list()).map(({ relay, destination }) => [relay, destination]),
        [['default', 'nats: shop']],
      )
    },
  },
]
