import type { Confirmation, Delivery, Destination, Prefetch, Settle, Subscription } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { arrivalOf } from '../../message/index.ts'
import { chance } from './chance.ts'

/** A message in the queue; redelivered if a worker had it before. */
export type Queued = OutgoingMessage & { readonly redelivered?: boolean }

/** One delivery of a message to the worker's process. */
export interface Handed {
  readonly tag: number
  readonly message: Queued
}

/** What the worker's process reports about its deliveries. */
export type QueueReport =
  | { readonly kind: 'open'; readonly prefetch: Prefetch }
  | { readonly kind: 'pause' }
  | { readonly kind: 'settled'; readonly tag: number; readonly ack: boolean; readonly delayMs: number }

const MAX_DELAY_MS = 1000
const CONFIRMED: Confirmation = { status: 'confirmed' }

/**
 * Stands in for a message broker with one queue and at-least-once delivery. It delivers a third of the messages twice, and redelivers what
 * a worker did not acknowledge before it died.
 */
export class Broker implements Destination {
  readonly name = 'the broker of the demo'
  readonly features = { keepsOrder: true }
  readonly #seed: number
  readonly #type: string
  readonly #queue: Queued[] = []
  readonly #unacked = new Map<number, Queued>()
  #send: ((handed: Handed) => void) | undefined
  #prefetch = 0
  #later = 0
  #messages = 0
  #tag = 0

  /** The queue takes messages of this type; the others are confirmed and dropped. */
  constructor(seed: number, type: string) {
    this.#seed = seed
    this.#type = type
  }

  /** The number of deliveries so far. */
  get delivered(): number {
    return this.#tag
  }

  get idle(): boolean {
    return this.#queue.length === 0 && this.#unacked.size === 0 && this.#later === 0
  }

  prepare(): Promise<void> {
    return Promise.resolve()
  }

  publish(messages: readonly OutgoingMessage[], _: AbortSignal, settle: Settle): void {
    for (const message of messages) if (message.type === this.#type) this.#route(message)
    for (const index of messages.keys()) settle(index, CONFIRMED)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  /** Starts delivering to a worker, up to its prefetch. */
  attach(send: (handed: Handed) => void, { messages }: Prefetch): void {
    this.#send = send
    this.#prefetch = messages
    this.#pump()
  }

  /** Stops delivering; the worker may still acknowledge what it has. */
  pause(): void {
    this.#send = undefined
  }

  /** The worker has died: what it held is delivered again and marked as redelivered, as brokers do. */
  detach(): void {
    this.#send = undefined
    this.#queue.unshift(...[...this.#unacked.values()].map(again))
    this.#unacked.clear()
  }

  settle(tag: number, ack: boolean, delayMs: number): void {
    const message = this.#unacked.get(tag)
    this.#unacked.delete(tag)
    if (message !== undefined && !ack) this.#enqueueLater(again(message), delayMs)
    this.#pump()
  }

  #route(message: OutgoingMessage): void {
    this.#messages += 1
    this.#enqueue(message)
    if (chance(this.#seed, 'copy', this.#messages) >= 1 / 3) return
    this.#enqueueLater(message, MAX_DELAY_MS * chance(this.#seed, 'delay', this.#messages) ** 2)
  }

  #enqueueLater(message: Queued, delayMs: number): void {
    this.#later += 1
    setTimeout(() => {
      this.#later -= 1
      this.#enqueue(message)
    }, delayMs)
  }

  #enqueue(message: Queued): void {
    this.#queue.push(message)
    this.#pump()
  }

  #pump(): void {
    while (this.#send !== undefined && this.#unacked.size < this.#prefetch) {
      const message = this.#queue.shift()
      if (message === undefined) return
      this.#tag += 1
      this.#unacked.set(this.#tag, message)
      this.#send({ tag: this.#tag, message })
    }
  }
}

function again(message: Queued): Queued {
  return { ...message, redelivered: true }
}

/** The channel between the broker's process and the worker's, as the worker sees it. */
export interface Channel {
  tell(report: QueueReport): void
  onHanded(receive: (handed: Handed) => void): void
}

/** The queue of the broker, for a consumer in the worker's process. */
export function queueOf(channel: Channel): Subscription {
  return {
    name: 'the queue of the demo',
    features: { ordersKeys: false, marksRedelivered: true, horizonMs: undefined, limitsRejects: false },
    open: async ({ prefetch, receive }) => {
      channel.onHanded((handed) => receive([deliveryOf(handed, channel)]))
      channel.tell({ kind: 'open', prefetch })
      return {
        horizonMs: undefined,
        pause: async () => channel.tell({ kind: 'pause' }),
        close: async () => {},
      }
    },
  }
}

function deliveryOf({ tag, message }: Handed, { tell }: Channel): Delivery {
  const settle = (ack: boolean, delayMs: number): void => tell({ kind: 'settled', tag, ack, delayMs })
  return {
    arrival: arrivalOf(message, message.redelivered === true),
    bytes: message.data.byteLength,
    ack: () => settle(true, 0),
    retry: (delayMs) => settle(false, delayMs),
    reject: (delayMs) => settle(false, delayMs),
  }
}
