import { asError, expected, inParallel, nameText, present } from '../base/index.ts'
import type {
  Consumer,
  FailedHook,
  Handler,
  HandlerOptions,
  LeasedHandler,
  ManyHandler,
  Outcome,
  SourceOptions,
  Subscription,
  Webhook,
} from '../contracts/index.ts'
import type { IncomingMessage, StoredMessage } from '../message/index.ts'
import {
  factsOfStored,
  type IntakePolicy,
  intake,
  type MessageType,
  messageType,
  type Received,
} from '../message/index.ts'
import { committedInbox, type Engine } from '../transaction/index.ts'
import { allOutcomes, distinct, inGroups, listenerOf, type OutcomeListener, Outcomes, type Settled } from './batch.ts'
import { Taker } from './direct.ts'
import { type Elsewhere, typesElsewhere } from './elsewhere.ts'
import { Recorder } from './failures.ts'
import { Feed } from './feed.ts'
import { GroupSize } from './group-size.ts'
import { type Job, prepareJob, type Registered, Registry } from './handlers.ts'
import { Keys } from './keys.ts'
import { Turns } from './one-at-a-time.ts'
import { type ConsumerOptions, type ConsumerSettings, consumerSettings, refuseDisabled } from './options.ts'
import { reportUnavailable, watchOutcomes } from './reporter.ts'
import type { Noted, StoredWork, StoredWorkParts } from './stored.ts'
import { InboxWork } from './stored.ts'
import { watched } from './watched.ts'
import { isWebhook, WebhookFeed } from './webhook-feed.ts'

/**
 * The consumer behind `hapax.consumer` and `hapax.leased`. It decides the way of each delivery: called at once (`direct`), stored for a
 * worker, or stored and then worked at once. Whatever it resolves with is committed, so that the broker may be told.
 */
export class ConsumerCore<Tx> implements Consumer<Tx> {
  readonly kind = 'transactional'
  readonly name: string
  readonly #engine: Engine<Tx>
  readonly #settings: ConsumerSettings
  readonly #policy: IntakePolicy
  readonly #registry: Registry<Tx>
  readonly #recorder: Recorder<Tx>
  readonly #taker: Taker<Tx>
  readonly #inbox: StoredWork
  /** Whether its handlers run under leases, without a transaction. */
  readonly leased: boolean
  readonly #turns: Turns
  readonly #groups: GroupSize
  readonly #keys: Keys<Tx>
  #lastStored: Promise<unknown> = Promise.resolve()
  #resendsForMs = 0

