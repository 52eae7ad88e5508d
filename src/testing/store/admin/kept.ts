import { ALL_LANES } from '../../../message/index.ts'
import { type AnyHapax, Pong, type World } from '../world.ts'

/** Messages that were sent and kept, by relay. */
export async function kept(
  world: World,
  messages: readonly (readonly [id: string, relay: string])[],
): Promise<AnyHapax> {
  const hapax = world.hapax()
  for (const [id, relay] of messages) {
    await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id, relay }))
  }
  const looks = await world.store.workers.look(
    [...new Set(messages.map(([, relay]) => relay))].map(
      (scope) => ({ table: 'outbox', scope, types: [], lanes: ALL_LANES, limit: 640, after: new Map() }) as const,
    ),
  )
  await world.store.outbox.confirm(
    looks.flatMap(({ entries }) => entries.map(({ seq }) => seq)),
    true,
  )
  return hapax
}
