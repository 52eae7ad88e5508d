import { randomUUID } from 'node:crypto'
import type { ChannelModel, ConfirmChannel, Message } from 'amqplib'
import { loadClient } from '../../base/index.ts'
import { type QueueOptions, type Rabbitmq, rabbitmq } from '../../brokers/rabbitmq/index.ts'
import type { Destination, Subscription } from '../../contracts/index.ts'
import type { BrokerHarness, DestinationOptions, RawMessage, TestBroker } from '../../testing/index.ts'
import { AmqpTap } from './amqp-tap.ts'
import { ENCRYPTED, encrypted } from './encrypted.ts'
import { LinkProxy } from './link-proxy.ts'

/** How a place is opened. */
export interface RabbitmqPlaceOptions {
  /** What its names begin with. @default 'shop' */
  readonly prefix?: string
  readonly heartbeatMs?: number
}

/** An exchange of a test's own, a plain client beside it, and a proxy in front of what hapax opens. */
export class RabbitmqPlace implements TestBroker, AsyncDisposable {
  readonly exchange: string
  readonly largestBytes: number = 16 * 1024 * 1024 + 1
  readonly proxy: LinkProxy
  readonly tap: AmqpTap
  readonly rabbit: Rabbitmq
  readonly channel: ConfirmChannel
  readonly #connection: ChannelModel
  readonly #url: string
  readonly #queues = new Set<string>()
  #closed: Promise<void> | undefined

  private constructor(
    url: string,
    proxy: LinkProxy,
    tap: AmqpTap,
    connection: ChannelModel,
    channel: ConfirmChannel,
    { prefix = 'shop', heartbeatMs }: RabbitmqPlaceOptions,
  ) {
    this.#url = url
    this.exchange = `${prefix}-${randomUUID()}`
    this.proxy = proxy
    this.tap = tap
    this.#connection = connection
    this.channel = channel
    const times = heartbeatMs === undefined ? {} : { heartbeatMs, timeoutMs: 15_000 }
    this.rabbit = rabbitmq({ url: proxy.url, ...times })
  }

  static async open(url: string, options: RabbitmqPlaceOptions = {}): Promise<RabbitmqPlace> {
    const amqp = await loadClient('conformance of RabbitMQ', ['amqplib'], () => import('amqplib'))
    const tap = new AmqpTap()
    const connection = await amqp.connect(url)
    const proxy = encrypted(url) ? LinkProxy.none(url) : await LinkProxy.open(url, () => tap.link())
    connection.on('error', () => {})
    const channel = await connection.createConfirmChannel()
    channel.on('error', () => {})
    const place = new RabbitmqPlace(url, proxy, tap, connection, channel, options)
    await channel.assertExchange(place.exchange, 'topic')
    return place
  }

  /** The name of a group's queue. */
  queue(group: string): string {
    return `${this.exchange}.${group}`
  }

  destination({ unroutable = false, ...options }: DestinationOptions = {}): Destination {
    return this.rabbit.exchange(unroutable ? `${this.exchange}-nowhere` : this.exchange, options)
  }