  /** Made by `hapax.consumer`, and by `hapax.leased`, which passes its own way to work stored rows. */
  constructor(
    engine: Engine<Tx>,
    name: string,
    options: ConsumerOptions<object>,
    unknown: Registered<Tx> | undefined,
    leased?: (parts: StoredWorkParts<Tx>) => StoredWork,
  ) {
    this.name = consumerName(name)
    this.#engine = engine
    this.#settings = consumerSettings(options, engine.store.features.parallelWriters)
    const { missingId, maxAgeMs } = this.#settings
    this.#registry = new Registry(name, this.#settings.retry, unknown)
    this.#policy = { missingId, maxAgeMs, maxBytes: engine.maxBytes, clock: engine.clock, ...this.#keyPolicy() }
    this.#turns = new Turns(name)
    this.#recorder = new Recorder(engine, name, this.#settings, this.#registry)
    this.leased = leased !== undefined
    // What runs under a lease shares no transaction.
    const { mostShared } = engine.store.features
    this.#groups = new GroupSize(this.leased ? 1 : this.#settings.groupSize, mostShared)
    const [settings, recorder, registry, groups] = [this.#settings, this.#recorder, this.#registry, this.#groups]
    this.#keys = new Keys(engine, name, settings, registry)
    const parts = { engine, consumer: name, settings, recorder, registry, groups, keys: this.#keys }
    this.#taker = new Taker(parts)
    this.#inbox = leased?.(parts) ?? new InboxWork(parts)
  }

  /** Registers the handler of a message type. */
  on<In, Out>(type: MessageType<In, Out>, handler: Handler<Out, Tx>, options: HandlerOptions = {}): this {
    return this.#register({ kind: 'one', retry: this.#registry.retry(options), type, call: handler })
  }

  /** Registers a handler that takes the messages of a group as one array. */
  onMany<In, Out>(type: MessageType<In, Out>, handler: ManyHandler<Out, Tx>, options: HandlerOptions = {}): this {
    this.#groups.forMany()
    return this.#register({ kind: 'many', retry: this.#registry.retry(options), type, call: handler })
  }

  /** Registers a handler that runs under a lease. */
  onLeased<In, Out>(type: MessageType<In, Out>, handler: LeasedHandler<Out, Tx>, options: HandlerOptions): this {
    return this.#register({ kind: 'leased', retry: this.#registry.retry(options), type, call: handler })
  }

  /** Registers a hook that runs in the transaction that moves a message of this type to the failed store. */
  onFailed<In, Out>(type: MessageType<In, Out>, hook: FailedHook<Out, Tx>): this {
    this.#registry.addHook(messageType(type), { call: hook })
    return this
  }

  /** This consumer, fed by webhooks: see `handler` of the result. */
  from(webhook: Webhook): WebhookFeed<Tx>
  /** This consumer, fed from a subscription: `hapax.worker({ consume: [billing.from(queue)] })`. */
  from(subscription: Subscription, options?: SourceOptions): Feed<Tx>
  from(given: Subscription | Webhook, options: SourceOptions = {}): Feed<Tx> | WebhookFeed<Tx> {
    if (!isWebhook(given)) return new Feed(this, given, options)
    const feed = new WebhookFeed(this.#engine, this, given)
    this.#resendsForMs = Math.max(this.#resendsForMs, given.resendsForMs)
    return feed
  }

  /** Registers a handler and returns the function that takes its messages: one line around an existing subscriber. */
  wrap<In, Out>(type: MessageType<In, Out>, handler: Handler<Out, Tx>): (message: IncomingMessage) => Promise<Outcome> {
    this.on(type, handler)
    return (message) => this.handle(message)
  }

  /**
   * Processes one delivery. Resolves with its outcome, whose `ack` says whether the broker may forget the message. Rejects only when
   * the database is not available, or the outcome of a commit is unknown: do not acknowledge then.
   */
  handle(message: IncomingMessage): Promise<Outcome> {
    return this.take(message, this.#settings.receive)
  }

  /** Processes one delivery in this way, whatever the options of the consumer say; called by feeds. */
  async take(message: IncomingMessage, receive: Receive): Promise<Outcome> {
    const { activity, outages } = this.#engine
    const { noticed } = outages
    activity.begin()
    try {
      refuseDisabled(this.name, this.#settings)
      const entry = [this.#entry(message)]
      this.#turns.refuseNested(entry)
      const outcomes = await this.#group(entry, undefined, receive)
      outages.over(noticed)
      if (outcomes.some(isLeftToWorkers)) await this.#warnIfUnserved(entry, outcomes)
      return present(outcomes[0], 'the outcome of a message')
    } catch (error) {
      outages.failed(error)
      throw error
    } finally {
      activity.end()
    }
  }

  /**
   * Processes deliveries, grouped as the consumer's `group` says. Outcomes are in the order of the messages; `signal` tells the
   * handlers to stop, `settled` hears of each outcome as soon as it is known.
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
    refuseDisabled(this.name, this.#settings)
    // Not map(), which skips the holes of a sparse array: each must be refused, and have an outcome.
    const entries = Array.from(messages, (message) => this.#entry(message))
    this.#turns.refuseNested(entries)
    if (entries.length === 0) return []
    const unique = distinct(entries)
    const { outages } = this.#engine
    const { noticed } = outages
    try {
      const outcomes = await this.#inGroups(unique, signal, listenerOf(entries, settled, this.#engine.logger))
      outages.over(noticed)
      if (outcomes.some(isLeftToWorkers)) await this.#warnIfUnserved(unique, outcomes)
      return await allOutcomes(entries, unique, outcomes, (stored, before) => this.#recorder.taken(stored, before))
    } catch (error) {
      outages.failed(error)
      throw error
    }
  }

  async #inGroups(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    listener: OutcomeListener | undefined,
  ): Promise<readonly Outcome[]> {
    const { receive } = this.#settings
    const size = (): number => (receive === 'store' ? STORE_SIZE : this.#groups.size)
    if (entries.length <= size()) return this.#group(entries, signal, receive, listener)
    const concurrency = this.ordered ? 1 : (this.#settings.concurrency ?? CONCURRENCY)
    const results: (readonly Outcome[])[] = []
    await inParallel(inGroups(entries, size), concurrency, async (group, index) => {
      results[index] = await this.#group(group, signal, receive, listener)
    })
    return results.flat()
  }

  /** A stored message needs a worker. Applications that only call `handle` may not have one, and would wait for ever. */
  async #warnIfUnserved(entries: readonly Received[], outcomes: readonly Outcome[]): Promise<void> {
    if (this.#registry.started) return
    const left = entries[outcomes.findIndex(isLeftToWorkers)]
    if (left !== undefined) await this.#engine.unserved.look(this.name, left.stored.type)
  }

  /** The types that this consumer handles. */
  get types(): readonly string[] {
    return this.#registry.types
  }

  /** The types that its workers serve; `OTHERS` stands for all types without a handler. */
  get served(): readonly string[] {
    return this.#registry.served
  }

  /** How many messages may share a transaction. */
  get groups(): GroupSize {
    return this.#groups
  }

  /** How many transactions it may run at once. Undefined: as many as the pool of connections allows. */
  get concurrency(): number | undefined {
    return this.#settings.concurrency
  }

  /** Whether messages of one key take effect in their order. */
  get ordered(): boolean {
    return this.#settings.order !== 'none'
  }

  get settings(): ConsumerSettings {
    return this.#settings
  }

  /** For how long the providers of its webhooks send an event again. */
  get resendsForMs(): number {
    return this.#resendsForMs
  }

  /** Whether it belongs to this hapax. A worker cannot serve a consumer of another store. */
  isOf(engine: Engine<Tx>): boolean {
    return this.#engine === engine
  }

  /** Called by a worker. No handler may be added from now on: the worker has told the others which types it serves. */
  start(): void {
    this.#registry.start()
  }

  /** Works rows of the inbox; called by a worker. A row without an outcome was settled or locked by another worker. */
  work(seqs: readonly string[], signal?: AbortSignal, noted?: Noted): Promise<ReadonlyMap<string, Outcome>> {
    return this.#inbox.work(seqs, signal, noted)
  }

  #register(handler: Registered<Tx>): this {
    this.#registry.add(handler)
    return this
  }

  get #handlers(): ReadonlyMap<string, Registered<Tx>> {
    return this.#registry.handlers
  }

  #keyPolicy(): Pick<IntakePolicy, 'ordered' | 'typeOf'> {
    return { ordered: this.ordered, typeOf: (type) => this.#handlers.get(type)?.type }
  }

  #entry(message: IncomingMessage): Received {
    return intake(message, this.#policy)
  }

  async #group(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    receive: Receive,
    given?: OutcomeListener,
  ): Promise<readonly Outcome[]> {
    const { listener, untold } = watchOutcomes(this.#engine.events, entries, given)
    const jobs: Job<Tx>[] = []
    const toStore: ToStore[] = []
    const elsewhere = typesElsewhere(this.#engine.store, this.name)
    // Undefined: all of them are jobs, which is the usual case.
    let others: Outcomes<StoredMessage> | undefined
    try {
      for (const entry of entries) {
        const preparing = this.#prepare(entry, elsewhere, receive)
        const prepared = preparing instanceof Promise ? await preparing : preparing
        if (isJob(prepared)) {
          jobs.push(prepared)
          continue
        }
        others ??= new Outcomes(listener)
        if (typeof prepared === 'string') toStore.push({ ...entry, atOnce: prepared === 'work' })
        else others.set(entry.stored, prepared)
      }
      if (others === undefined) return jobs.length === 0 ? [] : await this.#take(jobs, signal, listener)
      if (toStore.length > 0) await this.#store(toStore, others, signal)
      if (jobs.length > 0) others.add(jobs.map(storedOf), await this.#take(jobs, signal, listener))
      return others.inOrder(entries.map(storedOf))
    } catch (error) {
      reportUnavailable(this.#engine.events, this.name, untold(), error)
      throw error
    }
  }

  #take(
    jobs: readonly Job<Tx>[],
    signal: AbortSignal | undefined,
    listener: OutcomeListener | undefined,
  ): Promise<readonly Outcome[]> {
    return this.#turns.run(jobs.map(storedOf), () => this.#taker.take(jobs, { signal, listener }))
  }

  #prepare(entry: Received, elsewhere: Elsewhere, receive: Receive): Prepared<Tx> | Promise<Prepared<Tx>> {
    const { stored, refused } = entry
    if (refused !== undefined) return this.#refuse(stored, refused)
    const handler = this.#handlers.get(stored.type)
    if (handler === undefined) return this.#withoutHandler(entry, elsewhere, receive)
    return this.#prepareFor(handler, entry, receive)
  }

  #prepareFor(
    handler: Registered<Tx>,
    { stored, redelivered }: Received,
    receive: Receive,
  ): Prepared<Tx> | Promise<Prepared<Tx>> {
    if (receive === 'store') return 'store'
    // A redelivery may be a message that ended its process. The inbox counts starts, and stops such a message after a few.
    if (this.leased || (redelivered && this.#settings.onError === 'store')) return 'work'
    const refuse = (error: unknown): Promise<Outcome> => this.#refuse(stored, asError(error))
    try {
      const job = prepareJob(handler, stored, 1)
      return job instanceof Promise ? job.catch(refuse) : job
    } catch (error) {
      return refuse(error)
    }
  }

  /** During a rolling deployment another process may handle the type: then it is stored for that process. Otherwise `unknown` decides. */
  async #withoutHandler(entry: Received, elsewhere: Elsewhere, receive: Receive): Promise<Prepared<Tx>> {
    const { stored } = entry
    if (await elsewhere(stored.type)) return 'store'
    const { unknown } = this.#registry
    if (unknown !== undefined) return this.#prepareFor(unknown, entry, receive)
    if (this.#settings.unknown === 'ignore') return this.#recorder.ignored(stored)
    return this.#refuse(stored, this.#registry.unknownType(stored.type))
  }

  /** Records a message that no handler can be called with. To those who watch, that is a failed attempt as well. */
  #refuse(stored: StoredMessage, error: Error): Promise<Outcome> {
    const { instrument } = this.#engine
    const record = (): Promise<Outcome> => this.#recorder.firstDelivery(stored, error, 0)
    if (instrument === undefined) return record()
    return watched({ instrument, consumer: this.name }, factsOfStored([stored]), record)
  }

  /** Writes to the inbox. A redelivery is then worked from there at once, so that its starts are counted. */
  async #store(
    entries: readonly ToStore[],
    outcomes: Outcomes<StoredMessage>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const later = entries.filter(({ atOnce }) => !atOnce)
    if (later.length > 0) await this.#storeAll(later, 0, outcomes)
    for (const entry of entries.filter(({ atOnce }) => atOnce)) {
      await this.#storeAll([entry], 1, outcomes)
      if (outcomes.get(entry.stored)?.status !== 'stored') continue
      const seq = await this.#engine.store.inbox.find(this.name, entry.stored.messageKey)
      const worked = seq && (await this.#turns.run([entry.stored], () => this.work([seq], signal))).get(seq)
      // Without an outcome, a worker was faster. The message is in the inbox or settled, so `stored` remains true.
      if (worked) outcomes.set(entry.stored, worked)
    }
  }

  async #storeAll(entries: readonly Received[], starts: 0 | 1, outcomes: Outcomes<StoredMessage>): Promise<void> {
    const messages = entries.map((entry) => entry.stored)
    for (const message of messages) this.#keys.came(message)
    const storing = (): Promise<readonly Outcome[]> =>
      this.#turns.run(messages, () => this.#recorder.store(messages, starts))
    const results = await (this.ordered ? this.#inTurn(storing) : storing())
    outcomes.add(messages, results)
    if (starts === 0) this.#engine.wake(committedInbox(this, messages, results))
  }

  /** With order, deliveries are stored one call after another, because the order of the rows is the order of their effects. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#lastStored.then(work, work)
    this.#lastStored = turn.catch(() => {})
    return turn
  }
}

/** How many transactions run at once, unless the options or the pool say otherwise. */
export const CONCURRENCY = 10
/** Outcomes after which a worker has to continue. */
const isLeftToWorkers = ({ status }: Outcome): boolean => status === 'retrying' || status === 'stored'
/** How many deliveries one transaction stores at most. Bounded, because one refused row makes a group repeat. */
const STORE_SIZE = 500

/** A job, the outcome of a message that cannot become one, or the way to the inbox: to be worked later or at once. */
type Prepared<Tx> = Job<Tx> | Outcome | 'store' | 'work'

function isJob<Tx>(prepared: Prepared<Tx>): prepared is Job<Tx> {
  return typeof prepared === 'object' && 'stored' in prepared
}

interface ToStore extends Received {
  readonly atOnce: boolean
}

type Receive = ConsumerSettings['receive']

const storedOf = ({ stored }: { readonly stored: StoredMessage }): StoredMessage => stored

/** Checks the name of a consumer. */
export function consumerName(name: string): string {
  return nameText('name', name)
}
