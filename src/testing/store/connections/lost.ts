import assert from 'node:assert/strict'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, type Context, Pong, type Reader, type Tx, type World } from '../world.ts'

const ownOnly: Case['skip'] = ({ ownTransactions }) =>
  ownTransactions ? undefined : 'hapax has its own connection: there are no transactions of the user to join'

/** A reader whose session is ended at the server in its first call, and what its handler does then. */
function losing(world: World, then: (ctx: Context) => Promise<unknown>): Reader {
  let first = true
  return world.reader(async (ctx) => {
    await world.database.effect(ctx.tx, ctx.message.id)
    if (!first) return
    first = false
    await ctx.publish(Pong, { n: 1 })
    await world.database.server?.end(ctx.tx)
    await then(ctx)
  })
}

/** Nothing of the lost transaction is there, and the message takes effect once when it comes again. */
async function assertAgain(world: World, reader: Reader): Promise<void> {
  await world.assertEffects([])
  await world.assertPlaces('a', [])
  assert.deepEqual(await world.database.outbox(), [])
  assertOutcome(await reader.deliver('a'), 'processed')
  await world.assertEffects(['a'])
  assert.deepEqual(reader.calls, ['a', 'a'])
}

export const lost: readonly Case[] = [
  {
    name: 'A5: a handler whose session is ended, and whose next statement fails, leaves nothing behind',
    needs: ['sessions'],
    run: async (world) => {
      const reader = losing(world, ({ tx }) => world.database.effect(tx, 'after'))
      assertOutcome(await reader.deliver('a'), 'rolled-back')
      await assertAgain(world, reader)
    },
  },
  {
    name: 'A5: a handler that swallows the loss of its session is not committed elsewhere',
    needs: ['sessions'],
    run: async (world) => {
      const reader = losing(world, async ({ tx }) => {
        for (const label of ['after', 'once more']) {
          // A statement may be refused at once, or go through on another connection: neither may be kept with the message.
          await Promise.resolve(world.database.effect(tx, label)).catch(() => {})
        }
      })
      assertOutcome(await reader.deliver('a'), 'rolled-back')
      await assertAgain(world, reader)
    },
  },
  {
    name: 'A5: a session that is ended before the commit, unseen by the handler, keeps nothing',
    needs: ['sessions'],
    run: async (world) => {
      const reader = losing(world, async () => {})
      assertOutcome(await reader.deliver('a'), 'rolled-back')
      await assertAgain(world, reader)
    },
  },
  {
    name: 'A5: hapax.transaction rejects when its session is ended, seen or unseen',
    needs: ['sessions'],
    run: async (world) => {
      const hapax = world.hapax()
      for (const seen of [true, false]) {
        const work = hapax.transaction(async (tx) => {
          await world.database.effect(tx, 'gone')
          await world.database.server?.end(tx)
          if (seen) await Promise.resolve(world.database.effect(tx, 'after')).catch(() => {})
        })
        await assert.rejects(work)
        await world.assertEffects([])
      }
      await hapax.transaction((tx) => world.database.effect(tx, 'kept'))
      await world.assertEffects(['kept'])
    },
  },
  {
    name: "A5: a publish in the user's own transaction whose session was ended is refused",
    needs: ['sessions', 'own sessions that end'],
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const own = world.database.own(async (tx: Tx) => {
        await world.database.effect(tx, 'gone')
        await world.database.server?.end(tx)
        await assert.rejects(hapax.publish(tx, Pong, { n: 1 }))
      })
      await assert.rejects(own)
      await world.assertEffects([])
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'A4: a statement of data definition, which commits, is broken atomicity',
    needs: ['statements that commit'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.effect(tx, message.id)
        await publish(Pong, { n: 1 })
        await world.database.define?.(tx)
      })
      assertOutcome(await reader.deliver('a'), 'failed', 'broken-atomicity')
      assertOutcome(await reader.deliver('a'), 'duplicate')
      await world.assertPlaces('a', ['failed', 'receipt'])
      assert.deepEqual(await world.database.outbox(), [])
      await assertRejects(
        reader.hapax.transaction((tx) => world.database.define?.(tx) ?? Promise.resolve()),
        'broken-atomicity',
      )
    },
  },
]
