import type {
  Confirmation,
  Delivery,
  Destination,
  OutgoingMessage,
  Prefetch,
  Reader,
  Subscription,
} from '../core/broker.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import { arrivalOf } from '../core/cloudevents.ts'
import { noOthers, text } from '../core/options.ts'

/** Settings of the memory broker. */
export interface MemoryBrokerOptions {
  /** Says when a message that was put back comes again. @default the clock of this process */
  readonly clock?: Clock
}

/** Settings of a queue. */
export interface MemoryQueueOptions {
  /** The topic whose messages go into the queue, from now on. */
  readonly topic: string
  /** One reader at a time, so that the messages of a key stay in order. @default false */
  readonly single?: boolean
}

/** A broker in the memory of this process: for tests, for trying hapax out, and as the example of how to write one. */
export interface MemoryBroker {
  /** Where a relay can send to. Every queue of the topic gets each message. */
  topic(name: string): Destination
  /** Where a consumer can read from. The same name is the same queue. */
  queue(name: string, options: MemoryQueueOptions): Subscription
}

/** A broker that forgets everything when the process ends. */
export function memoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  noOthers('options', options, ['clock'])
  return new Memory(options.clock ?? systemClock)
}

const CONFIRMED: Confirmation = { status: 'confirmed' }

class Memory implements MemoryBroker {
  readonly #clock: Clock
  readonly #queues = new Map<string, Queue>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  topic(name: string): Destination {
    const topic = text('name', name)
    return {
      name: `memory topic ${topic}`,
      features: { keepsOrder: true },
      publish: (messages) => {
        for (const queue of this.#queues.values()) if (queue.topic === topic) queue.add(messages)
        return messages.map(() => Promise.resolve(CONFIRMED))
      },
      close: () => Promise.resolve(),
    }
  }

  queue(name: string, options: MemoryQueueOptions): Subscription {
    noOthers('options', options, ['topic', 'single'])
    const known = this.#queues.get(text('name', name))
    const queue = known ?? new Queue(this.#clock, text('topic', options.topic), options.single ?? false)
    this.#queues.set(name, queue)
    return {
      name: `memory queue ${name}`,
      features: { ordersKeys: queue.single, marksRedelivered: true, horizonMs: undefined, limitsRejects: false },
      open: async ({ prefetch, receive }) => queue.open(prefetch, receive),
    }
  }
}

/** A message that waits in a queue. */
interface Waiting {
  readonly message: OutgoingMessage
  readonly redelivered: boolean
}

/** A reader of a queue, and what it has in hand, in the order in which it got it. */
interface Reading {
  readonly prefetch: Prefetch
  readonly receive: (deliveries: readonly Delivery[]) => void
  readonly inHand: Set<Waiting>
  bytes: number
  paused: boolean
}

class Queue {
  readonly topic: string
  readonly single: boolean
  readonly #clock: Clock
  readonly #readers: Reading[] = []
  #waiting: Waiting[] = []

  constructor(clock: Clock, topic: string, single: boolean) {
    this.#clock = clock
    this.topic = topic
    this.single = single
  }

  add(messages: readonly OutgoingMessage[]): void {
    for (const message of messages) this.#waiting.push({ message, redelivered: false })
    this.#deliver()
  }

  open(prefetch: Prefetch, receive: Reading['receive']): Reader {
    const reading: Reading = { prefetch, receive, inHand: new Set(), bytes: 0, paused: false }
    this.#readers.push(reading)
    this.#deliver()
    return {
      horizonMs: undefined,
      pause: async () => {
        reading.paused = true
      },
      close: async () => this.#close(reading),
    }
  }

  /** What a reader leaves behind goes back to the front, in its order. */
  #close(reading: Reading): void {
    const index = this.#readers.indexOf(reading)
    if (index === -1) return
    this.#readers.splice(index, 1)
    this.#putBack(reading, [...reading.inHand])
  }

  #putBack(reading: Reading, waiting: readonly Waiting[]): void {
    for (const each of waiting) this.#release(reading, each)
    this.#waiting.unshift(...waiting.map(({ message }) => ({ message, redelivered: true })))
    this.#deliver()
  }

  #release(reading: Reading, waiting: Waiting): boolean {
    if (!reading.inHand.delete(waiting)) return false
    reading.bytes -= waiting.message.data.byteLength
    return true
  }

  #deliver(): void {
    const readers = this.single ? this.#readers.slice(0, 1) : this.#readers
    for (const reading of readers) {
      const deliveries: Delivery[] = []
      while (this.#waiting.length > 0 && hasRoom(reading)) {
        const waiting = this.#waiting.shift() as Waiting
        reading.inHand.add(waiting)
        reading.bytes += waiting.message.data.byteLength
        deliveries.push(this.#delivery(reading, waiting))
      }
      if (deliveries.length > 0) reading.receive(deliveries)
    }
  }

  #retry(reading: Reading, waiting: Waiting, delayMs: number): void {
    const putBack = (): void => {
      if (reading.inHand.has(waiting)) this.#putBack(reading, [waiting])
    }
    if (delayMs <= 0) putBack()
    else this.#clock.after(delayMs, putBack)
  }

  #delivery(reading: Reading, waiting: Waiting): Delivery {
    const { message, redelivered } = waiting
    return {
      arrival: arrivalOf(message, redelivered),
      bytes: message.data.byteLength,
      ack: () => {
        if (this.#release(reading, waiting)) this.#deliver()
      },
      retry: (delayMs) => this.#retry(reading, waiting, delayMs),
      // Nobody counts here.
      reject: (delayMs) => this.#retry(reading, waiting, delayMs),
    }
  }
}

function hasRoom({ prefetch, inHand, bytes, paused }: Reading): boolean {
  return !paused && inHand.size < prefetch.messages && (inHand.size === 0 || bytes < prefetch.bytes)
}
