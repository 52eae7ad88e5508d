import { systemClock } from '../../core/clock.ts'
import type { Handle, Incoming } from '../../core/deliveries.ts'
import { HapaxError } from '../../core/errors.ts'
import { Acks } from './acks.ts'
import type { AmqpChannel, AmqpConnection, AmqpMessage } from './amqp.ts'
import { serverClose } from './errors.ts'
import { closed, type Link } from './link.ts'
import { declareQueue, type QueuePlace } from './topology.ts'
import { arrivalOf } from './wire.ts'

/** Who reads from a channel. */
export interface Listener {
  arrived(incoming: Incoming<Token>): void
  /** The channel has ended, and with it the right to answer what came through it. */
  lost(reading: Reading): void
}

/** One channel that consumes a queue. What came through it can be answered on it alone, and only as long as it lasts. */
export class Reading {
  readonly #link: Link
  readonly #place: QueuePlace
  readonly #channel: AmqpChannel
  readonly #listener: Listener
  readonly #acks: Acks
  /** What waits to be rejected. */
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

  /** Opens a channel, sees to the queue, and consumes it. */
  static open(link: Link, place: QueuePlace, count: number, listener: Listener): Promise<Reading> {
    const opening = async (connection: AmqpConnection): Promise<Reading> => {
      const channel = await connection.createChannel()
      const reading = new Reading(link, place, channel, listener)
      const { version } = (connection.connection?.serverProperties ?? {}) as { version?: unknown }
      await declareQueue(channel, place, String(version))
      await reading.#consume(count)
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
    return new HapaxError('broker-refused', `${what}: the server closed the channel: ${by.sentence}`, {
      cause: this.#error,
      fields: { replyCode: by.code },
    })
  }

  /** Asks for another number of messages ahead. What is in hand stays there. */
  resize(count: number): void {
    this.#resizing = this.#resizing.then(() =>
      this.#ask(async () => {
        await this.#channel.cancel(this.#consumer)
        await this.#consume(count)
      }),
    )
  }

  /** No more deliveries; what is in hand can still be answered. */
  async stop(): Promise<void> {
    await this.#resizing
    await this.#ask(() => this.#channel.cancel(this.#consumer))
    this.#stopped = true
    for (const [tag, cancel] of this.#rejecting) {
      cancel()
      this.#reject(tag)
    }
  }

  /** Ends it. The server gives what is not acked to others, in its order. False: it does not answer any more. */
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
   * With a single reader it stays where it is until the channel ends: given back alone, it would come behind those that were
   * delivered after it.
   */
  giveBack(tag: number): void {
    if (this.#ended || this.#place.single) return
    this.#acks.returned(tag)
    this.#tell(() => this.#channel.nack(tagged(tag), false, true))
  }

  /** Waits here, because the server has no delay; the server counts when it gets it back. */
  rejectLater(tag: number, delayMs: number): void {
    if (this.#ended) return
    const cancel = systemClock.after(this.#stopped ? 0 : delayMs, () => this.#reject(tag))
    this.#rejecting.set(tag, cancel)
  }

  /** Every version of the server counts a `reject`; newer ones do not count a `nack`. */
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

  /** Asks the server for something. When that fails, the link is lost or the channel has ended, which is told elsewhere. */
  async #ask(question: () => Promise<unknown>): Promise<void> {
    if (this.#ended) return
    await this.#link.use(`queue ${this.#place.name}`, question).catch(() => {})
  }

  /** A broken link is not an error: the message comes again. */
  #tell(say: () => void): void {
    try {
      say()
    } catch {
      // The channel is being closed; its end is told by an event.
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

/** One delivery in the hands of a reader. */
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
