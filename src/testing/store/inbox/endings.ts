import assert from 'node:assert/strict'
import { LeapingClock } from '../../clock.ts'
import { type Case, ofConnections } from '../case.ts'
import { assertOutcome, type Context, gate, Ping, Pong, type Reader, type World } from '../world.ts'

const IDS = ['a', 'b', 'c'] as const

/** A handler that writes its effect; for `b` it then commits on its own and fails. */
function committing(world: World): (ctx: Context) => Promise<void> {
  return async ({ tx, message }) => {
    await world.database.effect(tx, message.id)
    if (message.id !== 'b') return
    await world.database.commitInside(tx)
    throw new Error('after the commit')
  }
}

/** These messages, and no others, are in failed because their transaction was ended; nothing of them is anywhere else. */
async function assertAllBroken(world: World, { hapax }: Reader, ids: readonly string[]): Promise<void> {
  const failed = await hapax.failed.list()
  assert.deepEqual(
    failed.map(({ message, reason }) => `${message.id} ${reason}`).sort(),
    ids.map((id) => `${id} broken-atomicity`),
  )
  for (const id of ids) await world.assertPlaces(id, ['failed', 'receipt'])
}

const broken: readonly Case[] = [
  {
    name: 'A4: a handler that commits on its own and throws breaks its whole group: all messages fail, none is a duplicate',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(committing(world), { group: { size: 3 } })
      for (const outcome of await reader.deliverMany(IDS)) assertOutcome(outcome, 'failed', 'broken-atomicity')
      await assertAllBroken(world, reader, IDS)
      await world.assertEffects(['a', 'b'])
      for (const outcome of await reader.deliverMany(IDS)) assertOutcome(outcome, 'duplicate')
      assert.deepEqual(reader.calls, ['a', 'b'])
    },
  },
  {
    name: 'A4: a handler that commits on its own breaks its whole group from the inbox as well, and none runs again',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(committing(world), { group: { size: 3 }, receive: 'store' })
      for (const outcome of await reader.deliverMany(IDS)) assertOutcome(outcome, 'stored')
      await world.drain(reader)
      await assertAllBroken(world, reader, IDS)
      await world.assertEffects(['a', 'b'])
      assert.deepEqual(reader.calls, ['a', 'b'])
    },
  },
  {
    name: 'A4: an inbox message whose handler commits on its own and returns fails, and does not run again',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(
        async ({ tx, message }) => {
          await world.database.effect(tx, message.id)
          await world.database.commitInside(tx)
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      await world.drain(reader)
      await assertAllBroken(world, reader, ['a'])
      await world.assertEffects(['a'])
      assert.deepEqual(reader.calls, ['a'])
    },
  },
  {
    name: 'A11: an inbox message whose handler commits on its own and then times out fails, and does not run again',
    needs: ['ending the transaction'],
    run: async (world) => {
      const timeUp = gate()
      const clock = new LeapingClock()
      const timeoutMs = 60_000
      const reader = world.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          await world.database.commitInside(tx)
          signal.addEventListener('abort', timeUp.open)
          clock.leap(timeoutMs)
          await timeUp.passed
        },
        { receive: 'store', timeoutMs, hapax: world.hapax({ clock }) },
      )
      await reader.deliver('a')
      await world.drain(reader)
      await assertAllBroken(world, reader, ['a'])
      await world.assertEffects(['a'])
      assert.deepEqual(reader.calls, ['a'])
    },
  },
]

const undone: readonly Case[] = [
  {
    name: 'A17: a publish that is undone in a savepoint takes no earlier one along',
    needs: ['savepoints'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.effect(tx, message.id)
        await publish(Pong, { n: 1 }, { id: 'kept' })
        await world.database.undone(tx, () => publish(Pong, { n: 2 }, { id: 'undone', now: true }))
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      assert.deepEqual(await world.database.outbox(), ['kept'])
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A17: a local publish that is undone in a savepoint takes no earlier one along',
    needs: ['savepoints'],
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const reader = world.reader(({ tx }, { n }) => world.database.effect(tx, `${n}`), { hapax })
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 })
        await world.database.undone(tx, () => hapax.publish(tx, Ping, { n: 2 }, { id: 'undone' }))
      })
      await world.assertPlaces('undone', [])
      await world.drain(reader)
      await world.assertEffects(['1'])
    },
  },
]

const late: readonly Case[] = [
  {
    name: 'A28: what a handler left behind may deliver its message again once it has ended: a duplicate',
    run: async (world) => {
      const ended = gate()
      let again: Promise<unknown> | undefined
      const reader: Reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        again = ended.passed.then(() => reader.deliver('a')).then((outcome) => assertOutcome(outcome, 'duplicate'))
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      ended.open()
      await again
      await world.assertEffects(['a'])
    },
  },
]

export const endings: readonly Case[] = [...broken, ...ofConnections(undone), ...late]
