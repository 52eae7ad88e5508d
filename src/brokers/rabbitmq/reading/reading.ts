import { fieldOf, HapaxError, heard, pause, systemClock } from '../../../base/index.ts'
import type { Handle, Incoming } from '../../kit/index.ts'
import type { AmqpChannel, AmqpConnection, AmqpMessage } from '../client.ts'
import { serverClose } from '../errors.ts'
import { Existing } from '../existing.ts'
import { closed, type Link } from '../link.ts'
import type { QueuePlace } from '../options.ts'
import { declareQueue } from '../topology.ts'
import { arrivalOf } from '../wire.ts'
import { Acks } from './acks.ts'
import { guardFrames } from './frames.ts'

/** What a reading reports to its reader. */
export interface Listener {
  /** The queue differs from its declaration and is read all the same. */
  differs(warning: HapaxError): void
  /** The channel exists. Messages may arrive before `open` resolves. */
  began(reading: Reading): void
  arrived(incoming: Incoming<Token>): void
  /** The channel has ended. Its deliveries can no longer be answered. */
  lost(reading: Reading): void
}

/** One channel that consumes a queue. Its deliveries can be answered only on it, and only as long as it lasts. */
export class Reading {
  readonly #link: Link
  readonly #place: QueuePlace
  readonly #channel: AmqpChannel
  readonly #listener: Listener
  readonly #acks: Acks
  /** Deliveries that are rejected after a delay, by tag, with what cancels it. */
  readonly #rejecting = new Map<number, () => void>()
  #consumer = ''
  #resizing: Promise<void> = Promise.resolve()
  #error: unknown
  #cancelled = false
  #stopped = false
  #ended = false

  private constructor(link: Link, place: QueuePlace, channel: AmqpChannel, listener: Listener) {
    this.#link = link
    this.#place = place
    this.#channel = channel
    this.#listener = listener
    this.#acks = new Acks((tag, allUpTo) => this.#tell(() => channel.ack(tagged(tag), allUpTo)))
    channel.on('error', (error: unknown) => {
      this.#error = error
    })
    channel.on('close', () => this.#lost())
  }

  /** Opens a channel, declares or checks the queue, and consumes it. */
  static open(link: Link, place: QueuePlace, count: number, listener: Listener): Promise<Reading> {
    const opening = async (connection: AmqpConnection): Promise<Reading> => {
      const version = fieldOf(connection.connection?.serverProperties, 'version')
      const existing = new Existing(place, String(version))
      const channel = await declared(connection, place, existing)
      const reading = new Reading(link, place, channel, listener)
      if (existing.warning !== undefined) listener.differs(existing.warning)
      listener.began(reading)
      await reading.#begin(count)
      return reading
    }
    return link.use(`queue ${place.name}`, opening, { patient: true, late: (reading) => reading.close() })
  }

  get isOpen(): boolean {
    return !this.#ended
  }

  /** Why it ended. */
  get error(): HapaxError {
    const what = `queue ${this.#place.name}`
    if (this.#cancelled) {
      return new HapaxError('topology-mismatch', `${what} was deleted, or the server does not let it be read any more`)
    }
    const by = serverClose(this.#error)
    if (by === undefined) return this.#link.lost(what)
    if (TIMED_OUT.test(by.sentence))
      return heldTooLong(what, `the server closed the channel: ${by.sentence}`, this.#error)
    return new HapaxError('broker-refused', `${what}: the server closed the channel: ${by.sentence}`, {
      cause: this.#error,
      fields: { replyCode: by.code },
    })
  }

  /** Why it ended, after a look at the queue: from 4.3 on, the server does not say why it cancels a consumer. */
  async explain(): Promise<HapaxError> {
    const ms = Math.round(this.#acks.heldMs ?? 0)
    if (!this.#cancelled || ms < LEAST_TIMEOUT_MS || !(await this.#isThere())) return this.error
    return heldTooLong(
      `queue ${this.#place.name}`,
      `the server ended the subscription after ${ms} ms without an answer`,
    )
  }

  async #isThere(): Promise<boolean> {
    const { name } = this.#place
    // A queue that is being deleted is still found for a moment.
    await pause(systemClock, DELETION_MS)
    const look = async (connection: AmqpConnection): Promise<boolean> => {
      const channel = heard(await connection.createChannel())
      await channel.checkQueue(name)
      return closed(channel)
    }
    return this.#link.use(`queue ${name}`, look, { patient: true }).catch(() => false)
  }

  /** Changes the prefetch. Messages in hand are not affected. */
  resize(count: number): void {
    this.#next(async () => {
      await this.#cancel()
      await this.#consume(count)
    })
  }

  /** Pauses the subscription until `resume`. `hushed` is called when everything that was on its way has arrived. */
  hush(hushed: () => void): void {
    this.#next(async () => {
      await this.#cancel()
      hushed()
    })
  }

  resume(count: number): void {
    this.#next(() => this.#consume(count))
  }

