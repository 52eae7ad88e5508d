import assert from 'node:assert/strict'
import { atEachLevel, type Case } from '../case.ts'
import { assertOutcome, Pong } from '../world.ts'

const levels: readonly Case[] = [
  {
    name: 'K11: a handler that leaves something open on the connection uses up an attempt, and nothing is kept',
    needs: ['something left open'],
    run: async (world) => {
      let open = true
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.effect(tx, message.id)
        await publish(Pong, { n: 1 })
        if (open) world.database.leaveOpen(tx)
      })
      assertOutcome(await reader.deliver('a'), 'retrying', 'unawaited-query')
      await world.assertEffects([])
      assert.deepEqual(await world.database.outbox(), [])
      open = false
      await world.drain(reader)
      await world.assertEffects(['a'])
      assert.deepEqual(reader.calls, ['a', 'a'])
    },
  },
]

/** What a handler does to its connection. */
export const unawaited: readonly Case[] = atEachLevel(levels)
