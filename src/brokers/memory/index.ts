import { type Clock, nameText } from '../../base/index.ts'
import type { Destination, Subscription } from '../../contracts/index.ts'
import { MemoryDestination } from './destination.ts'
import { brokerClock, type MemoryBrokerOptions, type MemoryQueueOptions, queueSettings } from './options.ts'
import { MemoryQueue } from './queue.ts'
import { MemorySubscription } from './subscription.ts'

export type { MemoryBrokerOptions, MemoryQueueOptions } from './options.ts'

/** An in-memory broker: for tests, for trying hapax out, and as the example to copy when writing a driver. */
export interface MemoryBroker {
  /** A destination for a relay. Every queue of the topic gets each message. */
  topic(name: string): Destination
  /** A subscription for a consumer. The same name is the same queue. */
  queue(name: string, options: MemoryQueueOptions): Subscription
}

/** Creates an in-memory broker. It forgets everything when the process ends. */
export function memoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  return new Memory(brokerClock(options))
}

class Memory implements MemoryBroker {
  readonly #clock: Clock
  readonly #queues = new Map<string, MemoryQueue>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  topic(name: string): Destination {
    const topic = nameText('name', name)
    return new MemoryDestination(topic, (messages) => {
      for (const queue of this.#queues.values()) if (queue.topic === topic) queue.add(messages)
    })
  }

  queue(name: string, options: MemoryQueueOptions): Subscription {
    const settings = queueSettings(options)
    const queue = this.#queues.get(nameText('name', name)) ?? new MemoryQueue(this.#clock, settings)
    this.#queues.set(name, queue)
    return new MemorySubscription(name, queue)
  }
}
