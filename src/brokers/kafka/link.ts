import { type Clock, heard, pause, systemClock } from '../../base/index.ts'
import type { KafkaClient } from './client.ts'

/** Nothing that a client or one of its links emits may end the process; errors also come as rejections. */
export function listen(client: KafkaClient): void {
  heard(client as { on(event: 'error', listener: () => void): unknown })
  // The client itself listens once to each link; one that breaks while it says who it is emits two errors.
  const links = client.connections as { on?(event: 'connecting', listener: (link: Connecting) => void): unknown }
  links.on?.('connecting', ({ connection }) => void heard(connection))
}

interface Connecting {
  readonly connection: NodeJS.EventEmitter
}

/** Closes a client; one that does not end in time loses its sockets. */
export async function closeClient(client: KafkaClient, ms: number, clock: Clock = systemClock): Promise<void> {
  const links = [...client.connections]
  const late = new AbortController()
  await Promise.race([client.close().catch(() => {}), pause(clock, ms, late.signal)])
  late.abort()
  for (const [, { socket }] of [...links, ...client.connections]) socket?.destroy()
}
