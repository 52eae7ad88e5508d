import {
  type AuditCleanupOptions,
  type CleanupOptions,
  Consumers,
  cleanup,
  cleanupAudit,
  type DoctorOptions,
  doctor,
  Effects,
  Endpoints,
  explain,
  FailedStore,
  Keys,
  Receipts,
  Relays,
  Sent,
  sourceOption,
} from './admin/index.ts'
import {
  ACQUIRE_MS,
  Acquisitions,
  Activity,
  able,
  type Clock,
  clockOption,
  detachedClock,
  detachedOf,
  EventHub,
  type Events,
  flag,
  HapaxError,
  type Instrument,
  instrumentOption,
  type Logger,
  loggerOption,
  nameText,
  noOthers,
  Outages,
  oneOf,
  positiveInteger,
  type Random,
  type Redact,
  randomOption,
  redactOption,
  text,
  unsupportedNode,
  uuidv7Source,
  within,
  workerName,
} from './base/index.ts'
import { type ClaimHapax, type ClaimHapaxOptions, LeaseCore } from './claims/index.ts'
import type { ConsumerOptions } from './consumer/index.ts'
import { ConsumerCore, unknownHandler } from './consumer/index.ts'
import type {
  Consumer,
  Destination,
  EndpointDestination,
  Finding,
  Handler,
  Http,
  HttpContext,
  HttpOptions,
  Leased,
  LeasedHandler,
  LeasedHttpContext,
  LeasedHttpOptions,
  Migration,
  MigrationState,
  Published,
  Store,
  StoreFeatures,
  StoreStatus,
  Trace,
  Worker,
} from './contracts/index.ts'
import { LeasedCore, type LeasedOptions } from './leased/index.ts'

import { type Draft, MAX_TEXT_BYTES, type MessageType, messageType, type PublishOptions } from './message/index.ts'
import { consumerOf, Scopes } from './requests/index.ts'
import {
  type Committed,
  DatabaseClock,
  type Engine,
  Floor,
  Publisher,
  sentName,
  type TransactionOptions,
  transact,
} from './transaction/index.ts'
import { Crew, Unserved, UnservedPublishes, WorkerCore, type WorkerOptions } from './worker/index.ts'

/** Options of `explain`. */
interface ExplainOptions {
  /** Scans all rows, also those that no index covers. With millions of receipts, this takes seconds. @default false */
  readonly scan?: boolean
}

/** Options of `createHapax`. */
export interface HapaxOptions<Tx, Own> {
  readonly store: Store<Tx, Own>
  /** The CloudEvents source of every message that this application publishes, for example '/shop'. */
  readonly source: string
  /** `relay` writes messages to the outbox; `local` hands them to the consumers on the same database. @default 'relay' */
  readonly delivery?: 'relay' | 'local'
  /**
   * The relay that sends messages published without naming one, and that a worker's `relay` serves. A second service on the same
   * database that publishes to another place needs another name. @default 'default'
   */
  readonly relay?: string
  /** @default warnings and errors to standard error, as text on a terminal and as JSON lines elsewhere */
  readonly logger?: Logger
  /** Watches what hapax does, for traces: `opentelemetry()` of `hapax/opentelemetry`. @default nothing does */
  readonly instrument?: Instrument
  /**
   * Removes secrets of your application from error texts before they are stored or logged. What hapax recognises itself (passwords in
   * URLs, tokens, private keys) has been removed already. @default nothing more is removed
   */
  readonly redact?: Redact
  /** The largest message that is accepted or published. @default 1 MiB */
  readonly maxMessageBytes?: number
  /** How long a transaction waits for a connection if no other one gets one meanwhile. @default 10_000 */
  readonly acquireMs?: number
  readonly clock?: Clock
  readonly random?: Random
}

