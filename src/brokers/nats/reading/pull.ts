import type { Msg } from '@nats-io/transport-node'
import { HapaxError, systemClock } from '../../../base/index.ts'
import type { RequestLimits } from '../consumers.ts'
import type { Link, Listener } from '../link.ts'
import { nanos } from '../streams.ts'
import { positionOf } from '../wire.ts'

/** What a pull needs of its reader. */
export interface PullOptions {
  readonly link: Link
  readonly stream: string
  readonly consumer: string
  readonly heartbeatMs: number
  readonly limits: RequestLimits
  /** Whether hapax may look up the consumer; not with `declare: 'none'`. */
  readonly enquire: boolean
  /** How many messages and bytes may be requested, and whether nothing is in hand. */
  room(): { readonly messages: number; readonly bytes: number; readonly empty: boolean }
  receive(messages: readonly Msg[]): void
  /** Called when requests no longer work. `gone`: the consumer was deleted. */
  broken(error: HapaxError, gone: boolean): void
}

/**
 * Requests messages from a consumer, one request at a time, as many as there is room for. The client library cannot do that: it
 * limits by count or by bytes but not by both, and it requests more whether or not there is room.
 */
export class Pull {
  readonly #options: PullOptions
  readonly #inbox: string
  readonly #listener: Listener
  readonly #cancelWatch: () => void
  #arrived: Msg[] = []
  #number = 0
  /** How many messages of the current request are still to come; 0: no request is open. */
  #left = 0
  /** The next message did not fit into the bytes of the last request. */
  #blocked = false
  #heardAt = 0
  #stopped = false
  /** Whether the server has ever answered a request. */
  healthy = false

  constructor(options: PullOptions) {
    this.#options = options
    const { link, heartbeatMs } = options
    this.#inbox = link.inbox()
    this.#listener = link.listen(`${this.#inbox}.*`, (message) => this.#hear(message))
    this.#cancelWatch = every(heartbeatMs / 4, () => this.#watch())
    link.lost.addEventListener('abort', this.#cancelWatch, { once: true })
  }

  /** Sends a request if there is room and none is open. */
  ask(): void {
    // Messages that have arrived and are not handed out yet take up room. Handing them out asks again.
    if (this.#stopped || this.#left > 0 || this.#arrived.length > 0) return
    const { messages, bytes, empty } = this.#options.room()
    if (messages <= 0) return
    // Nothing is in hand and the next message still does not fit: request it alone, whatever its size.
    const alone = this.#blocked && empty
    this.#blocked = false
    const { limits } = this.#options
    this.#left = alone ? 1 : Math.min(messages, limits.messages)
    this.#request(Math.min(alone ? limits.bytes : Math.min(bytes, MOST_BYTES), limits.bytes))
  }

  /** Stops. Resolves when messages on their way have come and the server has dropped the open request. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    this.#cancelWatch()
    await this.#listener.stop()
    if (this.#left > 0) await this.#withdraw()
  }

  /**
   * NATS 2.9 keeps an abandoned request. While no other is open, it loses track of the first message that is given back, until the
   * ack time of that message is over. Looking up the consumer makes the server drop requests that have no listener.
   */
  async #withdraw(): Promise<void> {
    const { link, stream, consumer, enquire } = this.#options
    if (enquire && !link.lost.aborted) await link.manager.consumers.info(stream, consumer).catch(() => {})
  }

  /** Whether a denied subject is one that this pull needs: for requests, for replies or for acks. */
  uses(subject: string): boolean {
    const { stream, consumer } = this.#options
    const acks = positionOf(subject)?.stream === stream && subject.includes(`.${consumer}.`)
    return acks || subject === this.#next || subject.startsWith(this.#inbox)
  }

  /** The subject of pull requests. */
  get #next(): string {
    return `$JS.API.CONSUMER.MSG.NEXT.${this.#options.stream}.${this.#options.consumer}`
  }

  #request(bytes: number): void {
    const { link, heartbeatMs, limits } = this.#options
    this.#number += 1
    this.#heardAt = systemClock.monotonic()
    const expiresMs = Math.min(Math.max(EXPIRES_MS, heartbeatMs), limits.expiresMs)
    const request = {
      batch: this.#left,
      ...(Number.isFinite(bytes) ? { max_bytes: bytes } : {}),
      expires: nanos(expiresMs),
      // The server requires the heartbeat to be at most half of the expiry.
      idle_heartbeat: nanos(Math.round(Math.min(heartbeatMs, expiresMs) / 3)),
    }
    const payload = Buffer.from(JSON.stringify(request))
    link.send(this.#next, payload, `${this.#inbox}.${this.#number}`)
  }

  /** Messages keep their own subject. Under the inbox subject come status replies of the server. */
  #hear(message: Msg): void {
    this.#heardAt = systemClock.monotonic()
    if (message.subject.startsWith(this.#inbox)) return void this.#status(message)
    this.healthy = true
    this.#left = Math.max(0, this.#left - 1)
    this.#arrived.push(message)
    // Messages that arrive together are handed out together, so that groups are filled.
    if (this.#arrived.length === 1) queueMicrotask(() => this.#handOut())
  }

  #handOut(): void {
    this.#options.receive(this.#arrived.splice(0))
    this.ask()
  }

  #status({ subject, headers }: Msg): void {
    const code = headers?.code
    const words = headers?.description ?? ''
    // A heartbeat, or a status of an earlier request.
    if (code === 100) this.healthy = true
    if (code === 100 || subject !== `${this.#inbox}.${this.#number}`) return
    this.#left = 0
    if (code === 404 || code === 408 || /batch completed/i.test(words)) {
      this.healthy = true
      return void this.ask()
    }
    if (/exceeds maxbytes/i.test(words)) return void this.#isBlocked()
    this.#broken(`the server ended the request: ${code} ${words}`, /consumer deleted/i.test(words))
  }

  /** The next message is too large for the room. It is requested again when there is more. */
  #isBlocked(): void {
    this.healthy = true
    this.#blocked = true
    if (this.#options.room().empty) this.ask()
  }

  /** The server sends at least three heartbeats in `heartbeatMs` while a request is open. */
  #watch(): void {
    const silentMs = systemClock.monotonic() - this.#heardAt
    if (this.#left > 0 && silentMs > this.#options.heartbeatMs) {
      this.#broken(`nothing was heard of the request for ${Math.round(silentMs)} ms`, false)
    }
  }

  #broken(what: string, gone: boolean): void {
    if (this.#stopped) return
    const { stream, consumer, broken } = this.#options
    const code = gone ? 'topology-mismatch' : 'broker-unavailable'
    broken(new HapaxError(code, `consumer ${consumer} of ${stream} cannot be read: ${what}`), gone)
  }
}

/** How long a request stays open. */
const EXPIRES_MS = 30_000
const MOST_BYTES = 1024 ** 3

/** Calls a function periodically. Returns a function that stops it. */
export function every(ms: number, call: () => void): () => void {
  const timer = setInterval(call, ms)
  return () => clearInterval(timer)
}
