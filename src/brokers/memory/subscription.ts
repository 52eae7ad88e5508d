import type { Address, OpenOptions, Reader, Subscription, SubscriptionFeatures } from '../../contracts/index.ts'
import type { MemoryQueue } from './queue.ts'

/** A queue that a consumer reads from. */
export class MemorySubscription implements Subscription {
  readonly name: string
  readonly address: Address
  readonly features: SubscriptionFeatures
  readonly #queue: MemoryQueue

  constructor(name: string, queue: MemoryQueue) {
    this.name = `memory queue ${name}`
    this.address = { system: 'memory', name }
    this.features = { ordersKeys: queue.single, marksRedelivered: true, horizonMs: undefined, limitsRejects: false }
    this.#queue = queue
  }

  async open(options: OpenOptions): Promise<Reader> {
    return this.#queue.open(options)
  }
}
