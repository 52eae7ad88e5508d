import type { Destination, Subscription } from '../../contracts/index.ts'
import { describeConsumer } from './consumers.ts'
import { NatsDestination } from './destination.ts'
import {
  type ConsumerPlan,
  consumerPlan,
  type LinkSettings,
  linkSettings,
  type NatsConsumerOptions,
  type NatsOptions,
  type NatsStreamOptions,
  type StreamPlan,
  streamPlan,
} from './options.ts'
import { describeGivenUp } from './reading/given-up.ts'
import { describeStream } from './streams.ts'
import { NatsSubscription } from './subscription.ts'

export type {
  Declare,
  NatsConnectionLike,
  NatsConnectionOptions,
  NatsConsumerOptions,
  NatsOptions,
  NatsStreamOptions,
  NatsUrlOptions,
} from './options.ts'

/** NATS with JetStream. */
export interface Nats {
  /** A destination for a relay. The stream confirms each message. */
  stream(name: string, options?: NatsStreamOptions): Destination
  /** A subscription for a consumer: a durable pull consumer. The same name is the same consumer. */
  consumer(name: string, options: NatsConsumerOptions): Subscription
  /** What would be created or compared, one line each. Needs no server. */
  topology(): readonly string[]
}

/** NATS JetStream 2.9 or newer, by URL or on your own connection. */
export function nats(options: NatsOptions): Nats {
  return new JetStream(linkSettings(options))
}

class JetStream implements Nats {
  readonly #settings: LinkSettings
  readonly #streams: StreamPlan[] = []
  readonly #consumers: ConsumerPlan[] = []

  constructor(settings: LinkSettings) {
    this.#settings = settings
  }

  stream(name: string, options: NatsStreamOptions = {}): Destination {
    const plan = streamPlan(name, options)
    this.#streams.push(plan)
    return new NatsDestination(this.#settings, plan)
  }

  consumer(name: string, options: NatsConsumerOptions): Subscription {
    const plan = consumerPlan(name, options)
    this.#consumers.push(plan)
    // A worker opens its subscriptions before it sends the first message, so the stream may have to be created here.
    return new NatsSubscription(this.#settings, plan, () => this.#streams.find((each) => each.name === plan.stream))
  }

  topology(): readonly string[] {
    const limited = this.#consumers.filter(({ maxDeliver }) => maxDeliver !== undefined)
    const lines = [
      ...this.#streams.map(describeStream),
      ...this.#consumers.map(describeConsumer),
      ...limited.map(describeGivenUp),
    ]
    return [...new Set(lines)]
  }
}
