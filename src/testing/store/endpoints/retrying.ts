import assert from 'node:assert/strict'
import { messageKey, spreadSource } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { gate, type World } from '../world.ts'
import { answered, CONSUMER, DELIVERED, GONE, publish, register, TestReceivers } from './world.ts'

/** What is waited for, and why a message failed. */
async function reasons(world: World): Promise<readonly string[]> {
  const failed = await world.hapax().failed.list()
  return failed.map(({ consumer, reason, message }) => `${consumer} ${message.id} ${reason}`).sort()
}

/** What becomes of deliveries that fail. */
export const retrying: readonly Case[] = [
  {
    name: 'a delivery that fails is made again under the same id, after the pauses of the schedule and at least as late as the receiver says',
    run: async (world) => {
      const hapax = world.hapax()
      const retries: { attempt: number; delayMs: number; code: unknown }[] = []
      hapax.events.on('retrying', ({ attempt, delayMs, error }) => {
        retries.push({ attempt, delayMs, code: Reflect.get(error, 'code') })
      })
      await register(world, ['ep_a'])
      await publish(hapax, ['-1'])
      const scheduleMs = [40, 80, 120]
      const receivers = new TestReceivers(
        ({ times }) => [answered(503), answered(429, 200), answered(undefined)][times - 1] ?? DELIVERED,
        { scheduleMs },
      )
      await world.worker({ hapax }, { relay: receivers })
      await world.until(
        async () =>
          (await hapax.status()).consumers.every(({ retrying: waits, waiting }) => waits + waiting === 0) &&
          receivers.seen.length === 4,
      )
      assert.deepEqual(
        retries.map(({ attempt, code }) => [attempt, code]),
        [
          [1, '503'],
          [2, '429'],
          [3, 'Error'],
        ],
      )
      const [first, second, third] = retries.map(({ delayMs }) => delayMs)
      assert.ok(first !== undefined && first >= 36 && first <= 44, `${first}`)
      assert.equal(second, 200)
      assert.ok(third !== undefined && third >= 108 && third <= 132, `${third}`)
      assert.deepEqual(new Set(receivers.seen.map(({ message }) => message.id)), new Set(['-1']))
    },
  },
  {
    name: 'a schedule that is used up moves the message to the failed store with its history; its key goes on, and a retry begins anew',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a'])
      await publish(hapax, ['a1', 'a2'])
      let down = true
      const receivers = new TestReceivers(({ message }) => (down && message.id === 'a1' ? answered(500) : DELIVERED), {
        scheduleMs: [0, 0],
      })
      const worker = await world.worker({ hapax }, { relay: receivers })
      await world.until(() => receivers.firsts('ep_a').includes('a2'))
      assert.deepEqual(
        receivers.seen.map(({ message }) => message.id),
        ['a1', 'a1', 'a1', 'a2'],
      )
      assert.deepEqual(await reasons(world), [`${CONSUMER} a1 attempts-exhausted`])
      const [failed] = await hapax.failed.list()
      assert.deepEqual(
        failed?.history.map(({ attempt, code }) => [attempt, code]),
        [
          [1, '500'],
          [2, '500'],
          [3, '500'],
        ],
      )
      assert.equal(failed?.error.message, 'the receiver answered with 500: not now')
      down = false
      await hapax.failed.retry(failed?.seq ?? '')
      await worker.drain()
      assert.deepEqual([receivers.seen.length, await hapax.failed.count()], [5, 0])
    },
  },
  {
    name: 'a refusal is final, and says nothing of other messages',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a', 'ep_b'])
      await publish(hapax, ['-1'])
      const refused = { status: 'refused', error: new Error('a private address') } as const
      const receivers = new TestReceivers(({ endpoint }) => (endpoint === 'ep_a' ? refused : DELIVERED))
      await (await world.worker({ hapax }, { relay: receivers })).drain()
      assert.equal(receivers.seen.length, 2)
      assert.deepEqual(await reasons(world), [`${CONSUMER} -1 permanent`])
    },
  },
  {
    name: 'an endpoint that is gone is disabled by hapax; what waits for it fails, is kept, and can be retried when it is enabled',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a', 'ep_b'])
      await publish(hapax, ['a1', 'a2', '-1'])
      let gone = true
      const receivers = new TestReceivers(({ endpoint }) => (gone && endpoint === 'ep_a' ? GONE : DELIVERED), {
        concurrency: 1,
      })
      const worker = await world.worker({ hapax }, { relay: receivers })
      await worker.drain()
      const disabled = ['-1', 'a1', 'a2'].map((id) => `${CONSUMER} ${id} endpoint-disabled`)
      assert.deepEqual(await reasons(world), disabled)
      const [endpoint] = await world.store.endpoints.list('default')
      assert.deepEqual([endpoint?.enabled, endpoint?.reason], [false, 'gone'])
      assert.deepEqual([...receivers.firsts('ep_b')].sort(), ['-1', 'a1', 'a2'])
      gone = false
      await world.store.endpoints.change('ep_a', { enabled: true, reason: null }, { actor: 'ann', action: 'change' })
      await hapax.failed.retryAll({ all: true })
      await worker.drain()
      assert.deepEqual([...receivers.firsts('ep_a')].sort(), ['-1', 'a1', 'a2'])
      assert.equal(await hapax.failed.count(), 0)
    },
  },
  {
    name: 'an endpoint that has moved is not disabled because its old address is gone',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a'])
      await publish(hapax, ['a1', 'a2'])
      const receivers = new TestReceivers(async ({ times, message }) => {
        if (times > 1 || message.id !== 'a1') return DELIVERED
        const moved = { url: 'https://new.test/hooks' }
        await world.store.endpoints.change('ep_a', moved, { actor: 'ann', action: 'change' })
        return GONE
      })
      const worker = await world.worker({ hapax }, { relay: receivers })
      await world.until(async () => receivers.firsts('ep_a').length === 2)
      await worker.drain()
      const [endpoint] = await world.store.endpoints.list('default')
      assert.deepEqual([endpoint?.enabled, endpoint?.reason], [true, null])
      assert.deepEqual(
        receivers.seen.map(({ message }) => message.id),
        ['a1', 'a1', 'a2'],
      )
      assert.equal(await hapax.failed.count(), 0)
    },
  },
  {
    name: 'what waits for an endpoint that was removed fails and is kept',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a'])
      await publish(hapax, ['a1', 'a2'])
      const reached = gate()
      const go = gate()
      const receivers = new TestReceivers(async () => {
        reached.open()
        await go.passed
        return DELIVERED
      })
      const worker = await world.worker({ hapax }, { relay: receivers })
      await reached.passed
      await world.store.endpoints.remove('ep_a', { actor: 'ann', action: 'remove' })
      go.open()
      await worker.drain()
      // What was known of the endpoint is forgotten after a second.
      await world.until(async () => (await reasons(world)).length === 1 || receivers.seen.length === 2)
      assert.deepEqual(await reasons(world), receivers.seen.length === 2 ? [] : [`${CONSUMER} a2 endpoint-removed`])
      await publish(hapax, ['a3'])
      await worker.drain()
      assert.deepEqual(await world.store.journal.of(CONSUMER, messageKey(spreadSource('ep_a', '/test'), 'a3')), [])
    },
  },
  {
    name: 'K2: a delivery of which nobody knows whether it arrived, because its worker was stopped, is made again by another',
    needs: ['another store'],
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a'])
      await publish(hapax, ['a1', 'a2'])
      const reached = gate()
      const silent = new TestReceivers(
        (_, signal) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => resolve(answered(undefined)))
            reached.open()
          }),
      )
      const first = await world.worker({ hapax }, { relay: silent })
      await reached.passed
      await first.stop({ deadlineMs: 0 })
      const receivers = new TestReceivers()
      await world.worker({ hapax: await world.rival() }, { relay: receivers })
      await world.until(() => receivers.seen.length === 2)
      assert.deepEqual([silent.firsts('ep_a'), receivers.firsts('ep_a')], [['a1'], ['a1', 'a2']])
      assert.equal(await hapax.failed.count(), 0)
    },
  },
]
