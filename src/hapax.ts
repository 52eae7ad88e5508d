import {
  type AuditCleanupOptions,
  AuditLog,
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
  Messages,
  Operations,
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
  callback,
  clockOption,
  detachedClock,
  detachedOf,
  EventHub,
  flag,
  HapaxError,
  instrumentOption,
  loggerOption,
  nameText,
  noOthers,
  Outages,
  oneOf,
  positiveInteger,
  randomOption,
  redactOption,
  Semaphore,
  spanMs,
  Tally,
  text,
  unsupportedNode,
  uuidv7Source,
  within,
  workerName,
} from './base/index.ts'
import { type ClaimHapax, type ClaimHapaxOptions, LeaseCore } from './claims/index.ts'
import type { ConsumerOptions } from './consumer/index.ts'
import { ConsumerCore, logProcessed, unknownHandler } from './consumer/index.ts'
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
  MinuteSample,
  PublishArguments,
  Published,
  Store,
  StoreFeatures,
  StoreStatus,
  Trace,
  WorkedOnce,
  Worker,
} from './contracts/index.ts'
import { LeasedCore, type LeasedOptions } from './leased/index.ts'

import {
  DELIVERIES,
  type Draft,
  isMessageType,
  MAX_TEXT_BYTES,
  type MessageType,
  messageType,
  type PublishOptions,
} from './message/index.ts'
import type { ExplainOptions, Hapax, HapaxOptions } from './public.ts'
import { consumerOf, Scopes } from './requests/index.ts'
import {
  type Committed,
  DatabaseClock,
  type Engine,
  Floor,
  OUTSIDE_QUERIES,
  OutsideQueries,
  Publisher,
  sentName,
  type TransactionOptions,
  transact,
} from './transaction/index.ts'
import {
  Crew,
  forHandlers,
  Unserved,
  UnservedPublishes,
  WorkerCore,
  type WorkerOptions,
  type WorkOnceOptions,
  workOnce,
} from './worker/index.ts'

export type { Hapax, HapaxOptions } from './public.ts'

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
    'route',
    'logger',
    'instrument',
    'redact',
    'maxMessageBytes',
    'acquireMs',
    'outsideQueries',
    'around',
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
  readonly operations: Operations
  readonly receipts: Receipts
  readonly effects: Effects
  readonly messages: Messages
  readonly audit: AuditLog
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
    const mode = oneOf('outsideQueries', OUTSIDE_QUERIES, options.outsideQueries, 'warn')
    const mintId = uuidv7Source(clock, random)
    const source = sentName('source', options.source)
    const relay = options.relay === undefined ? 'default' : nameText('relay', options.relay)
    this.#store = store
    this.events = new EventHub(logger)
    logProcessed(this.events, logger)
    const instrument = instrumentOption(options.instrument, this.events, logger, redact)
    const detached = detachedOf(instrument)
    this.#crew = new Crew({ news: store.news, clock, logger, detached })
    const wake = (rows?: readonly Committed[]): void => this.#crew.wake(rows)
    const delivery = oneOf('delivery', DELIVERIES, options.delivery, 'relay')
    callback('route', options.route)
    callback('around', options.around)
    const consumersOf = (type: string): readonly ConsumerCore<Tx>[] =>
      [...this.#consumers.values()].filter((each) => each.settings.enabled && each.types.includes(type))
    const unserved = new Unserved({ workers: store.workers, clock, logger })
    const later = detachedClock(clock, detached)
    this.#publishes = new UnservedPublishes({ store, clock: later, unserved, consumersOf })
    this.#publisher = new Publisher({
      store,
      around: options.around,
      source,
      delivery,
      relay,
      route: options.route,
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
    const isOnPool = (pool: object): boolean => store.transactions.isOnPool?.(pool) === true
    const { events, activity } = this
    this.#engine = {
      store,
      publisher: this.#publisher,
      outside: new OutsideQueries({ mode, isOnPool, logger }),
      source,
      relay,
      events,
      tally: new Tally(clock),
      instrument,
      detached,
      activity,
      acquisitions: new Acquisitions({ clock, events, logger, acquireMs }),
      leasedShare: new Semaphore(Math.max(1, forHandlers(store.features.pool))),
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
    const begun = (): void => this.#crew.begun()
    this.operations = new Operations({ store, clock: later, random, redact, wake, mintId, begun })
    const { operations } = this
    this.failed = new FailedStore({ store, clock, wake, mintId, maxBytes, operations })
    this.keys = new Keys(store.keys, wake)
    this.sent = new Sent({ store, clock, operations, wake })
    this.receipts = new Receipts({ ...store, random })
    this.effects = new Effects(store.admin)
    this.messages = new Messages({ store, clock, wake })
    this.audit = new AuditLog(store.admin)
    this.consumers = new Consumers(store)
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

  publish<First extends Tx | Own | MessageType<never, unknown>, Data>(
    first: First,
    ...rest: PublishArguments<First, Data>
  ): Promise<Published>
  publish(...args: HerePublish | TxPublish<Tx | Own>): Promise<Published> {
    if (isHere(args)) return this.#publisher.publishOneHere(...args)
    const [tx, type, data, options] = args
    return this.#publisher.publishOne(tx, type, () => messageType(type).of(data, options))
  }

  publishMany(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]>
  publishMany(drafts: readonly Draft[]): Promise<readonly Published[]>
  publishMany(...args: [Tx | Own, readonly Draft[]] | [readonly Draft[]]): Promise<readonly Published[]> {
    return args.length === 1 ? this.#publisher.publishHere(...args) : this.#publisher.publish(...args)
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
    return this.#worker(options, this.#crew)
  }

  workOnce(options: WorkOnceOptions<Tx>): Promise<WorkedOnce> {
    // Nothing is awaited for long, so that no connection has to listen for news.
    const crew = {
      listen: () => () => Promise.resolve(),
      remove: (worker: WorkerCore<Tx>) => this.#crew.remove(worker),
    }
    return this.activity.during(() => workOnce(this.#engine, options, (own) => this.#worker(own, crew)))
  }

  #worker(options: WorkerOptions<Tx>, crew: Pick<Crew<WorkerCore<Tx>>, 'listen' | 'remove'>): WorkerCore<Tx> {
    const worker = new WorkerCore(this.#engine, options, crew)
    for (const destination of worker.destinations) this.#destinations.add(destination)
    for (const [relay, driver] of worker.endpoints) this.#endpoints.set(relay, driver)
    this.#crew.add(worker)
    return worker
  }

  status(options: { readonly exact?: boolean } = {}): Promise<StoreStatus> {
    noOthers('options', options, ['exact'])
    return this.#store.admin.status(options)
  }

  async history(options: { readonly sinceMs?: number } = {}): Promise<readonly MinuteSample[]> {
    noOthers('options', options, ['sinceMs'])
    return this.#store.samples.list(options.sinceMs === undefined ? HOUR_MS : spanMs('sinceMs', options.sinceMs))
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

type HerePublish = [type: MessageType, data: unknown, options?: PublishOptions]
type TxPublish<Tx> = [tx: Tx, ...HerePublish]

/** The second argument is looked at first: a transaction that has ended refuses to be looked at. */
function isHere<Tx>(args: HerePublish | TxPublish<Tx>): args is HerePublish {
  return !isMessageType(args[1]) && isMessageType(args[0])
}

/** How far back the history goes if nothing is said. */
const HOUR_MS = 3_600_000
/** How long closing waits for what is under way. */
const CLOSE_MS = 60_000
