import { expected } from '../../base/index.ts'
import type { OpenOptions } from '../../contracts/index.ts'
import type { AmqpChannel } from './client.ts'
import type { ExchangePlace, QueuePlace } from './options.ts'

/**
 * The queue with its bindings completed: a binding without a routing key gets the types that the consumer handles. `ownKeys`: the
 * exchanges to which this process publishes with a custom routing key, for which types would be wrong.
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
  // Words that a topic exchange would take for wildcards: the queue would get types that its consumer does not handle.
  const pattern = types !== 'all' && type === 'topic' ? types.find((each) => /(^|\.)[*#](\.|$)/.test(each)) : undefined
  if (pattern !== undefined) {
    expected('bind.routingKey', `given, because the type ${pattern} is a pattern on topic exchange ${name}`, undefined)
  }
  if (types !== 'all') return types
  if (type === 'topic') return ['#']
  return expected(
    'bind.routingKey',
    `given for direct exchange ${name}, because its consumer handles every type`,
    undefined,
  )
}

/** Declares an exchange, or checks that it exists. */
export async function declareExchange(channel: AmqpChannel, exchange: ExchangePlace): Promise<void> {
  const { name, type, declare } = exchange
  if (declare === 'assert') await channel.assertExchange(name, type, { durable: true, arguments: exchange.arguments })
  if (declare === 'check') await channel.checkExchange(name)
}

/** Declares a queue with its bindings, or checks that it exists. */
export async function declareQueue(channel: AmqpChannel, queue: QueuePlace, args: object): Promise<void> {
  const { name, declare, deadLetterExchange } = queue
  for (const { exchange } of queue.bindings) await declareExchange(channel, exchange)
  // The server silently drops messages that are dead-lettered to a missing exchange.
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
    // The default strategy can lose a message on its way to the dead letter exchange.
    ...(deadLetterExchange !== undefined && quorum && SAFE_DEAD_LETTERS),
    ...(quorum && limitOf(queue, version)),
    ...queue.arguments,
  }
}

/** The arguments that a queue must have, because options promise what they do. */
export function promisedArguments({ single, deadLetterExchange, deliveryLimit }: QueuePlace): ReadonlySet<string> {
  const promised = ['x-queue-type']
  if (single) promised.push('x-single-active-consumer')
  if (deadLetterExchange !== undefined) promised.push('x-dead-letter-exchange', ...Object.keys(SAFE_DEAD_LETTERS))
  if (deliveryLimit !== undefined) promised.push('x-delivery-limit')
  return new Set(promised)
}

const SAFE_DEAD_LETTERS = { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }

/**
 * From version 4 on, a quorum queue drops a message after 20 returns, unless it is declared with the limit -1. Before version 4, the
 * limit -1 would drop it at the first return.
 */
function limitOf({ deliveryLimit }: QueuePlace, version: string): Record<string, number> {
  if (deliveryLimit !== undefined) return { 'x-delivery-limit': deliveryLimit }
  return Number.parseInt(version, 10) >= 4 ? { 'x-delivery-limit': -1 } : {}
}

/** What hapax does about an exchange, as `topology()` shows it. */
export function exchangeLines({ name, type, declare }: ExchangePlace): readonly string[] {
  if (declare === 'assert') return [`declare exchange ${name} (${type}, durable)`]
  return [declare === 'check' ? `check exchange ${name}` : `assume exchange ${name}`]
}

/** What hapax does about a queue, as `topology()` shows it. */
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
