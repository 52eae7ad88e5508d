import assert from 'node:assert/strict'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { answered, CONSUMER, DELIVERED, publish, register, TestReceivers } from './world.ts'

const GOOD = Array.from({ length: 9 }, (_, n) => `ep_good${n}`)

/** What endpoints have to suffer from one another: nothing. */
export const endpointNeighbours: readonly Case[] = [
  {
    name: 'keeps the order of a key for each endpoint, while another one is down',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a', 'ep_b'])
      const ids = ['a', 'b', 'c'].flatMap((key) => Array.from({ length: 5 }, (_, n) => `${key}${n}`))
      for (const id of ids) await publish(hapax, [id])
      let down = true
      const receivers = new TestReceivers(
        ({ endpoint, times }) =>
          endpoint === 'ep_b' && down ? answered(503) : times === 1 && endpoint === 'ep_a' ? answered(500) : DELIVERED,
        { scheduleMs: Array.from({ length: 500 }, () => 50) },
      )
      const worker = await world.worker({ hapax }, { relay: receivers })
      const delivered = (endpoint: string, key: string) => receivers.firsts(endpoint).filter((id) => id.startsWith(key))
      await world.until(async () => receivers.firsts('ep_a').length === ids.length)
      for (const key of ['a', 'b', 'c']) {
        assert.deepEqual(
          delivered('ep_a', key),
          ids.filter((id) => id.startsWith(key)),
        )
        assert.deepEqual(delivered('ep_b', key), [`${key}0`])
      }
      down = false
      await world.until(async () => receivers.firsts('ep_b').length === ids.length)
      await worker.drain()
      for (const key of ['a', 'b', 'c'])
        assert.deepEqual(
          delivered('ep_b', key),
          ids.filter((id) => id.startsWith(key)),
        )
    },
  },
  {
    name: 'an endpoint that never answers has so many deliveries at once as it may, and the others get everything meanwhile',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_bad', ...GOOD])
      const ids = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? `-${n}` : `${String.fromCharCode(97 + n)}${n}`))
      await publish(hapax, ids)
      let [now, most] = [0, 0]
      const receivers = new TestReceivers(
        ({ endpoint }, signal) => {
          if (endpoint !== 'ep_bad') return DELIVERED
          now += 1
          most = Math.max(most, now)
          return new Promise((resolve) => {
            signal.addEventListener('abort', () => {
              now -= 1
              resolve(answered(undefined))
            })
          })
        },
        { concurrency: 4, perEndpoint: 2, timeoutMs: 600_000 },
      )
      const worker = await world.worker({ hapax }, { relay: receivers })
      await world.until(() => GOOD.every((endpoint) => receivers.firsts(endpoint).length === ids.length))
      assert.deepEqual([receivers.firsts('ep_bad').length, most], [2, 2])
      // Nothing of it has failed or is lost.
      await world.until(async () => {
        const consumer = (await hapax.status()).consumers.find((each) => each.consumer === CONSUMER)
        return consumer?.waiting === ids.length && consumer.retrying === 0
      })
      await worker.stop({ deadlineMs: 0 })
    },
  },
  {
    name: 'an endpoint that fails too often in a row is left alone, without an attempt or a warning for each message; then one tries again',
    run: async (world) => {
      const clock = new LeapingClock()
      const warnings: string[] = []
      const log = (_: object, text: string): void => void warnings.push(text)
      const logger = { debug: () => {}, info: () => {}, warn: log, error: log }
      const hapax = world.hapax({ clock, logger })
      await register(world, ['ep_a'])
      const ids = Array.from({ length: 20 }, (_, n) => `-${n}`)
      await publish(hapax, ids)
      let down = true
      const receivers = new TestReceivers(() => (down ? answered(503) : DELIVERED), {
        scheduleMs: [50, 50, 50, 50, 50, 50],
        concurrency: 1,
        breaker: { failures: 3, pauseMs: 500 },
      })
      const worker = await world.worker({ hapax }, { relay: receivers })
      await world.until(() => receivers.seen.length === 3)
      // Two pauses with one try each, although everything is due.
      await world.until(() => receivers.seen.length === 5)
      const told = warnings.filter((text) => text.includes('times in a row')).length
      const failed = warnings.filter((text) => text.includes('the handler of ping failed')).length
      assert.deepEqual([told, failed <= 5, warnings.length <= 6], [1, true, true])
      down = false
      clock.leap(500)
      await world.until(async () => {
        await worker.drain()
        return (
          receivers.firsts('ep_a').length === ids.length &&
          (await hapax.status()).consumers.every((each) => each.waiting + each.retrying === 0)
        )
      })
      assert.equal(await hapax.failed.count(), 0)
    },
  },
]
