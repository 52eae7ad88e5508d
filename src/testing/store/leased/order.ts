import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { Leased } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { AT_ONCE, assertOutcome, ping, type Tx } from '../world.ts'
import { leased, seqOf } from './world.ts'

/** Messages of the key that their ids begin with, in the inbox. */
async function storeKeyed(sms: Leased<Tx>, ids: readonly string[]): Promise<void> {
  const outcomes = await sms.handleMany(ids.map((id) => ping(id, { key: id.slice(0, 1) })))
  for (const outcome of outcomes) assertOutcome(outcome, 'stored')
}

/** The order of keys while messages are leased. */
export const leasedOrder: readonly Case[] = [
  {
    name: 'order wait: a leased head holds its key and no other',
    run: async (world) => {
      const sms = leased(world, () => {}, { order: 'wait' })
      await storeKeyed(sms, ['a1', 'a2', 'b1'])
      const seqs = [await seqOf(world, 'a1'), await seqOf(world, 'a2'), await seqOf(world, 'b1')] as const
      const lease = async (seq: string): Promise<number> =>
        (await world.store.inbox.lease([seq], crypto.randomUUID(), 60_000)).length
      assert.equal(await lease(seqs[0]), 1)
      assert.equal(await lease(seqs[1]), 0)
      assert.equal(await lease(seqs[2]), 1)
    },
  },
  {
    name: 'order wait: a head whose call is unknown holds its key until a person has decided',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = leased(
        world,
        async (ctx) => {
          const { id } = ctx.message
          await ctx.effect('send', async () => {
            if (id === 'a1') throw new Error('timeout')
          })
          ctx.complete((tx) => world.database.effect(tx, id))
        },
        { order: 'wait', hapax },
      )
      await storeKeyed(sms, ['a1', 'a2', 'b1'])
      await world.drain({ hapax, consumer: sms })
      await world.assertEffects(['b1'])
      const [failed] = await hapax.failed.list()
      assert.deepEqual([failed?.message.id, failed?.reason, failed?.held], ['a1', 'unknown-effect', true])
      await hapax.failed.settle(failed?.seq as string, { effect: 'send', as: 'done' })
      await world.drain({ hapax, consumer: sms })
      await world.assertEffects(['a1', 'a2', 'b1'])
    },
  },
  {
    name: 'order skip: a head that failed for good lets its key continue',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = leased(
        world,
        ({ message, complete }) => {
          if (message.id === 'a1') throw new Permanent('no')
          complete((tx) => world.database.effect(tx, message.id))
        },
        { order: 'skip', hapax, retry: AT_ONCE },
      )
      await storeKeyed(sms, ['a1', 'a2'])
      await world.drain({ hapax, consumer: sms })
      await world.assertEffects(['a2'])
      await world.assertPlaces('a1', ['receipt', 'failed'])
    },
  },
]