/** A hapax: one store, the messages published on it, and the consumers that take them. */
export interface Hapax<Tx, Own = Tx> {
  /** Events, for logs and metrics. */
  readonly events: Events
  /** The failed store. */
  readonly failed: FailedStore
  /** Keys that wait behind a message that failed for good. */
  readonly keys: Keys
  /** Messages that were published and kept. */
  readonly sent: Sent
  /** Receipts of messages, by consumer and time. */
  readonly receipts: Receipts
  /** Outside calls of leased consumers, by consumer, state and time. */
  readonly effects: Effects
  /** The consumers and relays that the store knows, whichever process they belong to. */
  readonly consumers: Consumers
  readonly relays: Relays
  /** The endpoints of outgoing webhooks. */
  readonly endpoints: Endpoints
  /** Creates or updates the tables. Safe when several instances do it at once. Resolves with what was applied. */
  migrate(): Promise<readonly Migration[]>
  migrations(): Promise<readonly MigrationState[]>
  /** Runs `work` in a transaction; what it publishes is written last and commits with it. */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Publishes a message that commits with `tx`: one of hapax's transactions, or the user's own. */
  publish<In>(tx: Tx | Own, type: MessageType<In, unknown>, data: In, options?: PublishOptions): Promise<Published>
  /** Publishes several messages with one insert, in this order. */
  publishMany(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]>
  /** A named reader. The name scopes deduplication: keep it for as long as the consumer lives. */
  consumer(name: string, options?: ConsumerOptions<Handler<unknown, Tx>>): Consumer<Tx>
  /** A named reader whose handlers call the outside world. No transaction is open meanwhile, and a retry does not repeat a call. */
  leased(name: string, options?: LeasedOptions<LeasedHandler<unknown, Tx>>): Leased<Tx>
  /**
   * HTTP requests that take effect once, by the semantics of the expired draft-07 of Idempotency-Key: the response commits with what the
   * handler writes, and a request that comes again gets the same response. The name of the scope is a part of what a key is known by.
   */
  http(scope: string, options: LeasedHttpOptions): Http<LeasedHttpContext<Tx>>
  http(scope: string, options: HttpOptions): Http<HttpContext<Tx>>
  worker(options: WorkerOptions<Tx>): Worker
  /** What waits, and who works. Found in milliseconds; numbers above 10,000 are estimates, unless `exact` is asked for. */
  status(options?: { readonly exact?: boolean }): Promise<StoreStatus>
  /**
   * Every place where a message with this id is known, oldest first. Without `source`, an id that is not a UUIDv7 is looked up only
   * under the sources of workers and of a sample of the rows; see `ExplainOptions`.
   */
  explain(id: string, source?: string, options?: ExplainOptions): Promise<readonly Trace[]>
  /** Deletes old receipts of finished messages. Workers do it by themselves; this is for manual use. */
  cleanup(options: CleanupOptions): Promise<{ readonly receipts: number }>
  /** Deletes old audit entries. Workers do it by themselves; this is for manual use. */
  cleanupAudit(options: AuditCleanupOptions): Promise<{ readonly audit: number }>
  /** Checks the store and its workers: what is wrong, what to do about it, and which tables are larger or older than they should be. */
  doctor(options?: DoctorOptions): Promise<readonly Finding[]>
  /** Stops the workers and closes what hapax opened, not the pool it was given. */
  close(): Promise<void>
}

/** What a store with transactions and a claim store have in common. */
interface AnyStore {
  readonly features: Pick<StoreFeatures, 'name'>
  close(): Promise<void>
}

/** The options of `createHapax` for this kind of store. */
type OptionsOn<S> = { readonly store: S } & (S extends Store<infer Tx, infer Own>
  ? Omit<HapaxOptions<Tx, Own>, 'store'>
  : Omit<ClaimHapaxOptions, 'store'>)

/** What `createHapax` returns for this kind of store. */
type HapaxOn<S> = S extends Store<infer Tx, infer Own> ? Hapax<Tx, Own> : ClaimHapax

/**
 * Creates a hapax. Nothing is opened before it is needed. On a claim store, such as Redis, it has leased consumers only.
 *
 * One signature for both kinds of stores, because for overloads the compiler reports only the last one, which may be the wrong one.
 */
export function createHapax<S extends AnyStore>(options: OptionsOn<S>): HapaxOn<S>
export function createHapax(
  options: HapaxOptions<unknown, unknown> | ClaimHapaxOptions,
): Hapax<unknown, unknown> | ClaimHapax {
  const objection = unsupportedNode()
  if (objection !== undefined) throw new HapaxError('unsupported-node', objection)
  return isLeaseOnly(options) ? new LeaseCore(options) : createWhole(options)
}

