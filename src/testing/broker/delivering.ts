import type { Case } from './case.ts'
import { assertSame, numbered, publishAll } from './world.ts'

export const delivering: readonly Case[] = [
  {
    name: 'gives every group every message',
    run: async (world) => {
      const billing = await world.listen('billing')
      const stock = await world.listen('stock')
      await publishAll(world.destination(), numbered(10))
      await billing.take(10)
      await stock.take(10)
      assertSame(billing.ids, numbered(10))
      assertSame(stock.ids, numbered(10))
    },
  },
  {
    name: 'delivers again what was not acked when the reader closed',
    run: async (world) => {
      const first = await world.listen('billing')
      await publishAll(world.destination(), numbered(5))
      for (const received of (await first.take(5)).slice(0, 2)) received.ack()
      await first.close()
      const second = await world.listen('billing')
      await second.take(3)
      assertSame(second.ids, ['m2', 'm3', 'm4'])
    },
  },
]
