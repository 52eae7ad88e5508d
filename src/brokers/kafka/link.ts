import { type Clock, fieldOf, heard, pause, systemClock } from '../../base/index.ts'
import type { KafkaClient } from './client.ts'

/** Nothing that a client or one of its links emits may end the process; errors also come as rejections. */
export function listen(client: KafkaClient): void {
  heard(client)
  // The client itself listens once to each link; one that breaks while it says who it is emits two errors.
  onLink(client, 'connecting', (link) => void heard(link))
}

/** A link of a client to one broker. It is not part of what the client documents. */
interface KafkaLink extends NodeJS.EventEmitter {
  readonly socket?: NodeJS.EventEmitter | undefined
}

/** Calls the listener for every link that begins to connect, or has connected. Does nothing where a client does not tell. */
export function onLink(
  client: KafkaClient,
  event: 'connecting' | 'connect',
  listener: (link: KafkaLink) => void,
): void {
  const on = fieldOf(client.connections, 'on')
  if (typeof on !== 'function') return
  on.call(client.connections, event, ({ connection }: { connection: KafkaLink }) => listener(connection))
}

/** Closes a client; one that does not end in time loses its sockets. */
export async function closeClient(client: KafkaClient, ms: number, clock: Clock = systemClock): Promise<void> {
  const links = [...client.connections]
  const late = new AbortController()
  await Promise.race([client.close().catch(() => {}), pause(clock, ms, late.signal)])
  late.abort()
  for (const [, { socket }] of [...links, ...client.connections]) socket?.destroy()
}
