import { type Clock, fieldOf, heard, pause, systemClock } from '../../base/index.ts'
import type { KafkaClient } from './client.ts'

/** Keeps error events of a client and its links from ending the process. The same errors also come as rejections. */
export function listen(client: KafkaClient): void {
  heard(client)
  // The client listens for one error of each link, but a link that breaks during authentication emits two.
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

/** Closes a client. If it does not close in time, its sockets are destroyed. */
export async function closeClient(client: KafkaClient, ms: number, clock: Clock = systemClock): Promise<void> {
  const links = [...client.connections]
  const late = new AbortController()
  await Promise.race([client.close().catch(() => {}), pause(clock, ms, late.signal)])
  late.abort()
  for (const [, { socket }] of [...links, ...client.connections]) socket?.destroy()
}
