import type { RetryOptions } from '../base/index.ts'
import type { IncomingMessage, Mapping, MessageType } from '../message/index.ts'
import type { Subscription } from './broker.ts'
import type { ClaimHandler, FailedHook, Handler, LeasedHandler, ManyHandler } from './handlers.ts'
import type { Webhook } from './webhooks.ts'

/** What became of a delivery. */
export type OutcomeStatus =
  /** The handler's writes and the receipt are committed. */
  | 'processed'
  /** This consumer has taken the message before. */
  | 'duplicate'
  /** The message waits in the inbox. */
  | 'stored'
  /** The handler failed; the message waits in the inbox for its next attempt. */
  | 'retrying'
  /** The message waits for a person, or behind its key. */
  | 'held'
  /** The message is in the failed store. */
  | 'failed'
  /** Another message with the same identity was taken before; this one is in the failed store. */
  | 'conflict'
  /** The message is older than `maxAgeMs`, or does not say how old it is; it is in the failed store. */
  | 'expired'
  /** Another process is working on this message right now. */
  | 'busy'
  /** Nothing was kept: deliver the message again. */
  | 'rolled-back'
  /** No handler is registered for its type, and the consumer has `unknown: 'ignore'`: nothing was kept. */
  | 'ignored'

/** What `handle` resolves with. `ack` says whether the broker may forget the message. */
export interface Outcome {
  readonly status: OutcomeStatus
  readonly ack: boolean
  /** The handler's error, or why hapax refused the message. */
  readonly error?: Error
  /** Without `ack`: it is of no use to deliver the message again before this time has passed, where that is known. */
  readonly retryAfterMs?: number
}

/** Options of a handler. */
export interface HandlerOptions {
  /** How this type is tried again. @default as the consumer says */
  readonly retry?: RetryOptions
}

/** How much of a subscription to have in hand, and how to read what comes from senders that know nothing of hapax. */
export interface SourceOptions extends Mapping {
  /** Messages at most. @default four times what runs at once, at most 2_000 */
  readonly prefetch?: number
  /** @default 32 MiB */
  readonly prefetchBytes?: number
}

/** A consumer and the subscription that feeds it; made by `consumer.from`. */
export interface Source<Tx> {
  readonly consumer: { readonly name: string }
  readonly subscription: Subscription
  /** Never set: a worker only takes consumers of its own kind of transaction. */
  readonly tx?: (tx: Tx) => Tx
}

/** A consumer and the webhooks that feed it; made by `consumer.from(webhook(…))`. A worker may be given it in place of its consumer. */
export interface WebhookReceiver<Tx> {
  readonly consumer: { readonly name: string }
  /** Takes one request of the provider. Never rejects. What it responds with a 200 is in the database. */
  readonly handler: (request: Request) => Promise<Response>
  /** Never set: a worker only takes consumers of its own kind of transaction. */
  readonly tx?: (tx: Tx) => Tx
}

/** What every consumer can do. */
interface Receiver {
  readonly name: string
  /**
   * Processes one delivery. `ack` of the outcome says whether the broker may forget it. Rejects only when the database could not
   * be reached or could not tell: then do not acknowledge.
   */
  handle(message: IncomingMessage): Promise<Outcome>
  /**
   * Processes deliveries. Outcomes are in the order of the messages; `signal` tells the handlers to stop. `settled` is called with each
   * outcome as soon as it is known, also if others take long, or are never known because the database fails.
   */
  handleMany(
    messages: readonly IncomingMessage[],
    signal?: AbortSignal,
    settled?: (index: number, outcome: Outcome) => void,
  ): Promise<readonly Outcome[]>
}

/** A named reader of messages: each message takes effect once per consumer. */
export interface Consumer<Tx> extends Receiver {
  readonly kind: 'transactional'
  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: Handler<Out, Tx>, options?: HandlerOptions): this
  /** Registers a handler that takes the messages of a group as one array. */
  onMany<In, Out>(type: MessageType<In, Out>, handler: ManyHandler<Out, Tx>, options?: HandlerOptions): this
  /**
   * Registers what to do when a message of this type has failed for good: it runs in the transaction that writes the message to the
   * failed store, and what it writes and publishes commits with that or not at all. If it throws, the failure is recorded without
   * it. Not called for a message that its handler could not be given, nor while it is unknown what the handler did.
   */
  onFailed<In, Out>(type: MessageType<In, Out>, hook: FailedHook<Out, Tx>): this
  /** This consumer, fed by webhooks: `billing.from(webhook(stripe({ secrets }))).handler` takes the requests. */
  from(webhook: Webhook): WebhookReceiver<Tx>
  /** This consumer, fed from a subscription: `hapax.worker({ consume: [billing.from(queue)] })`. */
  from(subscription: Subscription, options?: SourceOptions): Source<Tx>
  /** Registers a handler and returns the function that takes its messages: one line around what you have. */
  wrap<In, Out>(type: MessageType<In, Out>, handler: Handler<Out, Tx>): (message: IncomingMessage) => Promise<Outcome>
}

