import { expected, inParallel, noOthers, present } from '../base/index.ts'
import {
  allOutcomes,
  CONCURRENCY,
  consumerName,
  consumerSettings,
  distinct,
  type Fed,
  Feed,
  inGroups,
  isWebhook,
  listenerOf,
  type OutcomeListener,
  Outcomes,
  Registry,
  Reporter,
  refuseDisabled,
  reportUnavailable,
  type Settled,
  Turns,
  unknownHandler,
  WebhookFeed,
  watchOutcomes,
} from '../consumer/index.ts'
import type {
  ClaimConsumer,
  ClaimHandler,
  HandlerOptions,
  Outcome,
  SourceOptions,
  Subscription,
  Webhook,
} from '../contracts/index.ts'
import { type LeasedOptions, leaseSettings } from '../leased/index.ts'
import type { IncomingMessage, MessageType } from '../message/index.ts'
import { type IntakePolicy, intake, type Received } from '../message/index.ts'
import { type ClaimEngine, ClaimedWork, type ClaimSettings } from './work.ts'

/** Options of a leased consumer on a store without transactions. `Unknown` is the kind of handler that `unknown` takes. */
export type ClaimConsumerOptions<Unknown = never> = Omit<LeasedOptions<Unknown>, 'order' | 'isolation'>

const NAMES = [
  'enabled',
  'leaseMs',
  'maxDurationMs',
  'concurrency',
  'missingId',
  'onMismatch',
  'retry',
  'unknown',
  'maxAgeMs',
  'retentionMs',
] as const satisfies readonly (keyof ClaimConsumerOptions)[]

/**
 * The consumer behind `hapax.leased` on a claim store. There is no inbox: a message that fails stays with its broker, which delivers it
 * again; the store remembers attempts, claims and receipts.
 */
export class ClaimConsumerCore implements ClaimConsumer, Fed {
  readonly kind = 'claimed'
  readonly name: string
  readonly settings: ClaimSettings
  readonly #engine: ClaimEngine
  readonly #registry: Registry<never>
  readonly #turns: Turns
  readonly #work: ClaimedWork
  readonly #policy: IntakePolicy
  #resendsForMs = 0

