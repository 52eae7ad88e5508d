import { noOthers, positiveInteger } from '../../base/index.ts'
import type { Destination, Subscription } from '../../contracts/index.ts'
import { RabbitmqDestination } from './destination.ts'
import { Link } from './link.ts'
import {
  type ExchangeOptions,
  exchangeSettings,
  originOf,
  type QueueOptions,
  queuePlace,
  type RabbitmqConnectionOptions,
  type RabbitmqUrlOptions,
} from './options.ts'
import { RabbitmqSubscription } from './subscription.ts'
import { exchangeLines, queueLines } from './topology.ts'

export type {
  AmqpChannel,
  AmqpConfirmChannel,
  AmqpConnection,
  AmqpMessage,
  AmqpProperty,
  AmqpPublish,
  AmqpTag,
} from './client.ts'
export type {
  Binding,
  Declare,
  ExchangeOptions,
  ExchangeType,
  QueueOptions,
  QueueShape,
  RabbitmqConnectionOptions,
  RabbitmqTimes,
  RabbitmqUrlOptions,
} from './options.ts'

/** A RabbitMQ server. Nothing is opened before it is needed. */
export interface Rabbitmq {
  /** Where a relay can send to; `''` is the default exchange, whose routing keys are names of queues. */
  exchange(name: string, options?: ExchangeOptions): Destination
  /** Where a consumer can read from. */
  queue(name: string, options?: QueueOptions): Subscription
  /** What is declared or checked for the exchanges and queues asked for until now, one line each; it needs no server. */
  topology(): readonly string[]
}

/** RabbitMQ, by the client library `amqplib`. */
export function rabbitmq(options: RabbitmqUrlOptions | RabbitmqConnectionOptions): Rabbitmq {
  noOthers('options of rabbitmq', options, ['url', 'connection', 'heartbeatMs', 'timeoutMs'])
  const origin = originOf(options)
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 10_000)
  const { at, load, owned } = origin
  const link = (role: string): Link => new Link({ at, load, open: () => origin.open(role), owned, timeoutMs })
  // A server that is short of memory reads nothing from a connection that publishes: acks need another one.
  return new Server(link('publish'), link('consume'))
}

class Server implements Rabbitmq {
  readonly #publishing: Link
  readonly #consuming: Link
  readonly #lines = new Set<string>()
  /** Exchanges whose messages are not routed by their types. */
  readonly #ownKeys = new Set<string>()

  constructor(publishing: Link, consuming: Link) {
    this.#publishing = publishing
    this.#consuming = consuming
  }

  exchange(name: string, options: ExchangeOptions = {}): Destination {
    const settings = exchangeSettings(name, options)
    if (options.routingKey !== undefined) this.#ownKeys.add(name)
    this.#note(exchangeLines(settings.place))
    return new RabbitmqDestination(this.#publishing, settings)
  }

  queue(name: string, options: QueueOptions = {}): Subscription {
    const place = queuePlace(name, options)
    this.#note(queueLines(place))
    return new RabbitmqSubscription(this.#consuming, place, this.#ownKeys)
  }

  topology(): readonly string[] {
    return [...this.#lines]
  }

  #note(lines: readonly string[]): void {
    for (const line of lines) this.#lines.add(line)
  }
}
