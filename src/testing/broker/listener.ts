import assert from 'node:assert/strict'
import type { HapaxError } from '../../base/index.ts'
import type { Delivery, Prefetch, Reader, Subscription } from '../../contracts/index.ts'
import type { Arrival, IncomingMessage } from '../../message/index.ts'
import { decodeArrival } from '../../message/index.ts'
import { settled, until } from '../wait.ts'

/** One delivery, as it was when it came: the same message may be handed out again as the same object. */
export class Received {
  readonly arrival: Arrival
  readonly bytes: number
  readonly message: IncomingMessage
  readonly #delivery: Delivery
  readonly #answered: () => void

  constructor(delivery: Delivery, answered: () => void) {
    this.arrival = delivery.arrival
    this.bytes = delivery.bytes
    this.message = decodeArrival(delivery.arrival, {}, 64 * 1024 * 1024)
    this.#delivery = delivery
    this.#answered = answered
  }

  get id(): string {
    return String(this.message.id)
  }

  ack(): void {
    this.#answered()
    this.#delivery.ack()
  }

  retry(delayMs: number): void {
    this.#answered()
    this.#delivery.retry(delayMs)
  }

  reject(delayMs: number): void {
    this.#answered()
    this.#delivery.reject(delayMs)
  }
}

/** A reader that keeps its deliveries until the case settles them. */
export class Listener {
  /** Everything that came, in order. */
  readonly received: Received[] = []
  readonly reports: HapaxError[] = []
  readonly features: Subscription['features']
  /** The most messages, and bytes, that it had in hand at once. */
  readonly most = { messages: 0, bytes: 0 }
  readonly #inHand = new Set<Received>()
  readonly #each: ((received: Received) => void) | undefined
  #taken = 0
  #reader: Reader | undefined

  constructor(subscription: Subscription, each: ((received: Received) => void) | undefined) {
    this.features = subscription.features
    this.#each = each
  }

  static async open(
    subscription: Subscription,
    prefetch: Prefetch,
    each?: (received: Received) => void,
  ): Promise<Listener> {
    const listener = new Listener(subscription, each)
    const opening = subscription.open({
      types: 'all',
      prefetch,
      receive: (deliveries) => listener.#receive(deliveries),
      report: (error) => listener.reports.push(error),
    })
    listener.#reader = await settled(opening, `${subscription.name} is open`)
    return listener
  }

  /** The ids of everything that came, in order. */
  get ids(): readonly string[] {
    return this.received.map(({ id }) => id)
  }

  /** Waits until so many deliveries have come in all. */
  async came(count: number): Promise<void> {
    await until(
      () => this.received.length >= count,
      () => `${count} deliveries; came: ${this.received.length}, the last of them ${this.ids.slice(-20).join(' ')}`,
    )
  }

  /** Waits for so many deliveries beyond those taken before, and gives them. */
  async take(count: number): Promise<readonly Received[]> {
    const from = this.#taken
    this.#taken += count
    await this.came(from + count)
    return this.received.slice(from, from + count)
  }

  /** Takes and acks so many, the next one after the one before it. */
  async ackOneByOne(count: number): Promise<void> {
    for (let at = 0; at < count; at++) for (const received of await this.take(1)) received.ack()
  }

  /** Waits until each of these messages has come, whatever else came as well. */
  async takeAllOf(ids: readonly string[]): Promise<void> {
    const missing = (): readonly string[] => {
      const came = new Set(this.ids)
      return ids.filter((id) => !came.has(id))
    }
    await until(
      () => missing().length === 0,
      () => `deliveries of ${missing().slice(0, 50).join(' ')}; came: ${this.ids.slice(-50).join(' ')}`,
    )
    this.#taken = this.received.length
  }

  /** Takes one delivery, of this message. */
  async takeOne(id: string): Promise<Received> {
    const [received] = await this.take(1)
    assert.equal(received?.id, id)
    return received
  }

  async pause(): Promise<void> {
    await settled(this.#reader?.pause() ?? Promise.resolve(), 'the reader is paused')
  }

  async close(): Promise<void> {
    await settled(this.#reader?.close() ?? Promise.resolve(), 'the reader is closed')
  }

  #receive(deliveries: readonly Delivery[]): void {
    const received = deliveries.map((delivery) => {
      const each: Received = new Received(delivery, () => this.#inHand.delete(each))
      return each
    })
    for (const each of received) this.#inHand.add(each)
    this.most.messages = Math.max(this.most.messages, this.#inHand.size)
    this.most.bytes = Math.max(this.most.bytes, this.bytesInHand)
    this.received.push(...received)
    for (const each of received) this.#each?.(each)
  }

  get bytesInHand(): number {
    let bytes = 0
    for (const each of this.#inHand) bytes += each.bytes
    return bytes
  }
}
