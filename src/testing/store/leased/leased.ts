import assert from 'node:assert/strict'
import { NotDone } from '../../../base/index.ts'
import { messageKey } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { AT_ONCE, assertOutcome, Pong, ping } from '../world.ts'
import { doubts } from './doubt.ts'
import { edges } from './edges.ts'
import { leasedOrder } from './order.ts'
import { ownership } from './owners.ts'
import { stored } from './stored.ts'
import { unknowns } from './unknown.ts'
import { leased, Provider, states, work } from './world.ts'

const settling: readonly Case[] = [
  {
    name: 'settles with what complete writes and with what it publishes, and keeps the journal',
    run: async (world) => {
      const provider = new Provider()
      const sms = leased(world, async (ctx) => {
        const { sent } = await ctx.effect('send', provider.send)
        await ctx.publish(Pong, { n: 1 })
        ctx.complete(async (tx) => {
          await world.database.effect(tx, `sent ${sent}`)
          await ctx.publish(Pong, { n: 2 })
        })
        await ctx.note({ to: '+41' })
      })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
      await world.assertEffects(['sent 1'])
      assert.equal((await world.database.outbox()).length, 2)
      assert.equal(provider.calls.length, 1)
      await world.assertPlaces('a', ['receipt', 'effect', 'effect'])
      // By name: a store that tells times in milliseconds may have written both in the same one.
      const journal = await world.store.journal.of('billing', messageKey('/sender', 'a'))
      const [send, notes] = ['send', ''].map((name) => journal.find((row) => row.name === name))
      assert.deepEqual([send?.state, send?.result, notes?.result], ['done', '{"sent":1}', '{"to":"+41"}'])
    },
  },
  {
    name: 'sent once, although the next step fails three times: the write, the publish, the handler',
    run: async (world) => {
      const provider = new Provider()
      let attempt = 0
      const sms = leased(
        world,
        async (ctx) => {
          attempt += 1
          assert.equal((await ctx.effect('send', provider.send)).sent, 1)
          if (attempt === 1) throw new Error('the next step failed')
          ctx.complete(async (tx) => {
            await world.database.effect(tx, `sent ${attempt}`)
            if (attempt === 2) await world.database.breakStatement(tx)
            // Refused: a message with a key does not wait.
            await ctx.publish(Pong, { n: attempt }, attempt === 3 ? { delayMs: 1 } : {})
          })
        },
        { retry: { ...AT_ONCE, attempts: 5 } },
      )
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      for (let run = 0; run < 3; run++) await work(world, sms)
      assert.equal(attempt, 4)
      assert.equal(provider.calls.length, 1)
      await world.assertEffects(['sent 4'])
      assert.equal((await world.database.outbox()).length, 1)
      await world.assertPlaces('a', ['receipt', 'effect'])
    },
  },
  {
    name: 'the calls of a message are listed in the order in which they began, even within one millisecond',
    needs: ['setting times'],
    run: async (world) => {
      const names = ['z', 'm', 'b', 'y', 'a', 'c']
      let attempt = 0
      const sms = leased(world, async (ctx) => {
        attempt += 1
        for (const name of names.slice(0, attempt * 3)) await ctx.effect(name, () => name)
        if (attempt === 1) throw new Error('and three more later')
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      await world.database.sameTime()
      assert.deepEqual(
        (await states(world, 'a')).map(([name]) => name),
        names,
      )
      const traces = await world.hapax().explain('a')
      assert.deepEqual(
        traces.flatMap((each) => (each.where === 'effect' ? [each.effect.name] : [])),
        names,
      )
    },
  },
  {
    name: 'B15: the key of an effect is the same in every attempt, and differs between effects and messages',
    run: async (world) => {
      const keys: string[] = []
      const call = async (key: string): Promise<void> => {
        keys.push(key)
        throw new NotDone('not now')
      }
      const sms = leased(world, async (ctx) => {
        await ctx.effect('first', call).catch(() => {})
        await ctx.effect('second', call)
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      await sms.handle(ping('b'))
      const [first, second, firstAgain, secondAgain, other] = keys
      assert.deepEqual([first, second], [firstAgain, secondAgain])
      assert.equal(new Set([first, second, other]).size, 3)
    },
  },
  {
    name: 'B21: several effects in any order, each once',
    run: async (world) => {
      const calls: string[] = []
      let attempt = 0
      const sms = leased(world, async (ctx) => {
        attempt += 1
        const names = attempt === 1 ? ['a', 'b', 'c'] : ['c', 'b', 'a']
        for (const name of names) {
          await ctx.effect(name, async () => {
            if (attempt === 1 && name === 'c') throw new NotDone('not yet')
            calls.push(name)
          })
        }
      })
      assertOutcome(await sms.handle(ping('1')), 'retrying')
      await work(world, sms)
      assert.deepEqual(calls, ['a', 'b', 'c'])
      await world.assertPlaces('1', ['receipt', 'effect', 'effect', 'effect'])
    },
  },
]

export const leases: readonly Case[] = [
  ...settling,
  ...unknowns,
  ...doubts,
  ...ownership,
  ...leasedOrder,
  ...stored,
  ...edges,
]
