import assert from 'node:assert/strict'
import type { LeasedContext } from '../../../contracts/index.ts'
import { messageKey } from '../../../message/index.ts'
import { type EdgeCase, type EdgeWorld, effectEdges, insideCalls } from '../../effect-edges.ts'
import { effectNames } from '../../effect-names.ts'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, Pong, ping, type Tx, type World } from '../world.ts'
import { leased, seqOf, stolen, storeOne, work } from './world.ts'

/** A store with an inbox, as the common cases see it. */
function edgeWorld(world: World): EdgeWorld {
  return {
    retry: 'retrying',
    sms: (handler, options = {}) => {
      const hapax = world.hapax()
      const sms = leased(world, handler, { hapax, ...options })
      return {
        handle: (id) => sms.handle(ping(id)),
        again: () => work(world, sms),
        failed: async () => (await hapax.failed.list()).map(({ message }) => message.id),
        retried: async () => {
          for (const { seq } of await hapax.failed.list()) await hapax.failed.retry(seq)
          await work(world, sms)
        },
      }
    },
    journal: (id) => world.store.journal.of('billing', messageKey('/sender', id)),
  }
}

const uses = [
  (ctx: unknown) => (ctx as LeasedContext<Tx>).complete(() => {}),
  (ctx: unknown) => (ctx as LeasedContext<Tx>).publish(Pong, { n: 1 }),
]

const conflicts: readonly Case[] = [
  {
    name: 'F7: a conflict is not retried under the id of another message, whose external calls are not its own, but under a new one',
    run: async (world) => {
      const hapax = world.hapax()
      const sent: string[] = []
      const handler = async (ctx: LeasedContext<Tx>) => {
        await ctx.effect('send', () => sent.push(ctx.message.id))
      }
      const sms = leased(world, handler, { hapax, onMismatch: 'conflict' })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assertOutcome(await sms.handle(ping('a', { data: { n: 2 } })), 'conflict')
      const [row] = await hapax.failed.list()
      const seq = row?.seq as string
      assert.deepEqual(await hapax.failed.effects(seq), [])
      await assertRejects(hapax.failed.retry(seq), 'conflict')
      await assertRejects(hapax.failed.settle(seq, { effect: 'send', as: 'retry' }), 'not-found')
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 0, gone: 0, errors: 1, stopped: false })
      await hapax.failed.edit(seq, { n: 2 }, { id: 'b' })
      await work(world, sms)
      assert.deepEqual([sent, await hapax.failed.count()], [['a', 'b'], 0])
    },
  },
]

const released: readonly Case[] = [
  {
    name: 'K3: a lease that is released leaves no trace: its row is due when it was said, free for others, and its owner cannot settle',
    run: async (world) => {
      await storeOne(world, 'a')
      const seq = await seqOf(world, 'a')
      const token = crypto.randomUUID()
      const [row] = await world.store.inbox.lease([seq], token, 60_000)
      const lease = { seq, token, fence: row?.fence ?? 0 }
      assert.equal(await world.store.inbox.release({ ...lease, fence: 99 }, 0), false)
      assert.equal(await world.store.inbox.release({ ...lease, token: crypto.randomUUID() }, 0), false)
      assert.equal(await world.store.inbox.release(lease, 60_000), true)
      const dueMs = (await world.look()).nextMs ?? 0
      assert.ok(dueMs > 30_000 && dueMs <= 60_000, `due in ${dueMs} ms`)
      assert.deepEqual(await world.store.inbox.lease([seq], crypto.randomUUID(), 60_000), [])
      assert.equal(await world.store.inbox.release(lease, 0), false)
      const [trace] = (await world.store.admin.trace('a', '/sender')).filter(({ where }) => where === 'inbox')
      assert.ok(trace?.where === 'inbox')
      assert.deepEqual([trace.leased, trace.attempts, trace.failures, trace.error], [false, 0, 0, null])
    },
  },
  {
    name: 'K3: a row whose lease was released for no time is taken by the next one, with a greater fence',
    run: async (world) => {
      await storeOne(world, 'a')
      const seq = await seqOf(world, 'a')
      const token = crypto.randomUUID()
      const [row] = await world.store.inbox.lease([seq], token, 60_000)
      assert.equal(await world.store.inbox.release({ seq, token, fence: row?.fence ?? 0 }, 0), true)
      const [next] = await stolen(world, seq)
      assert.deepEqual([next?.fence, next?.attempts, next?.lost], [2, 0, 0])
    },
  },
]

/** What happens at the edges of calls. */
export const edges: readonly Case[] = [
  ...conflicts,
  ...released,
  ...[...effectEdges, ...effectNames, insideCalls(uses)].map(
    ({ name, run }: EdgeCase): Case => ({ name, run: (world) => run(edgeWorld(world)) }),
  ),
]
