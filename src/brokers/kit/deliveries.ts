// What every reader has in common: which messages are in hand, how much room is left, and what a late answer may still do.

import { type Clock, systemClock } from '../../base/index.ts'
import type { Delivery, Prefetch } from '../../contracts/index.ts'
import type { Arrival } from '../../message/index.ts'

/** What a driver can tell its broker about one message that it handed out. None of these may throw. */
export interface Handle {
  /** Lets the broker forget the message. */
  ack(): void
  /** Returns the message to the broker at once, for other readers. */
  giveBack(): void
  /** Returns the message after this time, so that the broker counts it. False: this broker does not count, so the message waits here. */
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
  /** Called when a message was answered and there is room again. */
  answered?(): void
  readonly clock?: Clock
}

/**
 * What a reader has in hand. A message that could not be taken waits here and not in the broker. Brokers count redeliveries, and
 * drop or dead-letter a message after too many of them; an outage of the database must not use up that count. Each reader has one
 * of these, and forgets its contents when the link is lost.
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

  /** Hands out messages in this order. */
  hand(incoming: readonly Incoming<H>[]): void {
    const held = incoming.map((each) => new Held(each, this.#answers))
    for (const each of held) {
      this.#inHand.add(each)
      this.#bytes += each.bytes
    }
    if (held.length > 0) this.#options.receive(held)
  }

  /** How many messages are in hand. */
  get size(): number {
    return this.#inHand.size
  }

  /** How many more messages may be requested. */
  get room(): number {
    const { messages, bytes } = this.#options.prefetch
    if (this.#paused || (this.#inHand.size > 0 && this.#bytes >= bytes)) return 0
    return Math.max(0, messages - this.#inHand.size)
  }

  /** How many more bytes may be requested. At least 1, because a message larger than the prefetch must still get through. */
  get roomBytes(): number {
    return Math.max(1, this.#options.prefetch.bytes - this.#bytes)
  }

  /** The handles of all unanswered messages, oldest first: some brokers must be told that work on them goes on. */
  get handles(): readonly H[] {
    return [...this.#inHand].map(({ handle }) => handle)
  }

  /** From now on, messages that are put back go to the broker, and so do those that wait here. */
  pause(): void {
    this.#paused = true
    for (const held of this.#inHand) if (held.waits) this.#giveBack(held)
  }

  /** Drops messages whose link is lost, or that another reader has now. Later answers to them do nothing. */
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

  /** Whether a delivery may still be answered: not twice, and not while it waits to be handed out again. */
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

  /** The same message as a new delivery, so that a late answer to the first one does nothing. */
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
