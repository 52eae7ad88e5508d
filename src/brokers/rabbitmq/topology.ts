import { expected, flag, nameText, noOthers, object, oneOf, positiveInteger, text } from '../../base/index.ts'
import type { OpenOptions } from '../../contracts/index.ts'
import type { AmqpChannel } from './amqp.ts'

/**
 * What hapax does about an exchange or a queue before it uses it. `assert`: declares it; a difference to what is there is an
 * error, unless it is an argument of a queue that no option asks for: such a queue is taken as it is, with a warning. `check`: it has to be there. `none`: nothing.
 */
export type Declare = 'assert' | 'check' | 'none'

/** The kinds of exchanges that RabbitMQ brings along. Plugins add others. */
export type ExchangeType = 'topic' | 'direct' | 'fanout' | 'headers' | (string & {})

/** An exchange, as a binding or a destination names it. */
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
   * The routing keys, or patterns of them on a topic exchange. @default the types that the consumer handles, which are the routing keys
   * that hapax publishes by; `#` if it has a handler for unknown types
   */
  readonly routingKey?: string | readonly string[]
  /** The type of the exchange. @default 'topic' */
  readonly type?: ExchangeType
  /** What to do about the exchange. @default as the queue's */
  readonly declare?: Declare
  /** What an exchange of the type `headers` looks at. @default {} */
  readonly arguments?: Readonly<Record<string, unknown>>
}

/** What makes up a queue. */
export interface QueueShape {
  /** Exchanges whose messages go into the queue. They are declared, or checked, as well. @default none */
  readonly bind?: Binding | readonly Binding[]
  /** @default 'quorum', the one that is replicated and counts deliveries */
  readonly type?: 'quorum' | 'classic'
  /**
   * One reader at a time receives messages (single active consumer), so that they stay in order. With `declare: 'check'` or
   * `'none'` this is your word for it: a reader cannot ask the server. @default false
   */
  readonly single?: boolean
  /** @default 'assert' */
  readonly declare?: Declare
  /** Where messages go that the queue sets aside. It has to exist. @default none */
  readonly deadLetterExchange?: string
  /**
   * How often the server delivers a message again before it goes to `deadLetterExchange`, which has to be given as well: without
   * one the server would drop it. @default no limit
   */
  readonly deliveryLimit?: number
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
  readonly arguments: Readonly<Record<string, unknown>>
}

const DECLARE: readonly Declare[] = ['assert', 'check', 'none']

export function declareOption(value: Declare | undefined, fallback: Declare = 'assert'): Declare {
  return oneOf('declare', DECLARE, value, fallback)
}

/** The names of the options that shape a queue. */
export const QUEUE_SHAPE: readonly (keyof QueueShape)[] = [
  'bind',
  'type',
  'single',
  'declare',
  'deadLetterExchange',
  'deliveryLimit',
  'arguments',
]

/** Checks what is said of a queue. */
export function queuePlace(name: string, shape: QueueShape): QueuePlace {
  const type = oneOf('type', ['quorum', 'classic'], shape.type, 'quorum')
  const { bind = [], deadLetterExchange, deliveryLimit } = shape
  const declare = declareOption(shape.declare)
  const single = flag('single', shape.single, false)
  if (deadLetterExchange !== undefined) nameText('deadLetterExchange', deadLetterExchange)
  if (deliveryLimit !== undefined) checkLimit(type, deliveryLimit, deadLetterExchange)
  const bindings = (Array.isArray(bind) ? (bind as readonly Binding[]) : [bind as Binding]).map((each) =>
    bindingOf(each, declare),
  )
  return {
    name: nameText('name', name),
    type,
    single,
    declare,
    bindings,
    deadLetterExchange,
    deliveryLimit,
    arguments: withoutOwn(argumentsOption(shape.arguments)),
  }
}

/** What has an option of its own is not said twice. */
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
  // These do not look at the key.
  if (type === 'fanout' || type === 'headers') return ['']
  if (type === 'topic' || type === 'direct') return undefined
  return expected('bind.routingKey', `given for an exchange of the type ${type}`, given)
}

/**
 * The queue, bound to the types that its consumer handles where no routing key was given. `ownKeys`: the exchanges that this process
 * sends to by other routing keys than types.
 */
export function boundTo(queue: QueuePlace, types: OpenOptions['types'], ownKeys: ReadonlySet<string>): QueuePlace {
  const bindings = queue.bindings.map((each) => {
    const routingKeys = each.routingKeys ?? derivedKeys(each.exchange, types, ownKeys)
    return { ...each, routingKeys }
  })
  return queue.declare === 'assert' ? { ...queue, bindings } : queue
}

function derivedKeys({ name, type }: ExchangePlace, types: OpenOptions['types'], ownKeys: ReadonlySet<string>) {
  if (ownKeys.has(name)) {
    expected('bind.routingKey', `given, because exchange ${name} has a routingKey of its own`, undefined)
  }
  if (types !== 'all') return types
  if (type === 'topic') return ['#']
  return expected(
    'bind.routingKey',
    `given for direct exchange ${name}, because its consumer handles every type`,
    undefined,
  )
}

