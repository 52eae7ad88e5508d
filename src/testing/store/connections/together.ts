import assert from 'node:assert/strict'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, type Context, ping, type World } from '../world.ts'

const MANY = Array.from({ length: 32 }, (_, index) => `m${index}`)

/** A handler that waits for something else between its statements; every fourth message fails at the end of its first attempt. */
function unhurried(world: World): (ctx: Context) => Promise<void> {
  return async ({ tx, message, attempt }) => {
    await world.database.effect(tx, `${message.id} began`)
    await setImmediate()
    await setTimeout(1)
    await world.database.effect(tx, `${message.id} ended`)
    if (attempt === 1 && Number(message.id.slice(1)) % 4 === 0) throw new Error('not yet')
  }
}

const both = (ids: readonly string[]): string[] => ids.flatMap((id) => [`${id} began`, `${id} ended`])

export const together: readonly Case[] = [
  {
    name: 'A9: handlers that wait between their statements keep their transactions apart: 32 on four connections',
    open: { connections: 4 },
    run: async (world) => {
      const reader = world.reader(unhurried(world))
      const outcomes = await Promise.all(MANY.map((id) => reader.deliver(id)))
      assert.equal(outcomes.filter(({ status }) => status === 'retrying').length, 8)
      await world.assertEffects(both(MANY.filter((_, index) => index % 4 > 0)))
      await world.drain(reader)
      await world.assertEffects(both(MANY))
    },
  },
  {
    name: 'K9: one connection is enough for handlers and transactions; a worker does with it, or says that it is too little',
    open: { connections: 1 },
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store', concurrency: 4 })
      const ids = MANY.slice(0, 8)
      await Promise.all(ids.map((id) => reader.deliver(id)))
      await Promise.all(ids.map((id) => reader.hapax.transaction((tx) => world.database.effect(tx, `own ${id}`))))
      const own = ids.map((id) => `own ${id}`)
      if (world.store.features.pool !== undefined) {
        await assertRejects(world.drain(reader), 'pool-too-small')
        await world.assertEffects(own)
        return
      }
      await world.drain(reader)
      await world.assertEffects([...ids, ...own])
    },
  },
  {
    name: 'K9: a handler that needs a second connection where there is one is told so, and does not wait for ever',
    needs: ['a pool'],
    open: { connections: 1 },
    run: async (world) => {
      const patient = world.hapax()
      // For the second connection only: the first one may take longer on a busy machine.
      const impatient = world.hapax({ acquireMs: 1_000 })
      const { consumer } = world.reader(
        async ({ tx, message }) => {
          await world.database.effect(tx, message.id)
          const second = impatient.transaction((other) => world.database.effect(other, 'second'))
          await assertRejects(second, 'store-unavailable')
        },
        { hapax: patient },
      )
      assertOutcome(await consumer.handle(ping('a')), 'processed')
      // What still waits for a connection when it is given up must not take it away from others later.
      await Promise.all(MANY.slice(0, 4).map((id) => patient.transaction((tx) => world.database.effect(tx, id))))
      await world.assertEffects(['a', ...MANY.slice(0, 4)])
    },
  },
]
