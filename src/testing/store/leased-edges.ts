import type { LeasedContext } from '../../core/handlers.ts'
import { messageKey } from '../../core/identity.ts'
import { type EdgeCase, type EdgeWorld, effectEdges, insideCalls } from '../effect-edges.ts'
import type { Case } from './case.ts'
import { leased, work } from './leased-world.ts'
import { Pong, ping, type Tx, type World } from './world.ts'

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
    journal: (id) => world.store.effects('billing', messageKey('/sender', id)),
  }
}

const uses = [
  (ctx: unknown) => (ctx as LeasedContext<Tx>).complete(() => {}),
  (ctx: unknown) => (ctx as LeasedContext<Tx>).publish(Pong, { n: 1 }),
]

/** What happens at the edges of calls. */
export const edges: readonly Case[] = [...effectEdges, insideCalls(uses)].map(
  ({ name, run }: EdgeCase): Case => ({ name, run: (world) => run(edgeWorld(world)) }),
)
