import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Writable } from 'node:stream'
import { contained, fieldOf, loadClient } from '../../base/index.ts'

// The subset of `amqplib` that hapax needs. Versions 0.10 to 2 have this shape.

/** A connection of `amqplib` (its `ChannelModel`). */
export interface AmqpConnection extends Emitter {
  createChannel(): Promise<AmqpChannel>
  createConfirmChannel(): Promise<AmqpConfirmChannel>
  close(): Promise<void>
  /** Undocumented in `amqplib`. */
  readonly connection?: {
    readonly serverProperties?: object
    readonly frameMax?: number
    readonly stream?: AmqpSocket
  }
}

/** The socket of a connection. */
export interface AmqpSocket {
  /** How many bytes wait to be written. */
  readonly writableLength?: number
  destroy(error?: Error): unknown
}

/** A channel of `amqplib`. */
export interface AmqpChannel extends Emitter {
  assertExchange(name: string, type: string, options: { durable: boolean; arguments: object }): Promise<unknown>
  checkExchange(name: string): Promise<unknown>
  assertQueue(name: string, options: { durable: boolean; arguments: object }): Promise<unknown>
  checkQueue(name: string): Promise<unknown>
  bindQueue(queue: string, exchange: string, routingKey: string, args: object): Promise<unknown>
  prefetch(count: number): Promise<unknown>
  consume(queue: string, receive: (message: AmqpMessage | null) => void): Promise<{ readonly consumerTag: string }>
  cancel(consumerTag: string): Promise<unknown>
  ack(message: AmqpTag, allUpTo?: boolean): void
  nack(message: AmqpTag, allUpTo?: boolean, requeue?: boolean): void
  reject(message: AmqpTag, requeue?: boolean): void
  close(): Promise<void>
}

/** A channel of `amqplib` that confirms what is published. */
export interface AmqpConfirmChannel extends AmqpChannel {
  /** Callbacks that wait for a confirm. Undocumented in `amqplib`. */
  readonly unconfirmed?: unknown[]
  /** Remembers who waits for the confirm of the next message. Undocumented in `amqplib`, as is all that `rawChannel` looks at. */
  pushConfirmCallback?(answered: (error: unknown) => void): void
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: AmqpPublish,
    answered: (error: unknown) => void,
  ): boolean
}

/** A channel as it takes frames that are made already. */
export interface RawChannel {
  readonly number: number
  write(frames: Buffer): unknown
  /** Who waits for the confirm of the next message. */
  expect(answered: (error: unknown) => void): void
}

/**
 * The way into a channel that `amqplib` itself takes when it has made the frames of a message. It is not documented, but has been the same
 * since 0.10. Undefined: this version looks different, or the channel is closed.
 */
export function rawChannel(channel: AmqpConfirmChannel): RawChannel | undefined {
  const number = fieldOf(channel, 'ch')
  if (typeof number !== 'number' || typeof channel.pushConfirmCallback !== 'function') return undefined
  const open = fieldOf(fieldOf(fieldOf(channel, 'connection'), 'channels'), String(number))
  const buffer = fieldOf(open, 'buffer')
  // The number of a closed channel is given to the next one.
  if (fieldOf(open, 'channel') !== channel || !(buffer instanceof Writable)) return undefined
  return {
    number,
    write: (frames) => buffer.write(frames),
    expect: (answered) => channel.pushConfirmCallback?.(answered),
  }
}

/** Properties of an outgoing message. */
export interface AmqpPublish {
  readonly mandatory: true
  readonly persistent: true
  readonly headers: Readonly<Record<string, string>>
  readonly contentType: string
  readonly messageId?: string
  readonly type?: string
  readonly correlationId?: string
  readonly timestamp?: number
  readonly appId?: string
}

/** Identifies a delivery. */
export interface AmqpTag {
  readonly fields: { readonly deliveryTag: number }
}

/** A message that was delivered, or returned to its sender. */
export interface AmqpMessage extends AmqpTag {
  readonly content: Buffer
  readonly fields: AmqpFields
  readonly properties: AmqpProperties
}

interface AmqpFields {
  readonly deliveryTag: number
  readonly redelivered: boolean
  readonly exchange: string
  readonly routingKey: string
}

type AmqpProperties = Readonly<Record<AmqpProperty, unknown>> & {
  readonly headers: Readonly<Record<string, unknown>> | undefined
  readonly [UNREADABLE]?: string
}

/** Why the headers could not be read, not even by the decoder of hapax that steps in where `amqplib` fails. */
export const UNREADABLE: unique symbol = Symbol('unreadable')

/** The AMQP properties that a sender can set, by their names in `amqplib`. */
export type AmqpProperty =
  | 'contentType'
  | 'contentEncoding'
  | 'deliveryMode'
  | 'priority'
  | 'correlationId'
  | 'replyTo'
  | 'expiration'
  | 'messageId'
  | 'timestamp'
  | 'type'
  | 'userId'
  | 'appId'
  | 'clusterId'

/** The event methods that connections and channels share. */
interface Emitter {
  // biome-ignore lint/suspicious/noExplicitAny: what a listener gets depends on the event
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same
  prependListener(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same
  removeListener(event: string, listener: (...args: any[]) => void): unknown
}

/** The client library, loaded on first use. */
export function amqplib(): Promise<typeof import('amqplib')> {
  return loadClient('rabbitmq({ url })', ['amqplib'], () => import('amqplib'))
}

/** Opens a connection. Malformed bytes end the connection and not the process. */
export async function dial(url: string, timeout: number, name: string): Promise<AmqpConnection> {
  const { connect } = await amqplib()
  // `amqplib` throws at malformed bytes while it is still connecting, and exposes its socket only after that.
  const contain = (message: unknown): void => {
    const socket = fieldOf(message, 'socket')
    if (typeof socket === 'object' && socket !== null) contained(socket)
  }
  subscribe(NEW_SOCKET, contain)
  try {
    // Not awaited: only a socket that is opened synchronously in this call is its own.
    return connect(url, { timeout, noDelay: true, keepAlive: true, clientProperties: { connection_name: name } })
  } finally {
    unsubscribe(NEW_SOCKET, contain)
  }
}

const NEW_SOCKET = 'net.client.socket'
