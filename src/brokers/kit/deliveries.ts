import { type Clock, systemClock } from '../../base/index.ts'
import type { Delivery, Prefetch } from '../../contracts/index.ts'
import type { Arrival } from '../../message/index.ts'

/** What a driver can do with one message that it handed out. None of these may throw. */
export interface Handle {
  ack(): void
  /** Gives it back to the broker at once, for other readers. */
  giveBack(): void
  /** Gives it back after this time and lets the broker count; false: this broker does not count, so it waits here. */
  reject(delayMs: number): boolean
}

/** One message to hand out. */
export interface Incoming<H extends Handle> {
  readonly arrival: Arrival
  readonly bytes: number
  readonly handle: H
}

/** What the deliveries of a reader need. */
export interface DeliveriesOptions {
  readonly prefetch: Prefetch
  receive(deliveries: readonly Delivery[]): void
  /** Something was answered: there is room again. */
  answered?(): void
  readonly clock?: Clock
}

/**
 * What a reader has in hand. A message that could not be taken waits here, not in the broker: brokers count what is put back,
 * and drop or set aside what comes too often, although the message is not to blame. So an outage of the database costs no
 * message its place. Drivers use one per reader and forget all of it when the link is lost.
 */
export class Deliveries<H extends Handle = Handle> {
  readonly #options: DeliveriesOptions
  readonly #clock: Clock
  readonly #inHand = new Set<Held<H>>()
  #bytes = 0
  #paused = false

  constructor(options: DeliveriesOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  /** Hands messages out, in this order. */
  hand(incoming: readonly Incoming<H>[]): void {
    const held = incoming.map((each) => new Held(each, this.#answers))
    for (const each of held) {
      this.#inHand.add(each)
      this.#bytes += each.bytes
    }
    if (held.length > 0) this.#options.receive(held)
  }

  get size(): number {
    return this.#inHand.size
  }

  /** How many more messages may be asked for. */
  get room(): number {
    const { messages, bytes } = this.#options.prefetch
    if (this.#paused || (this.#inHand.size > 0 && this.#bytes >= bytes)) return 0
    return Math.max(0, messages - this.#inHand.size)
  }

  /** How many more bytes may be asked for; at least one message is always asked for. */
  get roomBytes(): number {
    return Math.max(1, this.#options.prefetch.bytes - this.#bytes)
  }

  /** Whatever has not been answered, in the order in which it came: for those who have to tell the broker that it is alive. */
  get handles(): readonly H[] {
    return [...this.#inHand].map(({ handle }) => handle)
  }

  /** From now on what is put back goes to the broker, and so does what waits here. */
  pause(): void {
    this.#paused = true
    for (const held of this.#inHand) if (held.waits) this.#giveBack(held)
  }

  /** The link is lost, or another reader has these now: later answers do nothing. */
  forget(which: (handle: H) => boolean = () => true): void {
    for (const held of [...this.#inHand]) if (which(held.handle)) this.#release(held)
    this.#options.answered?.()
  }

  readonly #answers: Answers<H> = {
    ack: (held) => {
      if (!this.#isOpen(held)) return
      this.#release(held)
      held.handle.ack()
      this.#options.answered?.()
    },
    retry: (held, delayMs) => {
      if (!this.#isOpen(held)) return
      if (this.#paused) this.#giveBack(held)
      else this.#keep(held, delayMs)
    },
    reject: (held, delayMs) => {
      if (!this.#isOpen(held)) return
      if (!held.handle.reject(delayMs)) return this.#answers.retry(held, delayMs)
      this.#release(held)
      this.#options.answered?.()
    },
  }

  /** Whether it may still be answered: not twice, and not while it waits to be handed out again. */
  #isOpen(held: Held<H>): boolean {
    return this.#inHand.has(held) && !held.waits
  }

  #keep(held: Held<H>, delayMs: number): void {
    held.waits = true
    held.cancel = this.#clock.after(delayMs, () => {
      const again = held.again()
      this.#inHand.delete(held)
      this.#inHand.add(again)
      this.#options.receive([again])
    })
  }

  #giveBack(held: Held<H>): void {
    if (!this.#release(held)) return
    held.handle.giveBack()
    this.#options.answered?.()
  }

  #release(held: Held<H>): boolean {
    if (!this.#inHand.delete(held)) return false
    held.cancel()
    this.#bytes -= held.bytes
    return true
  }
}

interface Answers<H extends Handle> {
  ack(held: Held<H>): void
  retry(held: Held<H>, delayMs: number): void
  reject(held: Held<H>, delayMs: number): void
}

class Held<H extends Handle> implements Delivery {
  readonly bytes: number
  readonly handle: H
  readonly arrival: Arrival
  /** Whether it waits here to be handed out again. */
  waits = false
  cancel: () => void = () => {}
  readonly #answers: Answers<H>

  constructor({ arrival, bytes, handle }: Incoming<H>, answers: Answers<H>) {
    this.arrival = arrival
    this.bytes = bytes
    this.handle = handle
    this.#answers = answers
  }

  /** The same message, once more: a delivery of its own, so that a late answer to the first one does nothing. */
  again(): Held<H> {
    const { arrival, bytes, handle } = this
    return new Held({ arrival: { ...arrival, redelivered: true }, bytes, handle }, this.#answers)
  }

  ack(): void {
    this.#answers.ack(this)
  }

  retry(delayMs: number): void {
    this.#answers.retry(this, delayMs)
  }

  reject(delayMs: number): void {
    this.#answers.reject(this, delayMs)
  }
}
