import { expected, noOthers, positiveInteger } from '../base/index.ts'
import {
  ConsumerCore,
  type ConsumerOptions,
  type Feed,
  isWebhook,
  type Settled,
  unknownHandler,
  type WebhookFeed,
} from '../consumer/index.ts'
import type {
  Consumer,
  FailedHook,
  HandlerOptions,
  Leased,
  LeasedHandler,
  Outcome,
  SourceOptions,
  Subscription,
  Webhook,
} from '../contracts/index.ts'
import type { IncomingMessage, MessageType } from '../message/index.ts'
import type { Engine } from '../transaction/index.ts'
import { type Finish, LeasedWork, type LeaseSettings } from './work.ts'

/** Options of a leased consumer. `Unknown` is the kind of handler that `unknown` takes. */
export interface LeasedOptions<Unknown = never>
  extends Pick<
    ConsumerOptions<Unknown>,
    | 'enabled'
    | 'order'
    | 'concurrency'
    | 'missingId'
    | 'onMismatch'
    | 'retry'
    | 'unknown'
    | 'maxAgeMs'
    | 'retentionMs'
    | 'isolation'
  > {
  /** How long a lease lasts: after a crash, the message is free again after this time. Renewed every third of it. @default 30_000 */
  readonly leaseMs?: number
  /** How long a handler may take. After that it is told to stop, and the attempt has failed. @default 300_000 */
  readonly maxDurationMs?: number
}

const NAMES = [
  'enabled',
  'leaseMs',
  'maxDurationMs',
  'order',
  'concurrency',
  'missingId',
  'onMismatch',
  'retry',
  'unknown',
  'maxAgeMs',
  'retentionMs',
  'isolation',
] as const satisfies readonly (keyof LeasedOptions)[]

/** Checks the time limits and fills in the defaults. */
export function leaseSettings(given: { [Name in keyof LeaseSettings]: number | undefined }): LeaseSettings {
  const leaseMs = positiveInteger('leaseMs', given.leaseMs, 30_000)
  if (leaseMs < 100) expected('leaseMs', 'at least 100', leaseMs)
  return { leaseMs, maxDurationMs: positiveInteger('maxDurationMs', given.maxDurationMs, 300_000) }
}

/** The consumer behind `hapax.leased`: a `ConsumerCore` that works all its messages from the inbox, under leases. */
export class LeasedCore<Tx> implements Leased<Tx> {
  readonly kind = 'leased'
  readonly name: string
  /** What the worker works. */
  readonly consumer: ConsumerCore<Tx>

  /** Made by `hapax.leased`. `finish` is for what else is written with the settling of a message. */
  constructor(engine: Engine<Tx>, name: string, options: LeasedOptions<LeasedHandler<unknown, Tx>>, finish?: Finish) {
    noOthers('options of leased', options, NAMES)
    const { leaseMs, maxDurationMs, ...others } = options
    const lease = leaseSettings({ leaseMs, maxDurationMs })
    const unknown = unknownHandler<LeasedHandler<unknown, Tx>, Tx>(others.unknown, (handler) => ({
      kind: 'leased',
      ...handler,
    }))
    this.consumer = new ConsumerCore(engine, name, others, unknown, (parts) => new LeasedWork(parts, lease, finish))
    this.name = name
  }

  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: LeasedHandler<Out, Tx>, options: HandlerOptions = {}): this {
    this.consumer.onLeased(type, handler, options)
    return this
  }

  /** Registers what to do when a message of this type has failed for good; see `Consumer.onFailed`. */
  onFailed<In, Out>(type: MessageType<In, Out>, hook: FailedHook<Out, Tx>): this {
    this.consumer.onFailed(type, hook)
    return this
  }

  /** This consumer, fed by webhooks. */
  from(webhook: Webhook): WebhookFeed<Tx>
  /** This consumer, fed from a subscription. */
  from(subscription: Subscription, options?: SourceOptions): Feed<Tx>
  from(given: Subscription | Webhook, options: SourceOptions = {}): Feed<Tx> | WebhookFeed<Tx> {
    return isWebhook(given) ? this.consumer.from(given) : this.consumer.from(given, options)
  }

  /** Registers a handler and returns the function that takes its messages. */
  wrap<In, Out>(
    type: MessageType<In, Out>,
    handler: LeasedHandler<Out, Tx>,
  ): (message: IncomingMessage) => Promise<Outcome> {
    this.on(type, handler)
    return (message) => this.handle(message)
  }

  /** Takes one delivery: stores it, then works on it under a lease, at once. */
  handle(message: IncomingMessage): Promise<Outcome> {
    return this.consumer.handle(message)
  }

  /** Takes deliveries. Outcomes are in the order of the messages; `signal` tells the handlers to stop, `settled` hears of each outcome. */
  handleMany(
    messages: readonly IncomingMessage[],
    signal?: AbortSignal,
    settled?: Settled,
  ): Promise<readonly Outcome[]> {
    return this.consumer.handleMany(messages, signal, settled)
  }
}

/** What workers see of a consumer that a user holds. */
export function coreOf<Tx>(given: Consumer<Tx> | Leased<Tx>): ConsumerCore<Tx> {
  const core = given instanceof LeasedCore ? given.consumer : given
  return core instanceof ConsumerCore ? core : expected('consumer', 'a consumer of this hapax', given)
}
