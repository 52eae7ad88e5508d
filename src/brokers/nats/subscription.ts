import type { Address, OpenOptions, Reader, Subscription, SubscriptionFeatures } from '../../contracts/index.ts'
import type { ConsumerPlan, LinkSettings, StreamPlan } from './options.ts'
import { NatsReader } from './reading/reader.ts'

/** A durable pull consumer that messages are read from. */
export class NatsSubscription implements Subscription {
  readonly name: string
  readonly address: Address
  readonly features: SubscriptionFeatures
  readonly #settings: LinkSettings
  readonly #plan: ConsumerPlan
  readonly #stream: () => StreamPlan | undefined

  /** `stream` returns the plan of the stream, if this process declares it as well. */
  constructor(settings: LinkSettings, plan: ConsumerPlan, stream: () => StreamPlan | undefined) {
    this.#settings = settings
    this.#plan = plan
    this.#stream = stream
    this.name = `nats consumer ${plan.name} of ${plan.stream}`
    this.address = { system: 'nats', name: plan.stream }
    this.features = {
      ordersKeys: plan.single,
      marksRedelivered: true,
      horizonMs: undefined,
      // Unknown without the option: an existing consumer may have a limit.
      limitsRejects: plan.maxDeliver === undefined ? undefined : true,
    }
  }

  open(options: OpenOptions): Promise<Reader> {
    return NatsReader.open({ ...options, settings: this.#settings, plan: this.#plan, stream: this.#stream })
  }
}
