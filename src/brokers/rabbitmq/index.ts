import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import {
  clientMissing,
  contained,
  expected,
  heard,
  nameText,
  noOthers,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  shownUrl,
} from '../../base/index.ts'
import type { Destination, Subscription } from '../../contracts/index.ts'
import type { EventFormat, OutgoingMessage } from '../../message/index.ts'
import type { AmqpConnection } from './amqp.ts'
import { Exchange } from './exchange.ts'
import { Link } from './link.ts'
import { Queue } from './queue.ts'
import {
  argumentsOption,
  type Declare,
  declareOption,
  type ExchangePlace,
  type ExchangeType,
  exchangeLines,
  QUEUE_SHAPE,
  type QueueShape,
  queueLines,
  queuePlace,
} from './topology.ts'

export type {
  AmqpChannel,
  AmqpConfirmChannel,
  AmqpConnection,
  AmqpMessage,
  AmqpProperty,
  AmqpPublish,
  AmqpTag,
} from './amqp.ts'
export type { Binding, Declare, ExchangeType, QueueShape } from './topology.ts'

/** What holds for connections of either origin. */
export interface RabbitmqTimes {
  /** How long to wait for the server's answer when connecting, declaring or consuming. @default 10_000 */
  readonly timeoutMs?: number
}

/** Connections that hapax opens and closes itself: one to publish, one to consume. */
export interface RabbitmqUrlOptions extends RabbitmqTimes {
  /** `amqp://user:password@host:5672/vhost`, or `amqps://…`; undefined, as a missing environment variable is, is refused. */
  readonly url: string | undefined
  /**
   * How often both sides show that they are alive, in whole seconds. A link that is silent for two to three times as long is
   * given up. @default 10_000
   */
  readonly heartbeatMs?: number
}

/** Connections that you make with `amqplib`. */
export interface RabbitmqConnectionOptions extends RabbitmqTimes {
  /**
   * A function that opens a connection: `() => connect(url, { ca })`. It is called for publishing and for consuming, and again
   * after a loss; hapax closes what it opened so. Or one connection, which hapax never closes and cannot replace when it is lost.
   */
  readonly connection: AmqpConnection | (() => AmqpConnection | Promise<AmqpConnection>)
}

/** Settings of an exchange to send to. */
export interface ExchangeOptions {
  /** @default 'topic' */
  readonly type?: ExchangeType
  /** What queues are bound by. @default the type of the message */
  readonly routingKey?: (message: OutgoingMessage) => string
  /**
   * What becomes of a message that no queue is bound for. `retry`: it stays in the outbox and is sent again until a queue takes it; `drop`:
   * it leaves the outbox as if it had been sent, with the event `relay-dropped`. @default 'retry'
   */
  readonly unroutable?: 'retry' | 'drop'
  /** @default 'assert' */
  readonly declare?: Declare
  /** Attributes beside the body, or all of a message as one JSON text. @default 'binary' */
  readonly format?: EventFormat
  /** Larger messages are refused without being sent. @default 16 MiB, what RabbitMQ 4 takes by default */
  readonly maxMessageBytes?: number
  /** More arguments of the exchange. @default {} */
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** Settings of a queue to read from. */
export type QueueOptions = QueueShape

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
  noOthers('options', options, ['url', 'connection', 'heartbeatMs', 'timeoutMs'])
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
    noOthers('options', options, EXCHANGE)
    const { routingKey = typeOf } = options
    if (typeof routingKey !== 'function') expected('routingKey', 'a function', routingKey)
    const place = exchangePlace(name, options)
    if (routingKey !== typeOf) this.#ownKeys.add(name)
    this.#note(exchangeLines(place))
    return new Exchange(this.#publishing, {
      place,
      routingKey,
      unroutable: oneOf('unroutable', ['retry', 'drop'], options.unroutable, 'retry'),
      format: oneOf('format', ['binary', 'structured'], options.format, 'binary'),
      maxMessageBytes: positiveInteger('maxMessageBytes', options.maxMessageBytes, 16 * 1024 * 1024),
    })
  }

  queue(name: string, options: QueueOptions = {}): Subscription {
    noOthers('options', options, QUEUE_SHAPE)
    const place = queuePlace(name, options)
    this.#note(queueLines(place))
    return new Queue(this.#consuming, place, this.#ownKeys)
  }

  topology(): readonly string[] {
    return [...this.#lines]
  }

  #note(lines: readonly string[]): void {
    for (const line of lines) this.#lines.add(line)
  }
}

