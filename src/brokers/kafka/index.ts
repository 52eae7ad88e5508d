import type { Destination, Subscription } from '../../contracts/index.ts'
import { KafkaDestination } from './destination.ts'
import {
  baseSettings,
  groupSettings,
  type KafkaGroupOptions,
  type KafkaOptions,
  type KafkaTopicOptions,
  topicSettings,
} from './options.ts'
import { KafkaSubscription } from './subscription.ts'

export type * from './client.ts'
export type { KafkaGroupOptions, KafkaOptions, KafkaTopicOptions } from './options.ts'

/** A Kafka cluster. */
export interface Kafka {
  /** A destination for a relay. The topic has to exist. */
  topic(name: string, options?: KafkaTopicOptions): Destination
  /** A subscription for a consumer, as a member of a group. The topics have to exist. */
  group(name: string, options: KafkaGroupOptions): Subscription
}

/** Kafka, through `@platformatic/kafka`: an idempotent producer with acks from all replicas, and consumer groups. */
export function kafka(options: KafkaOptions): Kafka {
  const base = baseSettings(options)
  return {
    topic: (name, given = {}) => new KafkaDestination(topicSettings(name, given, base)),
    group: (name, given) => new KafkaSubscription(groupSettings(name, given, base)),
  }
}
