import type { JetStreamManager } from '@nats-io/jetstream'
import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node'
import { asError, fieldOf, HapaxError, messageOf, systemClock, systemRandom, within } from '../../base/index.ts'
import type { Client } from './client.ts'
import { isRefusal } from './errors.ts'

/** A connection until it breaks. It is never used again after that, even if the user's client reconnects: acks belong to one connection. */
export class Link {
  readonly client: Client
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  readonly #lost = new AbortController()
  readonly #statuses: ReturnType<NatsConnection['status']>
  readonly #subscriptions = new Set<Subscription>()
  /** Called when the server denied a permission on this connection, which others may use as well. */
  onRefusal: (subject: string, error: Error) => void = () => {}

  private constructor(client: Client, connection: NatsConnection, manager: JetStreamManager) {
    this.client = client
    this.connection = connection
    this.manager = manager
    this.#statuses = connection.status()
    void this.#watch().catch((error: unknown) => this.#lose(error))
    if (connection.isClosed()) this.#lose()
  }

  static async open(client: Client): Promise<Link> {
    const connection = await client.connect()
    return new Link(client, connection, await client.manager(connection))
  }

  /** Aborts when the link is lost or closed, with the reason. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Sends without waiting. A broken link is not an error here: its messages are redelivered, and its requests are repeated. */
  send(subject: string, payload: Uint8Array, reply?: string): void {
    if (this.lost.aborted) return
    try {
      this.connection.publish(subject, payload, reply === undefined ? {} : { reply })
    } catch {
      // The connection was closed a moment ago.
    }
  }

  /** A fresh subject for replies. */
  inbox(): string {
    return `${this.client.inboxPrefix(this.connection)}.${systemRandom.token().replaceAll('-', '')}`
  }

  /** Listens until the link ends or the listener is stopped. Messages that are already on their way are still delivered. */
  listen(subject: string, hear: (message: Msg) => void, options: { queue?: string } = {}): Listener {
    const subscription = this.connection.subscribe(subject, {
      ...options,
      callback: (error, message) => {
        // An error thrown here would make the client stop reading.
        try {
          if (error === null && !this.lost.aborted) hear(message)
        } catch (thrown) {
          this.#lose(thrown)
        }
      },
    })
    // Remembered, because the user's client would subscribe again after a reconnect.
    this.#subscriptions.add(subscription)
    const stop = async (): Promise<void> => {
      await subscription.drain().catch(() => {})
      this.#subscriptions.delete(subscription)
    }
    return { stop }
  }

  /** Waits until the server has received everything that was sent, at most this long. */
  async flush(ms: number): Promise<void> {
    if (this.lost.aborted) return
    const flushed = this.connection.flush().catch(() => {})
    await within(systemClock, ms, flushed, () => undefined)
  }

  /** Ends a link that is of no use, although it is open. */
  giveUp(error: HapaxError): void {
    this.#lose(error)
  }

  async close(): Promise<void> {
    this.#lose(new HapaxError('closed', 'the link was closed'))
    if (!this.client.owns) return
    const closed = this.connection.close().catch(() => {})
    await within(systemClock, CLOSE_MS, closed, () => undefined)
  }

  async #watch(): Promise<void> {
    for await (const status of this.#statuses) {
      const why = LOSSES[status.type]
      if (why !== undefined) return this.#lose(new Error(why))
      if (status.type === 'error') this.#refused(status.error)
    }
    this.#lose()
  }

  #refused(error: Error): void {
    const subject = fieldOf(error, 'subject')
    if (isRefusal(error) && typeof subject === 'string') this.onRefusal(subject, error)
  }

  #lose(reason: unknown = new Error('it is closed')): void {
    if (this.lost.aborted) return
    const why = messageOf(asError(reason))
    const error = reason instanceof HapaxError ? reason : lost(why, reason)
    this.#lost.abort(error)
    for (const each of this.#subscriptions) quietly(() => each.unsubscribe())
    // The client's iterator would otherwise go on collecting events that are never read.
    const stop = fieldOf(this.#statuses, 'stop')
    if (typeof stop === 'function') quietly(() => stop.call(this.#statuses))
    // A link that was given up may still be open, and messages may still arrive on it.
    if (this.client.owns) void this.connection.close().catch(() => {})
  }
}

/** A subscription of a link. */
export interface Listener {
  /** Delivers what is already on its way, then nothing more. */
  stop(): Promise<void>
}

const LOSSES: Readonly<Record<string, string>> = {
  disconnect: 'the connection broke',
  staleConnection: 'the server has been silent for too long',
  close: 'the connection was closed',
}
/** How long closing may take before the link is abandoned. */
const CLOSE_MS = 1_000

function lost(why: string, cause: unknown): HapaxError {
  return new HapaxError('broker-unavailable', `the link to NATS was lost: ${why}`, { cause })
}

function quietly(call: () => void): void {
  try {
    call()
  } catch {
    // The connection is closed already.
  }
}
