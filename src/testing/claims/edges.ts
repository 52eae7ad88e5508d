import assert from 'node:assert/strict'
import { HapaxError, Permanent } from '../../base/index.ts'
import { messageKey, STUB_BYTES, stubOf } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { type EdgeCase, type EdgeWorld, effectEdges, insideCalls } from '../effect-edges.ts'
import { effectNames } from '../effect-names.ts'
import { assertOutcome, assertRejects, ping, statuses } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import type { ClaimWorld } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** A store without an inbox, as the common cases see it. */
function edgeWorld(world: ClaimWorld): EdgeWorld {
  return {
    retry: 'rolled-back',
    sms: (handler, options = {}) => {
      const hapax = world.hapax()
      const sms = world.sms(handler, { hapax, ...options })
      return {
        handle: (id) => sms.handle(ping(id)),
        again: (id) => sms.handle(ping(id)),
        failed: async () => (await hapax.failed.list()).map(({ message }) => message.id),
        retried: async () => {
          for (const { seq } of await hapax.failed.list()) await hapax.failed.retry(seq)
          await world.drain(hapax, sms)
        },
      }
    },
    journal: (id) => world.store.journal.of('sms', messageKey('/sender', id)),
  }
}

const retention: readonly Case[] = [
  {
    name: 'C3: failed and held messages outlive receipts: they are not handled again until a person has decided',
    run: async (world) => {
      const calls: string[] = []
      const sms = world.sms(
        async (ctx) => {
          calls.push(ctx.message.id)
          if (ctx.message.id === 'failed') throw new Permanent('no')
          if (ctx.message.id === 'held') await ctx.effect('send', () => Promise.reject(new Error('reset')))
          await ctx.effect('send', () => {})
        },
        { retentionMs: 1 },
      )
      assertOutcome(await sms.handle(ping('failed')), 'failed')
      assertOutcome(await sms.handle(ping('held')), 'held')
      // Receipts of that time are gone.
      await until(async () => {
        await sms.handle(ping('done'))
        return calls.filter((id) => id === 'done').length === 2
      })
      calls.length = 0
      assertOutcome(await sms.handle(ping('failed')), 'duplicate')
      assertOutcome(await sms.handle(ping('held')), 'duplicate')
      assert.deepEqual(calls, [])
      assert.deepEqual(await world.journal('held'), [['send', 'unknown', 1]])
      assert.deepEqual(await world.places('failed'), ['failed', 'receipt'])
    },
  },
]

const poison: readonly Case[] = [
  {
    name: 'K17: the beginning of a message that is too large is kept; its neighbours take effect, and it is not retried',
    run: async (world) => {
      const hapax = world.hapax({ maxMessageBytes: 100_000 })
      const calls: string[] = []
      const sms = world.sms((ctx) => void calls.push(ctx.message.id), { hapax })
      const data = 'x'.repeat(200_000)
      const large = ping('large', { data })
      const outcomes = await sms.handleMany([ping('a'), large, ping('b', { key: '\u0000'.repeat(2046) }), ping('c')])
      assert.deepEqual(statuses(outcomes), ['failed', 'failed', 'processed', 'processed'])
      assert.ok(outcomes.every(({ ack }) => ack))
      assert.deepEqual(calls.toSorted(), ['a', 'c'])
      assertOutcome(await sms.handle(large), 'duplicate')
      const [failed] = await hapax.failed.list({ reason: 'too-large' })
      assert.ok(failed !== undefined)
      assert.equal(failed.message.data.byteLength, STUB_BYTES)
      assert.equal(stubOf(failed.message)?.bytes, data.length + 2)
      await assertRejects(hapax.failed.retry(failed.seq), 'not-whole')
    },
  },
  {
    name: 'K16: what the store refuses of a failed message is left out, and it is settled',
    run: async (world) => {
      const store = altered(world.store, {
        claims: {
          fail: async (consumer, lease, failure) => {
            if (failure.message.data.byteLength > STUB_BYTES) throw new HapaxError('unstorable', 'no')
            return world.store.claims.fail(consumer, lease, failure)
          },
        },
      })
      const hapax = world.hapax({ store })
      const sms = world.sms(() => Promise.reject(new Permanent('bad')), { hapax })
      assertOutcome(await sms.handle(ping('a', { data: 'x'.repeat(100_000) })), 'failed')
      const [failed] = await hapax.failed.list()
      assert.equal(failed?.reason, 'permanent')
      assert.deepEqual(stubOf(failed.message)?.why, 'no')
      assertOutcome(await sms.handle(ping('a', { data: 'x'.repeat(100_000) })), 'duplicate')
    },
  },
]

/** What happens at the edges of calls, and of times. */
export const edges: readonly Case[] = [
  ...[...effectEdges, ...effectNames, insideCalls([])].map(
    ({ name, run }: EdgeCase): Case => ({ name, run: (world) => run(edgeWorld(world)) }),
  ),
  ...retention,
  ...poison,
]
