import assert from 'node:assert/strict'
import { defineMessage } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { leased } from '../leased/world.ts'
import { assertOutcome, ping, type World } from '../world.ts'

/** What every object has, and names with what a program might join names with. */
const NAMES = ['constructor', '__proto__', 'toString', 'a b', 'a', 'a:b', 'a/b', 'a,b', '"a"', '[a]'] as const

const IDS = Array.from({ length: 20 }, (_, index) => `m${index}`)

/** Another worker that is heard, and does nothing. */
async function join(world: World, consumers: object): Promise<void> {
  const serves = JSON.stringify({ consumers, relays: [] })
  await world.store.workers.join({ id: crypto.randomUUID(), name: 'other', ttlMs: 600_000, serves })
}

export const names: readonly Case[] = [
  {
    name: 'K15: consumers and types may be called anything, beside a worker that serves others',
    open: { connections: 2 * NAMES.length },
    run: async (world) => {
      await join(world, { billing: ['ping'] })
      const hapax = world.hapax()
      const consume = NAMES.map((name) => {
        const consumer = hapax.consumer(name, { receive: 'store' })
        for (const type of NAMES) {
          consumer.on(defineMessage(type), (_, ctx) => world.database.effect(ctx.tx, `${name} | ${type}`))
        }
        return consumer
      })
      const worker = await world.worker({ hapax }, { consume })
      for (const consumer of consume) {
        await consumer.handleMany(NAMES.map((type) => ping(type, { type })))
      }
      await worker.drain()
      await world.assertEffects(NAMES.flatMap((name) => NAMES.map((type) => `${name} | ${type}`)))
      const { consumers } = await hapax.status()
      assert.deepEqual(consumers.map(({ consumer }) => consumer).sort(), [...NAMES].sort())
      assert.equal(
        (await hapax.doctor()).filter(({ check, level }) => check === 'workers' && level === 'error').length,
        0,
      )
    },
  },
  {
    name: 'K15: the lanes of one consumer are not those of another whose name and type read the same',
    run: async (world) => {
      // Half of the lanes of the first consumer belong to another worker; all lanes of the second one are ours.
      await join(world, { mail: ['a b'] })
      const hapax = world.hapax()
      const first = hapax.consumer('mail', { receive: 'store' }).on(defineMessage('a b'), () => {})
      const second = hapax
        .consumer('mail a', { receive: 'store' })
        .on(defineMessage('b'), (_, ctx) => world.database.effect(ctx.tx, ctx.message.id))
      await second.handleMany(IDS.map((id) => ping(id, { type: 'b' })))
      await world.worker({ hapax }, { consume: [first, second] })
      await world.until(async () => (await world.database.effects()).length === IDS.length)
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'K15: effects may be called anything',
    run: async (world) => {
      const made: string[] = []
      const sms = leased(world, async (ctx) => {
        for (const name of NAMES) assert.equal(await ctx.effect(name, () => made.push(name) && name), name)
      })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual(made, [...NAMES])
    },
  },
]
