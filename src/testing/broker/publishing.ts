import assert from 'node:assert/strict'
import type { Case } from './case.ts'
import { assertConfirmed, message, numbered, publish, publishAll } from './world.ts'

export const publishing: readonly Case[] = [
  {
    name: 'confirms each message of a batch, and keeps their order',
    run: async (world) => {
      const listener = await world.listen('billing')
      await publishAll(world.destination(), numbered(50))
      await listener.take(50)
      assert.deepEqual(listener.ids, numbered(50))
    },
  },
  {
    name: 'confirms a thousand messages at once',
    run: async (world) => {
      const ids = numbered(1_000)
      const listener = await world.listen('billing', { each: (received) => received.ack() })
      const sent = await publish(
        world.destination(),
        ids.map((id) => message(id)),
      )
      assertConfirmed(sent)
      await listener.take(1_000)
      assert.deepEqual(new Set(listener.ids), new Set(ids))
    },
  },
]
