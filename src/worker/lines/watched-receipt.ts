import type { Facts, Messages, Running, SafeInstrument } from '../../base/index.ts'
import { findingsOf } from '../../consumer/index.ts'
import type { Delivery, Outcome } from '../../contracts/index.ts'
import { factsOfIncoming, type IncomingMessage } from '../../message/index.ts'

/** Deliveries of a broker, in the sight of an instrument: from the moment in which they are taken until they are answered. */
export class WatchedReceipt {
  readonly #instrument: SafeInstrument
  readonly #facts: Facts
  readonly #running: Running
  #messages: Messages | undefined

  constructor(instrument: SafeInstrument, facts: Facts, running: Running) {
    this.#instrument = instrument
    this.#facts = facts
    this.#running = running
  }

  received(incoming: readonly IncomingMessage[], deliveries: readonly Delivery[]): void {
    this.#messages = factsOfIncoming(
      incoming,
      deliveries.map(({ bytes }) => bytes),
    )
    this.#running.add({ messages: this.#messages })
  }

  failed(error: unknown): void {
    this.#running.add({ error })
  }

  /** Answers the broker. */
  settle<T>(outcomes: readonly Outcome[], answer: () => T): T {
    this.#running.add(findingsOf(outcomes))
    const facts = this.#messages === undefined ? this.#facts : { ...this.#facts, messages: this.#messages }
    return this.#running.enter(() => this.#instrument.around('settle', facts, answer))
  }
}