const EXCHANGE = [
  'type',
  'routingKey',
  'unroutable',
  'declare',
  'format',
  'maxMessageBytes',
  'arguments',
] as const satisfies readonly (keyof ExchangeOptions)[]

function typeOf({ type }: OutgoingMessage): string {
  return type
}

function exchangePlace(name: string, options: ExchangeOptions): ExchangePlace {
  const declare = declareOption(options.declare)
  return {
    name: name === '' ? name : nameText('name', name),
    type: options.type === undefined ? 'topic' : nameText('type', options.type),
    // The default exchange is always there, and cannot be declared.
    declare: name === '' ? 'none' : declare,
    arguments: argumentsOption(options.arguments),
  }
}

/** Where connections come from. */
interface Origin {
  readonly at: string
  load(): Promise<unknown>
  open(role: string): Promise<AmqpConnection>
  readonly owned: boolean
}

function originOf(options: RabbitmqUrlOptions | RabbitmqConnectionOptions): Origin {
  if ('url' in options) {
    if ('connection' in options) expected('options', 'either a url or a connection', 'both')
    refuseUnsetUrl(options)
    const url = checkedUrl(options.url, options.heartbeatMs)
    const timeoutMs = options.timeoutMs ?? 10_000
    const at = ` at ${shownUrl(options.url)}`
    return { at, load: amqplib, open: (role) => dial(url, timeoutMs, `hapax ${role}`), owned: true }
  }
  const { connection } = options
  noOthers('options with a connection', options, ['connection', 'timeoutMs'])
  const given = { at: '', load: () => Promise.resolve() }
  if (typeof connection === 'function') return { ...given, open: async () => connection(), owned: true }
  if (typeof connection?.createConfirmChannel !== 'function') {
    expected('connection', 'a connection of amqplib, or a function that opens one', connection)
  }
  heard(connection)
  return { ...given, open: () => Promise.resolve(connection), owned: false }
}

/** The URL with a heartbeat. One that the URL has already stays, unless the option says otherwise. The same of the largest frame. */
function checkedUrl(url: string | undefined, heartbeatMs: number | undefined): string {
  if (typeof url !== 'string' || !/^amqps?:\/\//.test(url) || !URL.canParse(url)) {
    expected('url', 'like amqp://host:5672/vhost or amqps://host:5671/vhost', shownUrl(url))
  }
  const ms = positiveInteger('heartbeatMs', heartbeatMs, 10_000)
  if (ms % 1_000 !== 0 || ms > 65_535_000) expected('heartbeatMs', 'a whole number of seconds, at most 65535', ms)
  const full = new URL(url)
  if (heartbeatMs !== undefined || !full.searchParams.has('heartbeat')) {
    full.searchParams.set('heartbeat', String(ms / 1_000))
  }
  // Early versions of `amqplib` ask for 4 KiB, which RabbitMQ 4.1 refuses.
  if (!full.searchParams.has('frameMax')) full.searchParams.set('frameMax', String(FRAME_MAX))
  return full.href
}

function amqplib(): Promise<typeof import('amqplib')> {
  return import('amqplib').catch((cause: unknown) => {
    throw clientMissing('rabbitmq({ url })', ['amqplib'], cause)
  })
}

async function dial(url: string, timeout: number, name: string): Promise<AmqpConnection> {
  const { connect } = await amqplib()
  // It gives no other hold of a socket that it is still opening, in which it throws at what comes too early.
  const contain = (message: unknown): void => void contained((message as { socket: object }).socket)
  subscribe(NEW_SOCKET, contain)
  try {
    // Not awaited here: only what is opened in this very moment is its socket.
    return connect(url, { timeout, noDelay: true, keepAlive: true, clientProperties: { connection_name: name } })
  } finally {
    unsubscribe(NEW_SOCKET, contain)
  }
}

const NEW_SOCKET = 'net.client.socket'
const FRAME_MAX = 131_072
