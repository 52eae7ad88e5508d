import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { contained, fieldOf, loadClient } from '../../base/index.ts'

// The subset of `amqplib` that hapax needs. Connections and channels of versions 0.10 to 2 have this shape.

/** A connection of `amqplib` (its `ChannelModel`). */
export interface AmqpConnection extends Emitter {
  createChannel(): Promise<AmqpChannel>
  createConfirmChannel(): Promise<AmqpConfirmChannel>
  close(): Promise<void>
  /** Not part of what `amqplib` documents. */
  readonly connection?: {
    readonly serverProperties?: object
    readonly frameMax?: number
    readonly stream?: { destroy(error?: Error): unknown }
  }
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
  /** What waits to be confirmed. Not part of what `amqplib` documents. */
  readonly unconfirmed?: unknown[]
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: AmqpPublish,
    answered: (error: unknown) => void,
  ): boolean
}

/** What travels beside a body. */
export interface AmqpPublish {
  readonly mandatory: true
  readonly persistent: true
  readonly headers: Readonly<Record<string, string>>
  readonly contentType: string
  readonly messageId?: string
  readonly type?: string
  readonly correlationId?: string
  readonly timestamp?: number
}

/** What says which delivery is meant. */
export interface AmqpTag {
  readonly fields: { readonly deliveryTag: number }
}

/** A message as it was delivered, or as it came back to its sender. */
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

/** Why hapax, which reads what `amqplib` cannot decode, could not read the headers either. */
export const UNREADABLE: unique symbol = Symbol('unreadable')

/** The fields of the protocol that a sender can set, with the names that `amqplib` gives them. */
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

/** What both emit their events by. */
interface Emitter {
  // biome-ignore lint/suspicious/noExplicitAny: what a listener gets depends on the event
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same
  prependListener(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same
  removeListener(event: string, listener: (...args: any[]) => void): unknown
}

/** The client library, loaded when it is needed. */
export function amqplib(): Promise<typeof import('amqplib')> {
  return loadClient('rabbitmq({ url })', ['amqplib'], () => import('amqplib'))
}

/** Opens a connection; bytes that no server would send end it, and not the process. */
export async function dial(url: string, timeout: number, name: string): Promise<AmqpConnection> {
  const { connect } = await amqplib()
  // It gives no other hold of a socket that it is still opening, in which it throws at what comes too early.
  const contain = (message: unknown): void => {
    const socket = fieldOf(message, 'socket')
    if (typeof socket === 'object' && socket !== null) contained(socket)
  }
  subscribe(NEW_SOCKET, contain)
  try {
    // Not awaited here: only what is opened in this very moment is its socket.
    return connect(url, { timeout, noDelay: true, keepAlive: true, clientProperties: { connection_name: name } })
  } finally {
    unsubscribe(NEW_SOCKET, contain)
  }
}

const NEW_SOCKET = 'net.client.socket'
