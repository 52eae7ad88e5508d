import type { JetStreamManager } from '@nats-io/jetstream'
import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node'
import { asError, fieldOf, HapaxError, messageOf, systemClock, systemRandom, within } from '../../base/index.ts'
import type { Client } from './client.ts'
import { isRefusal } from './errors.ts'

/** A connection for as long as it lasts. One that broke is never used again, also if the user's client revives it. */
export class Link {
  readonly client: Client
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  readonly #lost = new AbortController()
  readonly #statuses: ReturnType<NatsConnection['status']>
  readonly #subscriptions = new Set<Subscription>()
  /** Told of what the server did not allow on this connection; others may use it as well. */
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

  /** Aborts when the link is lost, with the reason, or closed. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Sends without waiting. A broken link is not an error here: what was sent on it comes to nothing. */
  send(subject: string, payload: Uint8Array, reply?: string): void {
    if (this.lost.aborted) return
    try {
      this.connection.publish(subject, payload, reply === undefined ? {} : { reply })
    } catch {
      // Closed in this moment.
    }
  }

  /** A subject of its own for answers. */
  inbox(): string {
    return `${this.client.inboxPrefix(this.connection)}.${systemRandom.token().replaceAll('-', '')}`
  }

  /** Listens until the link ends, or until the listener is stopped: what is on its way then is still heard. */
  listen(subject: string, hear: (message: Msg) => void, options: { queue?: string } = {}): Listener {
    const subscription = this.connection.subscribe(subject, {
      ...options,
      callback: (error, message) => {
        // Nothing may be thrown here: the client would stop reading.
        try {
          if (error === null && !this.lost.aborted) hear(message)
        } catch (thrown) {
          this.#lose(thrown)
        }
      },
    })
    // The user's client would listen again after a reconnect.
    this.#subscriptions.add(subscription)
    const stop = async (): Promise<void> => {
      await subscription.drain().catch(() => {})
      this.#subscriptions.delete(subscription)
    }
    return { stop }
  }

  /** Waits until the server has seen all that was sent, or for so long. */
  async flush(ms: number): Promise<void> {
    if (this.lost.aborted) return
    const flushed = this.connection.flush().catch(() => {})
    await within(systemClock, ms, flushed, () => undefined)
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
    // An iterator of the client's own kind; it would go on to collect what nobody reads.
    const stop = fieldOf(this.#statuses, 'stop')
    if (typeof stop === 'function') quietly(() => stop.call(this.#statuses))
    // A link that was given up may still be open: nothing answers there, but something may come.
    if (this.client.owns) void this.connection.close().catch(() => {})
  }
}

/** A subscription of a link. */
export interface Listener {
  /** Hears what is on its way already, and then no more. */
  stop(): Promise<void>
}

const LOSSES: Readonly<Record<string, string>> = {
  disconnect: 'the connection broke',
  staleConnection: 'nothing was heard of the server',
  close: 'the connection was closed',
}
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
