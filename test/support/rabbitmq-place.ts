import { randomUUID } from 'node:crypto'
import { type Channel, type ChannelModel, connect, type Message } from 'amqplib'
import { type QueueOptions, type Rabbitmq, rabbitmq } from 'hapax/rabbitmq'
import type { BrokerHarness, RawMessage, TestBroker } from 'hapax/testing'
import { queuePlace } from '../../src/brokers/rabbitmq/options.ts'
import { queueArguments } from '../../src/brokers/rabbitmq/topology.ts'
import { AmqpTap } from './amqp-tap.ts'
import { LinkProxy } from './link-proxy.ts'
import { requireServer } from './servers.ts'

/** An exchange of a test's own, a plain client beside it, and a proxy in front of what hapax opens. */
export class RabbitmqPlace implements TestBroker, AsyncDisposable {
  readonly exchange = `shop-${randomUUID()}`
  readonly largestBytes = 16 * 1024 * 1024 + 1
  readonly proxy: LinkProxy
  readonly tap: AmqpTap
  readonly rabbit: Rabbitmq
  readonly channel: Channel
  readonly #connection: ChannelModel
  readonly #queues = new Set<string>()

  private constructor(
    proxy: LinkProxy,
    tap: AmqpTap,
    connection: ChannelModel,
    channel: Channel,
    heartbeatMs: number | undefined,
  ) {
    this.proxy = proxy
    this.tap = tap
    this.#connection = connection
    this.channel = channel
    const times = heartbeatMs === undefined ? {} : { heartbeatMs, timeoutMs: 15_000 }
    this.rabbit = rabbitmq({ url: proxy.url, ...times })
  }

  static async open(url: string = requireServer('rabbitmq'), heartbeatMs?: number): Promise<RabbitmqPlace> {
    const tap = new AmqpTap()
    const proxy = await LinkProxy.open(url, () => tap.link())
    const connection = await connect(url)
    connection.on('error', () => {})
    const channel = await connection.createConfirmChannel()
    channel.on('error', () => {})
    const place = new RabbitmqPlace(proxy, tap, connection, channel, heartbeatMs)
    await channel.assertExchange(place.exchange, 'topic')
    return place
  }

  /** The name of a group's queue. */
  queue(group: string): string {
    return `${this.exchange}.${group}`
  }

  destination({ unroutable = false, format = 'binary' as 'binary' | 'structured' } = {}) {
    return this.rabbit.exchange(unroutable ? `${this.exchange}-nowhere` : this.exchange, { format })
  }

  async subscription(group: string, { single = false }: QueueOptions = {}) {
    await this.declare(group, queueArguments(queuePlace(group, { single }), this.version))
    return this.rabbit.queue(this.queue(group), { bind: { exchange: this.exchange }, single })
  }

  async untouched() {
    const [sender, reader] = [rabbitmq({ url: this.proxy.url }), rabbitmq({ url: this.proxy.url })]
    const exchange = `${this.exchange}-untouched`
    this.#queues.add('untouched')
    const subscription = reader.queue(this.queue('untouched'), { bind: { exchange } })
    return { destination: sender.exchange(exchange), subscription }
  }

  /** Of the server. */
  get version(): string {
    return String((this.#connection.connection.serverProperties as { version?: unknown }).version)
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
      // biome-ignore lint/suspicious/noExplicitAny: the type of a channel that confirms
      ;(this.channel as any).publish(this.exchange, routingKey, Buffer.from(body), options, answered)
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

  async close(): Promise<void> {
    await this.proxy[Symbol.asyncDispose]()
    try {
      for (const group of this.#queues) await this.channel.deleteQueue(this.queue(group))
      for (const end of ['', '-nowhere', '-untouched']) await this.channel.deleteExchange(`${this.exchange}${end}`)
      await this.#connection.close()
    } catch {
      // The server of this test is gone, or was.
    }
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

export const rabbitmqHarness: BrokerHarness = {
  name: 'rabbitmq',
  cannot: {},
  open: ({ silenceMs }) => RabbitmqPlace.open(requireServer('rabbitmq'), silenceMs),
}
