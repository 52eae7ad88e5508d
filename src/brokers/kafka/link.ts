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

/** The part of `@platformatic/kafka` whose errors the client tells apart. */
interface ErrorLibrary {
  readonly NetworkError?: new (message: string) => Error
}

type Get = (broker: unknown, callback?: (error: Error) => void) => unknown

/**
 * A consumer of the client looks for another coordinator of its group when it cannot reach the one that it knows, but not when that one has
 * left the cluster: it would wait for it for ever. It is told that it could not be reached.
 */
export function forgetLostCoordinators(consumer: KafkaClient, { NetworkError }: ErrorLibrary): void {
  const { connections } = consumer
  const get = fieldOf(connections, 'get')
  if (typeof get !== 'function' || NetworkError === undefined) return
  const found: Get = (broker, callback) => {
    if (broker !== undefined || callback === undefined) return get.call(connections, broker, callback)
    callback(new NetworkError('the broker has left the cluster'))
  }
  Object.assign(connections, { get: found })
}

/** Closes a client. If it does not close in time, its sockets are destroyed. */
export async function closeClient(client: KafkaClient, ms: number, clock: Clock = systemClock): Promise<void> {
  const links = [...client.connections]
  const late = new AbortController()
  await Promise.race([client.close().catch(() => {}), pause(clock, ms, late.signal)])
  late.abort()
  for (const [, { socket }] of [...links, ...client.connections]) socket?.destroy()
}
