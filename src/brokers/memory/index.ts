import { type Clock, nameText } from '../../base/index.ts'
import type { Destination, Subscription } from '../../contracts/index.ts'
import { MemoryDestination } from './destination.ts'
import {
  brokerClock,
  type MemoryBrokerOptions,
  type MemoryQueueOptions,
  type MemoryTopicOptions,
  queueSettings,
  topicEncoder,
} from './options.ts'
import { MemoryQueue } from './queue.ts'
import { MemorySubscription } from './subscription.ts'

export type { MemoryBrokerOptions, MemoryQueueOptions, MemoryTopicOptions } from './options.ts'

/** An in-memory broker: for tests, for trying hapax out, and as the example to copy when writing a driver. */
export interface MemoryBroker {
  /** A destination for a relay. Every queue of the topic gets each message. */
  topic(name: string, options?: MemoryTopicOptions): Destination
  /** A subscription for a consumer. The same name is the same queue. */
  queue(name: string, options: MemoryQueueOptions): Subscription
  /** How many messages wait in its queues, or are with a reader that has not acknowledged them. */
  readonly unsettled: number
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

  topic(name: string, options: MemoryTopicOptions = {}): Destination {
    const topic = nameText('name', name)
    return new MemoryDestination(topic, topicEncoder(options), (arrivals) => {
      for (const queue of this.#queues.values()) if (queue.topic === topic) queue.add(arrivals)
    })
  }

  get unsettled(): number {
    return [...this.#queues.values()].reduce((sum, queue) => sum + queue.unsettled, 0)
  }

  queue(name: string, options: MemoryQueueOptions): Subscription {
    const settings = queueSettings(options)
    const queue = this.#queues.get(nameText('name', name)) ?? new MemoryQueue(this.#clock, settings)
    this.#queues.set(name, queue)
    return new MemorySubscription(name, queue)
  }
}
