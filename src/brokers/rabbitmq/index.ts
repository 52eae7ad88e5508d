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

/** A RabbitMQ server. Connections are opened on first use. */
export interface Rabbitmq {
  /** A destination for a relay. `''` is the default exchange, whose routing keys are names of queues. */
  exchange(name: string, options?: ExchangeOptions): Destination
  /** A subscription for a consumer. */
  queue(name: string, options?: QueueOptions): Subscription
  /** What is declared or checked for the exchanges and queues created so far, one line each. Needs no server. */
  topology(): readonly string[]
}

/** RabbitMQ, through the client library `amqplib`. */
export function rabbitmq(options: RabbitmqUrlOptions | RabbitmqConnectionOptions): Rabbitmq {
  noOthers('options of rabbitmq', options, ['url', 'connection', 'heartbeatMs', 'timeoutMs'])
  const origin = originOf(options)
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 10_000)
  const { at, load, owned } = origin
  const link = (role: string): Link => new Link({ at, load, open: () => origin.open(role), owned, timeoutMs })
  // A server that is short of memory stops reading from connections that publish, so acks need a connection of their own.
  return new Server(link('publish'), link('consume'))
}

class Server implements Rabbitmq {
  readonly #publishing: Link
  readonly #consuming: Link
  readonly #lines = new Set<string>()
  /** Exchanges with a custom `routingKey`. */
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