function isLeaseOnly(options: { readonly store: unknown }): options is ClaimHapaxOptions {
  const store = options?.store
  return typeof store === 'object' && store !== null && 'claims' in store
}

function createWhole<Tx, Own>(options: HapaxOptions<Tx, Own>): Hapax<Tx, Own> {
  noOthers('options of createHapax', options, [
    'store',
    'source',
    'delivery',
    'relay',
    'logger',
    'instrument',
    'redact',
    'maxMessageBytes',
    'acquireMs',
    'clock',
    'random',
  ])
  const { store } = options
  able('store', 'a store, for example sqlite({ path })', store, ['close'])
  able('store', 'a store, for example sqlite({ path })', store.transactions, ['run', 'enter'])
  return new Core(options)
}

class Core<Tx, Own> implements Hapax<Tx, Own> {
  readonly events: EventHub
  readonly failed: FailedStore
  readonly keys: Keys
  readonly sent: Sent
  readonly receipts: Receipts
  readonly effects: Effects
  readonly consumers: Consumers
  readonly relays: Relays
  readonly endpoints: Endpoints
  readonly activity: Activity = new Activity()
  readonly #store: Store<Tx, Own>
  readonly #engine: Engine<Tx>
  readonly #publisher: Publisher<Tx, Own>
  readonly #consumers = new Map<string, ConsumerCore<Tx>>()
  readonly #scopes: Scopes<Tx>
  readonly #crew: Crew<WorkerCore<Tx>>
  readonly #publishes: UnservedPublishes
  readonly #destinations = new Set<Destination>()
  readonly #endpoints = new Map<string, EndpointDestination>()