/** A named reader whose handlers call the outside world: one live owner at a time, and every outside call journalled. */
export interface Leased<Tx> extends Receiver {
  readonly kind: 'leased'
  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: LeasedHandler<Out, Tx>, options?: HandlerOptions): this
  /** Registers what to do when a message of this type has failed for good; see `Consumer.onFailed`. */
  onFailed<In, Out>(type: MessageType<In, Out>, hook: FailedHook<Out, Tx>): this
  /** This consumer, fed by webhooks: see `handler` of the result. */
  from(webhook: Webhook): WebhookReceiver<Tx>
  /** This consumer, fed from a subscription. */
  from(subscription: Subscription, options?: SourceOptions): Source<Tx>
  /** Registers a handler and returns the function that takes its messages. */
  wrap<In, Out>(
    type: MessageType<In, Out>,
    handler: LeasedHandler<Out, Tx>,
  ): (message: IncomingMessage) => Promise<Outcome>
}

/**
 * A leased consumer on a store that only has claims. Until a message is settled or in the failed store it stays with its broker,
 * or with the caller of `handle`.
 */
export interface ClaimConsumer extends Receiver {
  readonly kind: 'claimed'
  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: ClaimHandler<Out>, options?: HandlerOptions): this
  /** This consumer, fed by webhooks: see `handler` of the result. There is no inbox here: the handler runs while the provider waits. */
  from(webhook: Webhook): WebhookReceiver<never>
  /** This consumer, fed from a subscription. */
  from(subscription: Subscription, options?: SourceOptions): Source<never>
  /** Registers a handler and returns the function that takes its messages. */
  wrap<In, Out>(type: MessageType<In, Out>, handler: ClaimHandler<Out>): (message: IncomingMessage) => Promise<Outcome>
}

/** Options of `stop`. */
export interface StopOptions {
  /** How long to wait for running handlers before they are aborted; 0 aborts at once. @default 30_000 */
  readonly deadlineMs?: number
}

/** What `workOnce` did. The numbers are those of all workers of this hapax while it ran. */
export interface WorkedOnce {
  /** Messages whose handlers committed. */
  readonly processed: number
  /** Messages of the outbox that a destination confirmed. */
  readonly sent: number
  /** Attempts that failed and are repeated later. */
  readonly retrying: number
  /** Messages that are not tried again: they are in the failed store, or hold their key. */
  readonly failed: number
  /** Whether the time was over before nothing was due: call it again soon. What waits for a later attempt does not count. */
  readonly remaining: boolean
}

/** What a worker serves, by name: for logs and health pages. */
export interface Served {
  readonly consumers: readonly string[]
  /** Consumers that it was given and leaves alone, because they are not enabled. */
  readonly disabled: readonly string[]
  readonly relays: readonly { readonly name: string; readonly destination: string }[]
}

/** Moves messages when nothing is calling: inboxes, outboxes, subscriptions, cleaning. Runs until it is stopped. */
export interface Worker {
  /**
   * Checks what can be checked and begins. Rejects when the store is not there or not migrated, when a client library is missing,
   * when the broker of a subscription refuses or is not there, or when the settings promise what cannot be kept. The broker of a
   * relay may come later.
   */
  start(): Promise<void>
  /**
   * Whether it runs, the store has heard from it lately, and its handlers get connections: for a readiness probe. Brokers do not
   * count, because messages are taken and published without them; the events `relay-down` and `worker-error` tell of them.
   */
  readonly ready: boolean
  readonly serving: Served
  /**
   * Resolves when nothing is due and nothing is in hand, here or elsewhere; what waits for a later attempt is not due. Waits for a start
   * that is under way, and rejects before one (`not-started`).
   */
  drain(): Promise<void>
  /** Looks for work now instead of after the current pause. */
  wake(): void
  /** Stops taking messages and waits for running handlers, at most until the deadline. */
  stop(options?: StopOptions): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
