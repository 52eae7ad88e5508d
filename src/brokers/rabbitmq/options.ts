import {
  expected,
  flag,
  heard,
  nameText,
  noOthers,
  object,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  shownUrl,
  spanMs,
  text,
} from '../../base/index.ts'
import type { Encode } from '../../contracts/index.ts'
import type { EventFormat, OutgoingMessage } from '../../message/index.ts'
import { type DeclareOption, declareOption, type Encoder, encoderOption } from '../kit/index.ts'
import { Addresses } from './addresses.ts'
import { type AmqpConnection, amqplib } from './client.ts'

/** Options for either kind of connection. */
export interface RabbitmqTimes {
  /**
   * How long to wait for the server's answer when connecting, declaring or consuming. A connection on which nothing is confirmed for so
   * long, while messages wait for it, is given up.
   * @default 10_000
   */
  readonly timeoutMs?: number
}

/** Connections that hapax opens and closes itself: one to publish, one to consume. */
export interface RabbitmqUrlOptions extends RabbitmqTimes {
  /**
   * `amqp://user:password@host:5672/vhost`, or `amqps://…`; or a list of such, the nodes of a cluster, which are tried in turn. Undefined, as
   * a missing environment variable is, is refused.
   */
  readonly url: string | readonly string[] | undefined
  /**
   * The heartbeat interval of both sides, in whole seconds. A link that is silent for two to three intervals is given up.
   * @default 10_000
   */
  readonly heartbeatMs?: number
}

/** Connections that you open with `amqplib`. */
export interface RabbitmqConnectionOptions extends RabbitmqTimes {
  /**
   * A function that opens a connection: `() => connect(url, { ca })`. It is called for publishing and for consuming, and again
   * after a loss, and hapax closes these connections. Or one connection, which hapax never closes and cannot replace after a loss.
   */
  readonly connection: AmqpConnection | (() => AmqpConnection | Promise<AmqpConnection>)
}

