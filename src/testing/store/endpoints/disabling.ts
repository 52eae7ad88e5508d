import assert from 'node:assert/strict'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { gate } from '../world.ts'
import { CONSUMER, DELIVERED, publish, register, TestReceivers } from './world.ts'

/** Longer than a process caches the state of an endpoint. */
const OUTDATED_MS = 5_000

/** Endpoints disabled by a person while events wait for them. */
export const disabling: readonly Case[] = [
  {
    name: 'a disabled endpoint gets no more events: waiting ones fail, are kept, and can be retried once it is enabled',
    run: async (world) => {
      const clock = new LeapingClock()
      const hapax = world.hapax({ clock })
      await register(world, ['ep_a', 'ep_b'])
      const ids = ['a1', 'a2', '-1', '-2']
      await publish(hapax, ids)
      const [reached, go] = [gate(), gate()]
      const receivers = new TestReceivers(
        async ({ endpoint }) => {
          if (endpoint !== 'ep_a') return DELIVERED
          reached.open()
          await go.passed
          return DELIVERED
        },
        { concurrency: 1 },
      )
      const worker = await world.worker({ hapax }, { relay: receivers })
      await reached.passed
      // The endpoint keeps answering: only the person has disabled it.
      const audit = { actor: 'ann', action: 'change' } as const
      assert.ok(await world.store.endpoints.change('ep_a', { enabled: false, reason: null }, audit))
      clock.leap(OUTDATED_MS)
      go.open()
      await world.until(() => receivers.firsts('ep_b').length === ids.length)
      await worker.drain()
      const begun = receivers.firsts('ep_a')
      assert.equal(begun.length, 1)
      const failed = await hapax.failed.list()
      assert.deepEqual(
        failed.map(({ consumer, reason, message }) => `${consumer} ${message.id} ${reason}`).sort(),
        ids
          .filter((id) => !begun.includes(id))
          .map((id) => `${CONSUMER} ${id} endpoint-disabled`)
          .sort(),
      )
      // Events published meanwhile are not for it.
      await publish(hapax, ['b1'])
      await worker.drain()
      assert.deepEqual([receivers.firsts('ep_a').length, receivers.firsts('ep_b').includes('b1')], [1, true])

      await world.store.endpoints.change('ep_a', { enabled: true, reason: null }, audit)
      clock.leap(OUTDATED_MS)
      await hapax.failed.retryAll({ all: true })
      await worker.drain()
      assert.deepEqual([...receivers.firsts('ep_a')].sort(), [...ids].sort())
      assert.equal(await hapax.failed.count(), 0)
    },
  },
]