  /** Messages may arrive together with the reply. What they cause (resize, hush) has to come after it. */
  #begin(count: number): Promise<void> {
    const begun = this.#consume(count)
    this.#resizing = begun.catch(() => {})
    return begun
  }

  /** Runs requests one after another: a consumer tag has to be known before it can be cancelled. */
  #next(question: () => Promise<void>): void {
    this.#resizing = this.#resizing.then(() => this.#ask(question))
  }

  /** Stops deliveries. Messages in hand can still be answered. */
  async stop(): Promise<void> {
    await this.#resizing
    await this.#ask(() => this.#cancel())
    this.#stopped = true
    for (const [tag, cancel] of this.#rejecting) {
      cancel()
      this.#reject(tag)
    }
  }

  /** Closes the channel. The server requeues unacked messages in their order. False: it no longer responds. */
  async close(): Promise<boolean> {
    if (this.#ended) return true
    this.#acks.flush()
    this.#end()
    return closed(this.#channel)
  }

  ack(tag: number): void {
    if (!this.#ended) this.#acks.ack(tag)
  }

  /**
   * Returns a message. With a single reader it stays until the channel ends: returned alone, it would come after messages that were
   * delivered later.
   */
  giveBack(tag: number): void {
    if (this.#ended || this.#place.single) return
    this.#acks.returned(tag)
    this.#tell(() => this.#channel.nack(tagged(tag), false, true))
  }

  /** Rejects after a delay. The delay is here because the server has none; the server counts the rejection. */
  rejectLater(tag: number, delayMs: number): void {
    if (this.#ended) return
    const cancel = systemClock.after(this.#stopped ? 0 : delayMs, () => this.#reject(tag))
    this.#rejecting.set(tag, cancel)
  }

  /** `reject` and not `nack`: every version of the server counts a `reject`, newer ones do not count a `nack`. */
  #reject(tag: number): void {
    this.#rejecting.delete(tag)
    this.#acks.returned(tag)
    this.#tell(() => this.#channel.reject(tagged(tag), true))
  }

  async #consume(count: number): Promise<void> {
    await this.#channel.prefetch(count)
    const receive = (message: AmqpMessage | null): void => this.#receive(message)
    const { consumerTag } = await this.#channel.consume(this.#place.name, receive)
    this.#consumer = consumerTag
  }

  async #cancel(): Promise<void> {
    if (this.#consumer !== '') await this.#channel.cancel(this.#consumer)
    this.#consumer = ''
  }

  #receive(message: AmqpMessage | null): void {
    if (this.#ended) return
    if (message === null) {
      this.#cancelled = true
      this.#lost()
      void closed(this.#channel)
      return
    }
    const tag = message.fields.deliveryTag
    this.#acks.add(tag)
    const handle = new Token(this, tag)
    this.#listener.arrived({ arrival: arrivalOf(message), bytes: message.content.length, handle })
  }

  /** Runs a request. A failure means that the link or the channel has ended, which is reported elsewhere. */
  async #ask(question: () => Promise<unknown>): Promise<void> {
    if (this.#ended) return
    await this.#link.use(`queue ${this.#place.name}`, question).catch(() => {})
  }

  /** Sends an answer. A broken link is not an error: the message is redelivered. */
  #tell(say: () => void): void {
    try {
      say()
    } catch {
      // The channel is being closed. Its end is reported by an event.
    }
  }

  #lost(): void {
    if (this.#ended) return
    this.#end()
    this.#listener.lost(this)
  }

  #end(): void {
    this.#ended = true
    this.#acks.drop()
    for (const cancel of this.#rejecting.values()) cancel()
    this.#rejecting.clear()
  }
}

/** Below any sensible consumer_timeout. */
const LEAST_TIMEOUT_MS = 1_000
const DELETION_MS = 250

/** The reply text of servers before 4.3 for a consumer that exceeded consumer_timeout. */
const TIMED_OUT = /delivery acknowledgement on channel \d+ timed out/

function heldTooLong(what: string, detail: string, cause?: unknown): HapaxError {
  const meaning = `a message was held unanswered for longer than the server's consumer_timeout: ${detail}`
  return new HapaxError('consumer-timeout', `${what}: ${meaning}`, { cause })
}

/** A channel on which the queue was declared. The server closes a channel when it refuses, so each attempt has its own. */
async function declared(connection: AmqpConnection, place: QueuePlace, existing: Existing): Promise<AmqpChannel> {
  for (;;) {
    // The error event repeats the rejection.
    const channel = heard(await connection.createChannel())
    guardFrames(connection, channel)
    try {
      await declareQueue(channel, place, existing.arguments)
      return channel
    } catch (error) {
      existing.adopt(error)
    }
  }
}

/** The handle of one delivery. */
export class Token implements Handle {
  readonly #reading: Reading
  readonly #tag: number

  constructor(reading: Reading, tag: number) {
    this.#reading = reading
    this.#tag = tag
  }

  ack(): void {
    this.#reading.ack(this.#tag)
  }

  giveBack(): void {
    this.#reading.giveBack(this.#tag)
  }

  reject(delayMs: number): boolean {
    this.#reading.rejectLater(this.#tag, delayMs)
    return true
  }
}

function tagged(deliveryTag: number): { readonly fields: { readonly deliveryTag: number } } {
  return { fields: { deliveryTag } }
}