/** Settings of an exchange to send to. */
export interface ExchangeOptions {
  /** @default 'topic' */
  readonly type?: ExchangeType
  /** The routing key of a message. @default its type */
  readonly routingKey?: (message: OutgoingMessage) => string
  /**
   * What happens to a message that no queue is bound for. `retry`: it stays in the outbox and is sent again until a queue takes it.
   * `drop`: it leaves the outbox as if it had been sent, with the event `relay-dropped`. @default 'retry'
   */
  readonly unroutable?: 'retry' | 'drop'
  /** @default 'assert' */
  readonly declare?: Declare
  /**
   * How messages are written: as CloudEvents; as plain JSON, for readers that know nothing of CloudEvents; or by a function of yours.
   * @default 'cloudevents'
   */
  readonly encode?: Encode
  /** CloudEvents: attributes as headers beside the body, or the whole message as one JSON text. @default 'binary' */
  readonly format?: EventFormat
  /** Larger messages are refused without being sent. @default 16 MiB, the default limit of RabbitMQ 4 */
  readonly maxMessageBytes?: number
  /** More arguments of the exchange. @default {} */
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** Settings of a queue to read from. */
export type QueueOptions = QueueShape

/**
 * What hapax does about an exchange or a queue before it uses it. `assert`: declares it. If an existing one differs, that is an
 * error; but a queue that differs only in arguments that no option asks for is used as it is, with a warning. `check`: it has to
 * exist. `none`: nothing.
 */
export type Declare = DeclareOption

/** The built-in exchange types. Plugins add others. */
export type ExchangeType = 'topic' | 'direct' | 'fanout' | 'headers' | (string & {})

/** An exchange with every default filled in. */
export interface ExchangePlace {
  readonly name: string
  readonly type: ExchangeType
  readonly declare: Declare
  readonly arguments: Readonly<Record<string, unknown>>
}

/** Which messages of an exchange go into a queue. */
export interface Binding {
  readonly exchange: string
  /**
   * The routing keys, or patterns on a topic exchange. @default the types that the consumer handles, which are the routing keys that
   * hapax publishes with; `#` if it has a handler for unknown types
   */
  readonly routingKey?: string | readonly string[]
  /** The type of the exchange. @default 'topic' */
  readonly type?: ExchangeType
  /** What to do about the exchange. @default as the queue's */
  readonly declare?: Declare
  /** The arguments of the binding, which an exchange of type `headers` matches. @default {} */
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** The properties of a queue. */
export interface QueueShape {
  /** Exchanges whose messages go into the queue. They are declared or checked as well. @default none */
  readonly bind?: Binding | readonly Binding[]
  /** @default 'quorum', which is replicated and counts deliveries */
  readonly type?: 'quorum' | 'classic'
  /**
   * One reader at a time receives messages (single active consumer), so that they stay in order. With `declare: 'check'` or
   * `'none'` hapax relies on your word: a reader cannot ask the server. @default false
   */
  readonly single?: boolean
  /** @default 'assert' */
  readonly declare?: Declare
  /** Where dead-lettered messages go. It has to exist. @default none */
  readonly deadLetterExchange?: string
  /**
   * How often the server redelivers a message before it goes to `deadLetterExchange`, which has to be given as well: without one,
   * the server would drop the message. @default no limit
   */
  readonly deliveryLimit?: number
  /**
   * For how long a message may be redelivered; receipts have to be kept that long. A queue says nothing about it, except by a TTL.
   * @default `x-message-ttl` of a queue that hapax declares, else unknown
   */
  readonly horizonMs?: number
  /** More arguments of the queue, `{ 'x-max-length': 100_000 }` for example. @default {} */
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** A binding with every default filled in. */
interface BindingPlace {
  readonly exchange: ExchangePlace
  /** Undefined: the types that the consumer handles. */
  readonly routingKeys: readonly string[] | undefined
  readonly args: object
}

/** A queue with every default filled in. */
export interface QueuePlace {
  readonly name: string
  readonly type: 'quorum' | 'classic'
  readonly single: boolean
  readonly declare: Declare
  readonly bindings: readonly BindingPlace[]
  readonly deadLetterExchange: string | undefined
  readonly deliveryLimit: number | undefined
  readonly horizonMs: number | undefined
  readonly arguments: Readonly<Record<string, unknown>>
}

const QUEUE_SHAPE: readonly (keyof QueueShape)[] = [
  'bind',
  'type',
  'single',
  'declare',
  'deadLetterExchange',
  'deliveryLimit',
  'horizonMs',
  'arguments',
]

/** Checks the options of a queue. */
export function queuePlace(name: string, shape: QueueShape): QueuePlace {
  noOthers('options of queue', shape, QUEUE_SHAPE)
  const type = oneOf('type', ['quorum', 'classic'], shape.type, 'quorum')
  const { bind = [], deadLetterExchange, deliveryLimit, horizonMs } = shape
  const declare = declareOption(shape.declare)
  const single = flag('single', shape.single, false)
  if (deadLetterExchange !== undefined) nameText('deadLetterExchange', deadLetterExchange)
  if (deliveryLimit !== undefined) checkLimit(type, deliveryLimit, deadLetterExchange)
  const bindings = [bind].flat().map((each) => bindingOf(each, declare))
  const args = withoutOwn(argumentsOption(shape.arguments))
  return {
    name: nameText('name', name),
    type,
    single,
    declare,
    bindings,
    deadLetterExchange,
    deliveryLimit,
    horizonMs:
      horizonMs === undefined ? ttlOf(declare, args, deadLetterExchange !== undefined) : spanMs('horizonMs', horizonMs),
    arguments: args,
  }
}

/** A message that is returned keeps the time at which it expires. Of a queue that hapax does not declare nothing is known. */
function ttlOf(declare: Declare, args: QueuePlace['arguments'], deadLetters: boolean): number | undefined {
  const ttl = args['x-message-ttl']
  // A dead-letter exchange may lead back to the queue, and each return restarts the time.
  if (deadLetters || args['x-dead-letter-exchange'] !== undefined) return undefined
  return declare === 'assert' && typeof ttl === 'number' ? ttl : undefined
}

/** Refuses arguments that an option sets. */
function withoutOwn(args: QueuePlace['arguments']): QueuePlace['arguments'] {
  for (const [name, option] of OWN_ARGUMENTS) {
    if (Object.hasOwn(args, name)) expected('arguments', `without ${name}, which the option ${option} sets`, args[name])
  }
  return args
}

const OWN_ARGUMENTS = [
  ['x-queue-type', 'type'],
  ['x-single-active-consumer', 'single'],
  ['x-dead-letter-exchange', 'deadLetterExchange'],
  ['x-delivery-limit', 'deliveryLimit'],
] as const

function checkLimit(type: QueuePlace['type'], deliveryLimit: number, deadLetterExchange: string | undefined): void {
  positiveInteger('deliveryLimit', deliveryLimit, 1)
  if (type === 'classic') expected('deliveryLimit', 'left out for a classic queue, which does not count', deliveryLimit)
  if (deadLetterExchange === undefined) {
    const what = 'given together with deadLetterExchange, because the server drops what came too often without one'
    expected('deliveryLimit', what, deliveryLimit)
  }
}

function bindingOf(binding: Binding, declare: Declare): BindingPlace {
  noOthers('bind', binding, ['exchange', 'routingKey', 'type', 'declare', 'arguments'])
  const { type = 'topic' } = binding
  return {
    exchange: {
      name: nameText('bind.exchange', binding.exchange),
      type: nameText('bind.type', type),
      declare: declareOption(binding.declare, declare),
      arguments: {},
    },
    routingKeys: routingKeysOf(type, binding.routingKey),
    args: argumentsOption(binding.arguments),
  }
}

function routingKeysOf(type: ExchangeType, given: Binding['routingKey']): BindingPlace['routingKeys'] {
  if (given !== undefined) {
    const keys: readonly unknown[] = Array.isArray(given) ? given : [given]
    if (keys.length === 0) expected('bind.routingKey', 'a text or a list of texts', given)
    return keys.map((key) => (key === '' ? '' : text('bind.routingKey', key)))
  }
  // These exchange types ignore the key.
  if (type === 'fanout' || type === 'headers') return ['']
  if (type === 'topic' || type === 'direct') return undefined
  return expected('bind.routingKey', `given for an exchange of the type ${type}`, given)
}

function argumentsOption(value: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, unknown>> {
  if (value === undefined) return {}
  object('arguments', value)
  return value
}

const EXCHANGE = [
  'type',
  'routingKey',
  'unroutable',
  'declare',
  'encode',
  'format',
  'maxMessageBytes',
  'arguments',
] as const satisfies readonly (keyof ExchangeOptions)[]

function typeOf({ type }: OutgoingMessage): string {
  return type
}

/** Checks the options of an exchange to send to. */
export function exchangeSettings(name: string, options: ExchangeOptions): ExchangeSettings {
  noOthers('options of exchange', options, EXCHANGE)
  const { routingKey = typeOf } = options
  if (typeof routingKey !== 'function') expected('routingKey', 'a function', routingKey)
  return {
    place: exchangePlace(name, options),
    routingKey,
    unroutable: oneOf('unroutable', ['retry', 'drop'], options.unroutable, 'retry'),
    encoder: encoderOption(options, PROPERTIES),
    maxMessageBytes: positiveInteger('maxMessageBytes', options.maxMessageBytes, 16 * 1024 * 1024),
  }
}

function exchangePlace(name: string, options: ExchangeOptions): ExchangePlace {
  const declare = declareOption(options.declare)
  return {
    name: name === '' ? name : nameText('name', name),
    type: options.type === undefined ? 'topic' : nameText('type', options.type),
    // The default exchange always exists and cannot be declared.
    declare: name === '' ? 'none' : declare,
    arguments: argumentsOption(options.arguments),
  }
}

/** Properties that a function can set. */
const PROPERTIES = ['messageId', 'type', 'correlationId', 'appId']

/** What a destination needs. */
export interface ExchangeSettings {
  readonly place: ExchangePlace
  readonly encoder: Encoder
  readonly maxMessageBytes: number
  readonly unroutable: 'retry' | 'drop'
  routingKey(message: OutgoingMessage): string
}

/** Where connections come from. */
interface Origin {
  readonly at: string
  load(): Promise<unknown>
  open(role: string): Promise<AmqpConnection>
  readonly owned: boolean
}

/** Checks the options of `rabbitmq()`. */
export function originOf(options: RabbitmqUrlOptions | RabbitmqConnectionOptions): Origin {
  if ('url' in options) {
    if ('connection' in options) expected('options', 'either a url or a connection', 'both')
    refuseUnsetUrl(options)
    const urls = typeof options.url === 'string' ? [options.url] : options.url
    if (!Array.isArray(urls) || urls.length === 0) expected('url', LIKE, shownUrl(options.url))
    const complete = urls.map((url) => checkedUrl(url, options.heartbeatMs))
    const addresses = new Addresses(complete, options.timeoutMs ?? 10_000)
    const at = ` at ${urls.map(shownUrl).join(', ')}`
    return { at, load: amqplib, open: (role) => addresses.dial(`hapax ${role}`), owned: true }
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

/** Adds a heartbeat and a frame size to the URL, unless it has them. The option `heartbeatMs` wins over the URL. */
function checkedUrl(url: unknown, heartbeatMs: number | undefined): string {
  if (typeof url !== 'string' || !/^amqps?:\/\//.test(url) || !URL.canParse(url)) {
    expected('url', LIKE, shownUrl(url))
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

const LIKE = 'like amqp://host:5672/vhost or amqps://host:5671/vhost, or a list of such'
const FRAME_MAX = 131_072