  constructor(options: HapaxOptions<Tx, Own>) {
    const { store } = options
    const [clock, random] = [clockOption(options.clock), randomOption(options.random)]
    const redact = redactOption(options.redact)
    const logger = loggerOption(options.logger, redact, clock)
    const maxBytes = positiveInteger('maxMessageBytes', options.maxMessageBytes, 1024 * 1024)
    const acquireMs = positiveInteger('acquireMs', options.acquireMs, ACQUIRE_MS)
    const mintId = uuidv7Source(clock, random)
    const source = sentName('source', options.source)
    const relay = options.relay === undefined ? 'default' : nameText('relay', options.relay)
    this.#store = store
    this.events = new EventHub(logger)
    const instrument = instrumentOption(options.instrument, this.events, logger, redact)
    const detached = detachedOf(instrument)
    this.#crew = new Crew({ news: store.news, clock, logger, detached })
    const wake = (rows?: readonly Committed[]): void => this.#crew.wake(rows)
    const delivery = oneOf('delivery', ['relay', 'local'], options.delivery, 'relay')
    const consumersOf = (type: string): readonly ConsumerCore<Tx>[] =>
      [...this.#consumers.values()].filter((each) => each.settings.enabled && each.types.includes(type))
    const unserved = new Unserved({ workers: store.workers, clock, logger })
    const later = detachedClock(clock, detached)
    this.#publishes = new UnservedPublishes({ store, clock: later, delivery, unserved, consumersOf })
    this.#publisher = new Publisher({
      store,
      source,
      delivery,
      relay,
      maxBytes,
      clock,
      mintId,
      events: this.events,
      instrument,
      consumersOf,
      wake,
      soon: () => this.#crew.soon(),
      written: (rows) => this.#publishes.written(rows),
    })
    const { events, activity } = this
    this.#engine = {
      store,
      publisher: this.#publisher,
      source,
      relay,
      events,
      instrument,
      detached,
      activity,
      acquisitions: new Acquisitions({ clock, events, logger, acquireMs }),
      outages: new Outages({ clock, events, logger }),
      logger,
      wake,
      unserved,
      redact,
      worker: workerName(),
      clock,
      databaseClock: new DatabaseClock(clock),
      random,
      maxBytes,
      mintId,
      floor: new Floor(clock),
    }
    this.#scopes = new Scopes(this.#engine)
    this.failed = new FailedStore({ store, clock, wake, mintId, maxBytes })
    this.keys = new Keys(store.keys, wake)
    this.sent = new Sent(store.sent, store.admin, clock, wake)
    this.receipts = new Receipts({ ...store, random })
    this.effects = new Effects(store.admin)
    this.consumers = new Consumers(store.subscriptions)
    this.relays = new Relays(store)
    const drivers = this.#endpoints
    this.endpoints = new Endpoints({ store: store.endpoints, clock, relay, source, mintId, drivers })
  }

  migrate(): Promise<readonly Migration[]> {
    return this.#store.schema.migrate()
  }

  migrations(): Promise<readonly MigrationState[]> {
    return this.#store.schema.migrations()
  }

  transaction<T>(work: (tx: Tx) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    return this.activity.during(() => transact(this.#engine, work, options))
  }

  publish<In>(tx: Tx | Own, type: MessageType<In, unknown>, data: In, options?: PublishOptions): Promise<Published> {
    return this.#publisher.publishOne(tx, type, () => {
      return messageType(type).of(data, options)
    })
  }

  publishMany(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]> {
    return this.#publisher.publish(tx, drafts)
  }

  consumer(name: string, options: ConsumerOptions<Handler<unknown, Tx>> = {}): Consumer<Tx> {
    this.#refuseSecond(name)
    const unknown = unknownHandler<Handler<unknown, Tx>, Tx>(options?.unknown, (handler) => ({
      kind: 'one',
      ...handler,
    }))
    const consumer = new ConsumerCore(this.#engine, name, options, unknown)
    this.#consumers.set(name, consumer)
    return consumer
  }

  leased(name: string, options: LeasedOptions<LeasedHandler<unknown, Tx>> = {}): Leased<Tx> {
    this.#refuseSecond(name)
    const leased = new LeasedCore(this.#engine, name, options)
    this.#consumers.set(name, leased.consumer)
    return leased
  }

  http(scope: string, options: LeasedHttpOptions): Http<LeasedHttpContext<Tx>>
  http(scope: string, options: HttpOptions): Http<HttpContext<Tx>>
  http(scope: string, options: HttpOptions | LeasedHttpOptions): Http<HttpContext<Tx>> | Http<LeasedHttpContext<Tx>> {
    if (options?.mode !== 'leased') return this.#scopes.transactional(scope, options)
    this.#refuseSecond(consumerOf(scope))
    const http = this.#scopes.leased(scope, options)
    const { consumer } = http.leased
    this.#consumers.set(consumer.name, consumer)
    return http
  }

  #refuseSecond(name: string): void {
    if (!this.#consumers.has(name)) return
    throw new HapaxError('duplicate-handler', `expected one consumer of the name ${name}, got a second one`)
  }

  worker(options: WorkerOptions<Tx>): Worker {
    const worker = new WorkerCore(this.#engine, options, this.#crew)
    for (const destination of worker.destinations) this.#destinations.add(destination)
    for (const [relay, driver] of worker.endpoints) this.#endpoints.set(relay, driver)
    this.#crew.add(worker)
    return worker
  }

  status(options: { readonly exact?: boolean } = {}): Promise<StoreStatus> {
    noOthers('options', options, ['exact'])
    return this.#store.admin.status(options)
  }

  async explain(id: string, source?: string, options: ExplainOptions = {}): Promise<readonly Trace[]> {
    noOthers('options', options, ['scan'])
    const scan = flag('scan', options.scan, false)
    return explain(this.#store, text('id', id, MAX_TEXT_BYTES), sourceOption(source), scan)
  }

  cleanup(options: CleanupOptions): Promise<{ readonly receipts: number }> {
    return cleanup(this.#store.admin, this.#engine.clock, options)
  }

  cleanupAudit(options: AuditCleanupOptions): Promise<{ readonly audit: number }> {
    return cleanupAudit(this.#store.admin, this.#engine.clock, options)
  }

  doctor(options?: DoctorOptions): Promise<readonly Finding[]> {
    return doctor(this.#store, () => this.#engine.clock.now(), options)
  }

  async close(): Promise<void> {
    if (this.activity.closed) return
    this.activity.close()
    this.#publishes.end()
    await this.#crew.stop()
    await within(this.#engine.clock, CLOSE_MS, this.activity.idle(), () => {})
    await Promise.allSettled([...this.#destinations].map((destination) => destination.close()))
    await this.#store.close()
    this.#engine.logger.end()
  }
}

/** How long closing waits for what is under way. */
const CLOSE_MS = 60_000