  async subscription(group: string, { single = false }: QueueOptions = {}): Promise<Subscription> {
    const options = { bind: { exchange: this.exchange }, single }
    if (!this.#queues.has(group)) await declared(rabbitmq({ url: this.#url }).queue(this.queue(group), options))
    this.#queues.add(group)
    return this.rabbit.queue(this.queue(group), options)
  }

  async untouched(): ReturnType<TestBroker['untouched']> {
    const [sender, reader] = [rabbitmq({ url: this.proxy.url }), rabbitmq({ url: this.proxy.url })]
    const exchange = `${this.exchange}-untouched`
    this.#queues.add('untouched')
    const subscription = reader.queue(this.queue('untouched'), { bind: { exchange } })
    return { destination: sender.exchange(exchange), subscription }
  }

  /** What the server calls itself. */
  get server(): string {
    return `${this.#properties['product'] ?? 'AMQP'} ${this.version}`
  }

  get version(): string {
    return String(this.#properties['version'])
  }

  get #properties(): Record<string, unknown> {
    return this.#connection.connection.serverProperties as Record<string, unknown>
  }

  /** Makes a group's queue with the plain client. */
  async declare(group: string, args: Record<string, unknown>, routingKey = '#'): Promise<void> {
    this.#queues.add(group)
    await this.channel.assertQueue(this.queue(group), { arguments: args })
    await this.channel.bindQueue(this.queue(group), this.exchange, routingKey)
  }

  async send({ body, contentType, attributes = {}, headers = {}, properties = {} }: RawMessage): Promise<void> {
    const named = Object.entries(attributes).map(([name, value]) => [`cloudEvents_${name}`, value])
    const all = Object.assign(Object.create(null), headers, Object.fromEntries(named))
    const { routingKey = 'plain', ...others } = properties
    const options = { ...others, headers: all, ...(contentType !== undefined && { contentType }) }
    await new Promise<void>((resolve, reject) => {
      const answered = (error: unknown): void => (error ? reject(error) : resolve())
      this.channel.publish(this.exchange, routingKey, Buffer.from(body), options, answered)
    })
  }

  async receive(group: string, count: number): Promise<readonly RawMessage[]> {
    const found: RawMessage[] = []
    while (found.length < count) {
      const message = await this.channel.get(this.queue(group))
      if (message === false) await new Promise((resolve) => setTimeout(resolve, 5))
      else {
        this.channel.ack(message)
        found.push(raw(message))
      }
    }
    return found
  }

  /** The server tells of those that nobody has, the proxy sees the others. Some may be on their way between both. */
  async waiting(group: string): Promise<number> {
    for (;;) {
      const { moves } = this.tap
      const ready = await this.ready(group)
      const waiting = ready + this.tap.unacked(this.queue(group))
      if (waiting > 0) return waiting
      await new Promise((resolve) => setTimeout(resolve, 50))
      if (this.tap.moves === moves && (await this.ready(group)) === 0) return this.tap.unacked(this.queue(group))
    }
  }

  /** How many messages nobody has. */
  async ready(group: string): Promise<number> {
    return (await this.channel.checkQueue(this.queue(group))).messageCount
  }

  async cut(): Promise<void> {
    this.proxy.cut()
  }

  away(): Promise<void> {
    return this.proxy.refuse()
  }

  back(): Promise<void> {
    return this.proxy.accept()
  }

  async freeze(): Promise<void> {
    this.proxy.freeze()
  }

  async thaw(): Promise<void> {
    this.proxy.thaw()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    await this.proxy[Symbol.asyncDispose]()
    try {
      await this.#remove()
    } finally {
      await this.#connection.close().catch(() => {})
    }
  }

  /** On a channel of its own: the other one is closed if the server has refused something there. */
  async #remove(): Promise<void> {
    const channel = await this.#connection.createChannel()
    channel.on('error', () => {})
    for (const group of this.#queues) await channel.deleteQueue(this.queue(group))
    for (const end of ['', '-nowhere', '-untouched']) await channel.deleteExchange(`${this.exchange}${end}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function raw({ content, properties, fields }: Message): RawMessage {
  const attributes: Record<string, string> = {}
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(properties.headers ?? {})) {
    if (name.startsWith('cloudEvents_')) attributes[name.slice(12)] = String(value)
    else headers[name] = String(value)
  }
  const { messageId, type } = properties
  return {
    body: content,
    contentType: properties.contentType,
    attributes,
    headers,
    properties: { messageId, type, routingKey: fields.routingKey },
  }
}

/** Has hapax itself make what a subscription needs, before anything is sent. */
async function declared(subscription: Subscription): Promise<void> {
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages: 1, bytes: 1 },
    receive: () => {},
    report: () => {},
  })
  await reader.close()
}

/** The conformance harness of RabbitMQ on a server: an exchange for each case. */
export function rabbitmqHarness(
  url: string,
  open: (options: RabbitmqPlaceOptions) => Promise<RabbitmqPlace> = (options) => RabbitmqPlace.open(url, options),
): BrokerHarness {
  return {
    name: 'rabbitmq',
    cannot: encrypted(url) ? { ...ENCRYPTED, counting: 'what is not acked shows on the wire, which is encrypted' } : {},
    open: ({ silenceMs }) => open({ heartbeatMs: silenceMs }),
  }
}
