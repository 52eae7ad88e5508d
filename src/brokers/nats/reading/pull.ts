import type { Msg } from '@nats-io/transport-node'
import { HapaxError, systemClock } from '../../../base/index.ts'
import type { RequestLimits } from '../consumers.ts'
import type { Link, Listener } from '../link.ts'
import { nanos } from '../streams.ts'
import { positionOf } from '../wire.ts'

export interface PullOptions {
  readonly link: Link
  readonly stream: string
  readonly consumer: string
  readonly heartbeatMs: number
  readonly limits: RequestLimits
  /** Whether the server may be asked about the consumer. */
  readonly enquire: boolean
  /** How many messages, and bytes, may be asked for; whether nothing is in hand. */
  room(): { readonly messages: number; readonly bytes: number; readonly empty: boolean }
  receive(messages: readonly Msg[]): void
  /** Messages cannot be asked for any more. `gone`: the consumer was deleted. */
  broken(error: HapaxError, gone: boolean): void
}

/**
 * Asks a consumer for messages, with one request at a time: as many as there is room for. The client library has no such
 * thing: it asks by count or by bytes, and again whether or not there is room.
 */
export class Pull {
  readonly #options: PullOptions
  readonly #inbox: string
  readonly #listener: Listener
  readonly #cancelWatch: () => void
  #arrived: Msg[] = []
  #number = 0
  /** How many messages of the request are still to come; 0: there is no request. */
  #left = 0
  /** The next message is larger than the room that there was. */
  #blocked = false
  #heardAt = 0
  #stopped = false
  /** Whether the server has answered a request. */
  healthy = false

  constructor(options: PullOptions) {
    this.#options = options
    const { link, heartbeatMs } = options
    this.#inbox = link.inbox()
    this.#listener = link.listen(`${this.#inbox}.*`, (message) => this.#hear(message))
    this.#cancelWatch = every(heartbeatMs / 4, () => this.#watch())
    link.lost.addEventListener('abort', this.#cancelWatch, { once: true })
  }

  /** There may be room. */
  ask(): void {
    // What has arrived and is not handed out yet takes up room; handing it out asks again.
    if (this.#stopped || this.#left > 0 || this.#arrived.length > 0) return
    const { messages, bytes, empty } = this.#options.room()
    if (messages <= 0) return
    // Nothing in hand, and the next message does not fit: it comes alone.
    const alone = this.#blocked && empty
    this.#blocked = false
    const { limits } = this.#options
    this.#left = alone ? 1 : Math.min(messages, limits.messages)
    this.#request(Math.min(alone ? limits.bytes : Math.min(bytes, MOST_BYTES), limits.bytes))
  }

  /** No more requests. Resolves when what was on its way has come, and the server has forgotten the request. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    this.#cancelWatch()
    await this.#listener.stop()
    if (this.#left > 0) await this.#withdraw()
  }

  /**
   * Servers of 2.9 keep a request that nobody listens for, and lose sight of the first message that is given back while there
   * is no other, until its ack time is over. When they are asked about the consumer, they look which requests are alive.
   */
  async #withdraw(): Promise<void> {
    const { link, stream, consumer, enquire } = this.#options
    if (enquire && !link.lost.aborted) await link.manager.consumers.info(stream, consumer).catch(() => {})
  }

  /** Whether a subject is needed to ask, to hear the answers, or to ack. */
  uses(subject: string): boolean {
    const { stream, consumer } = this.#options
    const acks = positionOf(subject)?.stream === stream && subject.includes(`.${consumer}.`)
    return acks || subject === this.#next || subject.startsWith(this.#inbox)
  }

  /** Where requests go. */
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
      // The server wants to say so at least twice.
      idle_heartbeat: nanos(Math.round(Math.min(heartbeatMs, expiresMs) / 3)),
    }
    const payload = Buffer.from(JSON.stringify(request))
    link.send(this.#next, payload, `${this.#inbox}.${this.#number}`)
  }

  /** Messages keep the subject that they were sent to; what comes under ours is the server speaking. */
  #hear(message: Msg): void {
    this.#heardAt = systemClock.monotonic()
    if (message.subject.startsWith(this.#inbox)) return void this.#status(message)
    this.healthy = true
    this.#left = Math.max(0, this.#left - 1)
    this.#arrived.push(message)
    // What comes in one piece is handed out in one piece.
    if (this.#arrived.length === 1) queueMicrotask(() => this.#handOut())
  }

  #handOut(): void {
    this.#options.receive(this.#arrived.splice(0))
    this.ask()
  }

  #status({ subject, headers }: Msg): void {
    const code = headers?.code
    const words = headers?.description ?? ''
    // A heartbeat, or something about a request that was answered already.
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

  /** Asked again when there is more room. */
  #isBlocked(): void {
    this.healthy = true
    this.#blocked = true
    if (this.#options.room().empty) this.ask()
  }

  /** The server says so at least three times in this span that the request is alive. */
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

const EXPIRES_MS = 30_000
const MOST_BYTES = 1024 ** 3

/** Calls again and again; returns what ends it. */
export function every(ms: number, call: () => void): () => void {
  const timer = setInterval(call, ms)
  return () => clearInterval(timer)
}