  /** Made by `hapax.leased`. */
  constructor(engine: ClaimEngine, name: string, options: ClaimConsumerOptions<ClaimHandler<unknown>>) {
    noOthers('options of leased', options, NAMES)
    this.name = consumerName(name)
    this.settings = claimSettings(options)
    this.#engine = engine
    const unknown = unknownHandler<ClaimHandler<unknown>, never>(options.unknown, (handler) => ({
      kind: 'claimed',
      ...handler,
    }))
    this.#registry = new Registry(name, this.settings.retry, unknown)
    this.#turns = new Turns(name)
    this.#work = new ClaimedWork(engine, name, this.settings, this.#registry)
    const { missingId, maxAgeMs } = this.settings
    const typeOf: IntakePolicy['typeOf'] = (type) => this.#registry.handlers.get(type)?.type
    this.#policy = { missingId, maxAgeMs, maxBytes: engine.maxBytes, clock: engine.clock, ordered: false, typeOf }
  }

  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: ClaimHandler<Out>, options: HandlerOptions = {}): this {
    this.#registry.add({
      kind: 'claimed',
      retry: this.#registry.retry(options),
      type,
      call: handler,
    })
    return this
  }

  /** This consumer, fed by webhooks. Without an inbox, its handler runs while the provider waits. */
  from(webhook: Webhook): WebhookFeed<never, ClaimConsumerCore>
  /** This consumer, fed from a subscription. */
  from(subscription: Subscription, options?: SourceOptions): Feed<never, ClaimConsumerCore>
  from(
    given: Subscription | Webhook,
    options: SourceOptions = {},
  ): Feed<never, ClaimConsumerCore> | WebhookFeed<never, ClaimConsumerCore> {
    if (!isWebhook(given)) return new Feed<never, ClaimConsumerCore>(this, given, options)
    const feed = new WebhookFeed<never, ClaimConsumerCore>(this.#engine, this, given, 'direct')
    this.#resendsForMs = Math.max(this.#resendsForMs, given.resendsForMs)
    return feed
  }

  /** Registers a handler and returns the function that takes its messages. */
  wrap<In, Out>(
    type: MessageType<In, Out>,
    handler: ClaimHandler<Out>,
  ): (message: IncomingMessage) => Promise<Outcome> {
    this.on(type, handler)
    return (message) => this.handle(message)
  }

  /**
   * Takes one delivery: claims it and works on it. Resolves with its outcome; without `ack`, the broker has to deliver it again.
   * Rejects only when the store is not available: do not acknowledge then either.
   */
  async handle(message: IncomingMessage): Promise<Outcome> {
    const [result] = await this.handleMany([message])
    return present(result, 'the outcome of a message')
  }

  /** Takes one delivery; called by feeds. There is one way only. */
  take(message: IncomingMessage): Promise<Outcome> {
    return this.handle(message)
  }

  /**
   * Takes deliveries, claimed together. Outcomes are in the order of the messages; `signal` tells the handlers to stop, `settled` hears of
   * each outcome as soon as it is known.
   */
  handleMany(
    messages: readonly IncomingMessage[],
    signal?: AbortSignal,
    settled?: Settled,
  ): Promise<readonly Outcome[]> {
    return this.#engine.activity.during(() => this.#handleMany(messages, signal, settled))
  }

  async #handleMany(
    messages: readonly IncomingMessage[],
    signal: AbortSignal | undefined,
    settled: Settled | undefined,
  ): Promise<readonly Outcome[]> {
    if (!Array.isArray(messages)) expected('messages', 'an array', messages)
    refuseDisabled(this.name, this.settings)
    // Not map(), which skips the holes of a sparse array: each must be refused, and have an outcome.
    const entries = Array.from(messages, (message) => this.#entry(message))
    this.#turns.refuseNested(entries)
    if (entries.length === 0) return []
    const unique = distinct(entries)
    const listener = listenerOf(entries, settled, this.#engine.logger)
    const outcomes = await this.#engine.outages.during(() => this.#inGroups(unique, signal, listener))
    return allOutcomes(entries, unique, outcomes, (stored, before) => this.#work.takenBefore(stored, before))
  }

  async #inGroups(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    listener: OutcomeListener | undefined,
  ): Promise<readonly Outcome[]> {
    if (entries.length <= CLAIMED_TOGETHER) return this.#group(entries, signal, listener)
    const results: (readonly Outcome[])[] = []
    await inParallel(
      inGroups(entries, () => CLAIMED_TOGETHER),
      GROUPS_AT_ONCE,
      async (group, index) => {
        results[index] = await this.#group(group, signal, listener)
      },
    )
    return results.flat()
  }

  /** The types that this consumer handles. */
  get types(): readonly string[] {
    return this.#registry.types
  }

  /** The types, and `OTHERS` if there is a handler for unknown ones. */
  get served(): readonly string[] {
    return this.#registry.served
  }

  /** One by one, so that each is acknowledged as soon as it is done. Claims made in the same moment share a request anyway. */
  readonly groups: Fed['groups'] = { size: 1, next: () => 1 }

  /** For how long the providers of its webhooks send an event again. */
  get resendsForMs(): number {
    return this.#resendsForMs
  }

  /** Always false: without an inbox there is no order. */
  get ordered(): boolean {
    return false
  }

  /** Whether it belongs to this hapax. A worker cannot serve a consumer of another store. */
  isOf(engine: ClaimEngine): boolean {
    return this.#engine === engine
  }

  /** Called by a worker. No handler may be added from now on. */
  start(): void {
    this.#registry.start()
  }

  /** Retries failed messages as a person has asked for; called by a worker. */
  workStored(limit: number, signal: AbortSignal): ReturnType<ClaimedWork['workStored']> {
    return this.#work.workStored(limit, signal)
  }

  /** Messages that another call is working on, and types of other processes, are taken apart, so that they do not delay the rest. */
  async #group(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    given: OutcomeListener | undefined,
  ): Promise<readonly Outcome[]> {
    const { listener, untold } = watchOutcomes(this.#engine.events, entries, given)
    const apart = entries.filter((entry) => this.#turns.isHeld(entry.stored) || !this.#isOurs(entry))
    try {
      if (apart.length === 0) return await this.#take(entries, signal, listener)
      const together = entries.filter((entry) => !apart.includes(entry))
      const [outcomes, ...others] = await Promise.all([
        together.length === 0 ? [] : this.#take(together, signal, listener),
        ...apart.map((entry) => this.#apart(entry, signal, listener)),
      ])
      const all = new Outcomes<Received>()
      all.add(together, outcomes)
      all.add(apart, others)
      return all.inOrder(entries)
    } catch (error) {
      reportUnavailable(this.#engine.events, this.name, untold(), error)
      throw error
    }
  }

  #take(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    listener: OutcomeListener | undefined,
  ): Promise<readonly Outcome[]> {
    const messages = entries.map(({ stored }) => stored)
    return this.#turns.run(messages, () => this.#work.take(entries, signal, listener))
  }

  async #apart(
    entry: Received,
    signal: AbortSignal | undefined,
    listener: OutcomeListener | undefined,
  ): Promise<Outcome> {
    if (!this.#isOurs(entry)) {
      if (await this.#work.isElsewhere(entry.stored.type)) return this.#work.notHere(entry)
      if (this.settings.unknown === 'ignore') return new Reporter(this.#engine, this.name).ignored(entry.stored)
    }
    const [outcome] = await this.#take([entry], signal, listener)
    return present(outcome, 'the outcome of a message')
  }

  /** Whether this process settles the message itself, whatever other processes handle. */
  #isOurs({ stored, refused }: Received): boolean {
    return refused !== undefined || this.#registry.handlers.has(stored.type)
  }

  #entry(message: IncomingMessage): Received {
    return intake(message, this.#policy)
  }
}

/** How many messages of one call are claimed together. */
const CLAIMED_TOGETHER = 100
/** Two, so that a group with a slow message does not hold up the next one. */
const GROUPS_AT_ONCE = 2

function claimSettings({ leaseMs, maxDurationMs, ...others }: ClaimConsumerOptions<object>): ClaimSettings {
  const settings = consumerSettings(others, true)
  const { enabled, receive, timeoutMs, missingId, onMismatch, retry, unknown, maxAgeMs, retentionMs } = settings
  return Object.freeze({
    ...leaseSettings({ leaseMs, maxDurationMs }),
    concurrency: settings.concurrency ?? CONCURRENCY,
    ...{ enabled, receive, timeoutMs, missingId, onMismatch, retry, unknown, maxAgeMs, retentionMs },
  })
}
