import type { HapaxError } from '../base/index.ts'
import type { Arrival, OutgoingMessage } from '../message/index.ts'

/** What became of one message that was sent. */
export type Confirmation =
  /**
   * The broker has it, as surely as this broker can tell. `dropped`: no queue wanted it, and the destination is set to drop such
   * messages.
   */
  | { readonly status: 'confirmed'; readonly dropped?: Error }
  /** The broker will never accept this message: it is too large, for example. */
  | { readonly status: 'refused'; readonly error: Error }
  /** The broker did not accept this message now; another attempt may succeed. */
  | { readonly status: 'failed'; readonly error: Error }
  /**
   * The broker could not be reached or did not answer. The fate of the message is unknown, and the message is not the cause. Also for
   * a message that was not sent because an earlier one of its key was not accepted; that one is answered first.
   */
  | { readonly status: 'unavailable'; readonly error: Error }

/** Where a destination or a subscription is, as traces and metrics name it. */
export interface Address {
  /** The broker, in the words of OpenTelemetry where it has one: `rabbitmq`, `kafka`. */
  readonly system: string
  /** The exchange, queue, stream or topic. */
  readonly name: string
}

/** What differs between destinations. */
export interface DestinationFeatures {
  /**
   * Whether messages that are sent together cannot overtake one another, not even when the broker refuses one of them.
   * Otherwise one message per key is under way at a time.
   */
  readonly keepsOrder: boolean
}

/** Takes what became of a message, by its index among those that were sent together. */
export type Settle = (index: number, confirmation: Confirmation) => void

/** Where a relay sends messages: an exchange, a stream, a topic. */
export interface Destination {
  /** For people, and recorded with the relay: the same words for the same place, without credentials. */
  readonly name: string
  readonly features: DestinationFeatures
  /** @default the system `other`, and the name of the destination */
  readonly address?: Address
  /**
   * Loads what it needs in this process. A worker calls it when it starts. Rejects for what waiting does not mend, such as a client
   * library that is not installed. The broker need not be reachable yet.
   */
  prepare(): Promise<void>
  /**
   * Sends messages in this order, and calls `settle` once for each, when the broker has answered for it; that may be before this method
   * returns. Never throws. When the signal aborts, those without an answer settle as unavailable.
   */
  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void
  /**
   * Resolves when the broker answers, and sends nothing; rejects if it does not. After an outage a relay with nothing to send calls it.
   * @default the relay is down until a message is confirmed
   */
  reach?(): Promise<void>
  /** Closes what it opened itself. */
  close(): Promise<void>
}

/**
 * How messages are written. `cloudevents`: as CloudEvents 1.0, as `format` says. `plain-json`: the body is the data, and the attributes
 * are headers with plain names, for readers that know nothing of CloudEvents. A function: whatever it returns.
 */
export type Encode = 'cloudevents' | 'plain-json' | EncodeFunction

/**
 * Writes one message in a form of your own. It is called each time a message is sent, and has to return the same for the same message, at
 * once. A message for which it throws, or returns anything else, is not sent and goes to the failed store.
 */
export type EncodeFunction = (message: OutgoingMessage) => EncodedMessage

/** A message as it is to be sent. */
export interface EncodedMessage {
  /** A text is sent as UTF-8. */
  readonly body: Uint8Array | string
  /** @default the content type of the data */
  readonly contentType?: string
  /** Headers, by their exact names: those of the message and its attributes are not added. @default none */
  readonly headers?: Readonly<Record<string, string>>
  /** Properties of the protocol, where it has any: on RabbitMQ `messageId`, `type`, `correlationId` and `appId`. @default those of the message */
  readonly properties?: Readonly<Record<string, string>>
}

/** A message in the hands of a reader. After the first answer, or when the link is lost, further answers do nothing. */
export interface Delivery {
  readonly arrival: Arrival
  readonly bytes: number
  /** Lets the broker forget it. A broken link is not an error: the message is redelivered, and is a duplicate then. */
  ack(): void
  /** It could not be taken, and the message is not the cause: deliver it again after this time, without counting. */
  retry(delayMs: number): void
  /** Its handler failed and nothing was kept: deliver it again after this time, and let the broker count that. */
  reject(delayMs: number): void
}

/** What differs between subscriptions. */
export interface SubscriptionFeatures {
  /** Whether one reader at a time receives the messages of a key, in the order in which they were sent. */
  readonly ordersKeys: boolean
  /** Whether the broker says that it delivered a message before. */
  readonly marksRedelivered: boolean
  /** For how long the broker may deliver a message again, where the settings say so; else see `Reader`. */
  readonly horizonMs: number | undefined
  /** Whether the broker dead-letters a message that was rejected too often; undefined: unknown. */
  readonly limitsRejects: boolean | undefined
}

/** How much a reader wants to have in hand. */
export interface Prefetch {
  /** May change while the subscription is open: a driver reads it each time. */
  readonly messages: number
  readonly bytes: number
}

/** Where a consumer gets messages: a queue, a stream. */
export interface Subscription {
  /** For people, without credentials. */
  readonly name: string
  readonly features: SubscriptionFeatures
  /** @default the system `other`, and the name of the subscription */
  readonly address?: Address
  /**
   * Begins to deliver: at most `prefetch` messages that are neither acked nor put back. Rejects when the broker refuses or cannot be
   * reached. Later interruptions are the driver's business: it reconnects, and calls `report`.
   */
  open(options: OpenOptions): Promise<Reader>
}

/** What a subscription is opened with. */
export interface OpenOptions {
  /**
   * The types that the consumer handles when its worker starts, for brokers that can leave out the others; `all` if it has a handler for
   * unknown types. Others may come all the same.
   */
  readonly types: readonly string[] | 'all'
  readonly prefetch: Prefetch
  receive(deliveries: readonly Delivery[]): void
  report(error: HapaxError): void
}

/** A subscription at work. */
export interface Reader {
  /** For how long the broker may deliver a message again, where it says so. */
  readonly horizonMs: number | undefined
  /** Stops deliveries. Those in hand may still be acked, and those put back go to other readers. */
  pause(): Promise<void>
  /** Ends it. Messages that were neither acked nor put back are redelivered. */
  close(): Promise<void>
}