export function argumentsOption(
  value: Readonly<Record<string, unknown>> | undefined,
): Readonly<Record<string, unknown>> {
  if (value === undefined) return {}
  object('arguments', value)
  return value
}

/** Declares an exchange, or checks that it is there. */
export async function declareExchange(channel: AmqpChannel, exchange: ExchangePlace): Promise<void> {
  const { name, type, declare } = exchange
  if (declare === 'assert') await channel.assertExchange(name, type, { durable: true, arguments: exchange.arguments })
  if (declare === 'check') await channel.checkExchange(name)
}

/** Declares a queue with its bindings, or checks that it is there. */
export async function declareQueue(channel: AmqpChannel, queue: QueuePlace, args: object): Promise<void> {
  const { name, declare, deadLetterExchange } = queue
  for (const { exchange } of queue.bindings) await declareExchange(channel, exchange)
  // A message that is sent to a missing one is gone.
  if (deadLetterExchange !== undefined && declare !== 'none') await channel.checkExchange(deadLetterExchange)
  if (declare === 'check') await channel.checkQueue(name)
  if (declare !== 'assert') return
  await channel.assertQueue(name, { durable: true, arguments: args })
  for (const { exchange, routingKeys = [], args: binding } of queue.bindings) {
    for (const key of routingKeys) await channel.bindQueue(name, exchange.name, key, binding)
  }
}

/** The arguments with which a queue is declared on a server of this version. */
export function queueArguments(queue: QueuePlace, version: string): Record<string, unknown> {
  const { type, single, deadLetterExchange } = queue
  const quorum = type === 'quorum'
  return {
    'x-queue-type': type,
    ...(single && { 'x-single-active-consumer': true }),
    ...(deadLetterExchange !== undefined && { 'x-dead-letter-exchange': deadLetterExchange }),
    // Else what is set aside can be lost on its way.
    ...(deadLetterExchange !== undefined && quorum && SAFE_DEAD_LETTERS),
    ...(quorum && limitOf(queue, version)),
    ...queue.arguments,
  }
}

/** The arguments that a queue has to have: without them it would not keep what the options promise. */
export function promisedArguments({ single, deadLetterExchange, deliveryLimit }: QueuePlace): ReadonlySet<string> {
  const promised = ['x-queue-type']
  if (single) promised.push('x-single-active-consumer')
  if (deadLetterExchange !== undefined) promised.push('x-dead-letter-exchange', ...Object.keys(SAFE_DEAD_LETTERS))
  if (deliveryLimit !== undefined) promised.push('x-delivery-limit')
  return new Set(promised)
}

const SAFE_DEAD_LETTERS = { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }

/**
 * From version 4 on, a quorum queue without a limit of its own drops a message that came back 20 times, unless it is declared
 * with -1. Before, -1 means that the first return is the last one.
 */
function limitOf({ deliveryLimit }: QueuePlace, version: string): Record<string, number> {
  if (deliveryLimit !== undefined) return { 'x-delivery-limit': deliveryLimit }
  return Number.parseInt(version, 10) >= 4 ? { 'x-delivery-limit': -1 } : {}
}

/** What is done about an exchange, for people. */
export function exchangeLines({ name, type, declare }: ExchangePlace): readonly string[] {
  if (declare === 'assert') return [`declare exchange ${name} (${type}, durable)`]
  return [declare === 'check' ? `check exchange ${name}` : `assume exchange ${name}`]
}

/** What is done about a queue, for people. */
export function queueLines(queue: QueuePlace): readonly string[] {
  const { name, declare, deadLetterExchange } = queue
  const lines = queue.bindings.flatMap(({ exchange }) => exchangeLines(exchange))
  if (deadLetterExchange !== undefined && declare !== 'none') lines.push(`check exchange ${deadLetterExchange}`)
  if (declare !== 'assert') return [...lines, declare === 'check' ? `check queue ${name}` : `assume queue ${name}`]
  lines.push(`declare queue ${name} (${queueDetails(queue).join(', ')})`)
  for (const { exchange, routingKeys } of queue.bindings) {
    const by = routingKeys?.map((key) => `'${key}'`).join(', ') ?? 'the types that its consumer handles'
    lines.push(`bind queue ${name} to exchange ${exchange.name} by ${by}`)
  }
  return lines
}

function queueDetails(queue: QueuePlace): readonly string[] {
  const { 'x-queue-type': type, ...args } = queueArguments(queue, '')
  const unlimited = queue.type === 'quorum' && queue.deliveryLimit === undefined
  return [
    `${type}`,
    'durable',
    ...Object.entries(args).map(([name, value]) => `${name}: ${JSON.stringify(value)}`),
    ...(unlimited ? ['from RabbitMQ 4 on x-delivery-limit: -1'] : []),
  ]
}
