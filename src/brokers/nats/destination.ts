import { HapaxError, systemClock, within } from '../../base/index.ts'
import type { Address, Destination, DestinationFeatures, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { Call } from './call.ts'
import { Client } from './client.ts'
import { Link } from './link.ts'
import type { LinkSettings, StreamPlan } from './options.ts'
import { Sender, unavailable } from './sender.ts'
import { ensureStream } from './streams.ts'

/** A stream that a relay sends to. It connects with the first message, and after a loss with the next one. */
export class NatsDestination implements Destination {
  readonly name: string
  readonly address: Address
  /** Messages are sent without waiting for each other. If the server refuses one of them, later ones overtake it. */
  readonly features: DestinationFeatures = { keepsOrder: false }
  readonly #settings: LinkSettings
  readonly #plan: StreamPlan
  readonly #calls = new Set<Call>()
  #closed = false
  #sender: Promise<Sender> | undefined

  constructor(settings: LinkSettings, plan: StreamPlan) {
    this.#settings = settings
    this.#plan = plan
    this.name = `nats stream ${plan.name}`
    this.address = { system: 'nats', name: plan.name }
  }

  async prepare(): Promise<void> {
    await Client.load(this.#settings)
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const over = (): void => {
      signal.removeEventListener('abort', abort)
      call.cancel()
      this.#calls.delete(call)
    }
    const call = new Call(messages, settle, over)
    const abort = (): void => call.end(unavailable(new HapaxError('broker-timeout', 'NATS did not answer in time')))
    if (messages.length === 0) return
    if (signal.aborted) abort()
    else {
      signal.addEventListener('abort', abort, { once: true })
      this.#calls.add(call)
      void this.#send(call)
    }
  }

  async reach(): Promise<void> {
    const { link } = await this.#open()
    const { timeoutMs } = this.#settings
    // The client leaves a flush without an end when the connection is lost.
    await within(systemClock, timeoutMs, link.connection.flush(), () => this.#giveUp(link))
    if (link.lost.aborted) throw link.lost.reason
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const call of this.#calls) call.end(unavailable(this.#closedError()))
    const sender = this.#sender?.catch(() => undefined)
    // A sender that is still being opened is closed as soon as it is open.
    if (sender !== undefined)
      await within(systemClock, CLOSE_MS, sender, () => undefined).then((it) => it?.link.close())
  }

  /** Never rejects: every failure becomes an answer for each message. */
  async #send(call: Call): Promise<void> {
    try {
      const sender = await this.#open()
      if (call.isOver) return
      sender.send(call)
      if (!call.isOver) this.#await(call, sender.link)
    } catch (error) {
      call.end(unavailable(error))
    }
  }

  /** A server that does not reach the leader of the stream says nothing. Another link may find one that does. */
  #await(call: Call, link: Link): void {
    call.cancel = systemClock.after(this.#settings.timeoutMs, () => this.#giveUp(link))
  }

  #giveUp(link: Link): void {
    const what = `${this.name} did not answer within ${this.#settings.timeoutMs} ms`
    link.giveUp(new HapaxError('broker-timeout', what))
  }

  /** All messages wait for the same promise, so they are sent in the order in which they came. */
  #open(): Promise<Sender> {
    if (this.#closed) return Promise.reject(this.#closedError())
    return this.#sender ?? this.#remember(this.#connect())
  }

  #remember(opening: Promise<Sender>): Promise<Sender> {
    this.#sender = opening
    const drop = (): void => {
      if (this.#sender === opening) this.#sender = undefined
    }
    opening.then(({ link }) => link.lost.addEventListener('abort', drop, { once: true }), drop)
    return opening
  }

  async #connect(): Promise<Sender> {
    const link = await Link.open(await Client.load(this.#settings))
    return this.#declare(new Sender(link, this.#plan, () => this.#declareAgain(link)))
  }

  async #declare(sender: Sender): Promise<Sender> {
    const { link } = sender
    try {
      await ensureStream(link.manager, this.#plan)
      if (this.#closed) throw this.#closedError()
      return sender
    } catch (error) {
      await link.close()
      throw error
    }
  }

  /**
   * The stream may have been deleted, or the server is cut off from those that have it. The next message waits until the stream has been looked
   * up, and created again if `declare` allows that; otherwise it goes through another link, perhaps to another server: also one name may lead
   * to many.
   */
  #declareAgain(link: Link): void {
    const opened = this.#sender
    if (opened === undefined || link.lost.aborted) return
    const { origin } = this.#settings
    if (this.#plan.declare !== 'assert') {
      const what = `no server that this one knows has ${this.name}`
      if ('urls' in origin) link.giveUp(new HapaxError('broker-unavailable', what))
      return
    }
    void this.#remember(opened.then((sender) => this.#declare(sender)))
  }

  #closedError(): HapaxError {
    return new HapaxError('closed', `${this.name} is closed`)
  }
}

const CLOSE_MS = 1_000
