import assert from 'node:assert/strict'
import type { Case } from '../case.ts'
import { subscription, TestDestination } from '../doubles.ts'
import { assertRejects, Ping, ping } from '../world.ts'

/** Consumers that are switched off in one process. */
export const enabled: readonly Case[] = [
  {
    name: 'a consumer that is not enabled takes nothing, and its messages wait for a process in which it is',
    needs: ['another store'],
    run: async (world) => {
      const there = world.reader(undefined, { hapax: await world.rival({ delivery: 'local' }), receive: 'store' })
      await there.deliver('a')
      await world.drain(there)
      const here = world.reader(undefined, { hapax: world.hapax({ delivery: 'local' }), enabled: false })
      const topic = new TestDestination()
      const worker = await world.worker({ hapax: here.hapax }, { consume: [here.consumer], relays: { other: topic } })
      assert.deepEqual(worker.serving, {
        consumers: [],
        disabled: ['billing'],
        relays: [{ name: 'other', destination: topic.name }],
      })
      assert.ok(worker.ready)
      await there.deliver('b')
      // It was subscribed by the other process, so local messages are stored for it.
      await here.hapax.transaction((tx) => here.hapax.publish(tx, Ping, { n: 1 }, { id: 'c' }))
      await worker.drain()
      assert.deepEqual(here.calls, [])
      assert.deepEqual(
        (await here.hapax.status()).consumers.map(({ consumer, waiting }) => [consumer, waiting]),
        [['billing', 2]],
      )
      await world.drain(there)
      assert.deepEqual([...there.calls].sort(), ['a', 'b', 'c'])
    },
  },
  {
    name: 'a consumer that is not enabled refuses deliveries, and writes nothing',
    run: async (world) => {
      const reader = world.reader(undefined, { enabled: false })
      await assertRejects(reader.deliver('a'), 'disabled')
      const leased = reader.hapax.leased('sms', { enabled: false }).on(Ping, () => {})
      await assertRejects(leased.handle(ping('a')), 'disabled')
      await world.assertPlaces('a', [])
    },
  },
  {
    name: 'a consumer that was never enabled is not subscribed, and gets no local messages',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const reader = world.reader(undefined, { hapax, enabled: false })
      const queue = { ...subscription([], false).subscription, open: () => assert.fail('it was opened') }
      const worker = await world.worker({ hapax }, { consume: [reader.consumer.from(queue)] })
      await worker.drain()
      assert.deepEqual(await hapax.consumers.list(), [])
      await assertRejects(
        hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 })),
        'no-consumer',
      )
      await worker.stop()
      assert.deepEqual(reader.calls, [])
    },
  },
]
