import type { RetryPolicy } from '../base/index.ts'
import { able, expected, HapaxError, nameText, noOthers, object, positiveInteger, spanMs } from '../base/index.ts'
import type { ConsumerSettings } from '../consumer/index.ts'
import { CONCURRENCY, ConsumerCore, type Fed, Feed, refuseShort, spoken, WebhookFeed } from '../consumer/index.ts'
import type {
  Consumer,
  Destination,
  EndpointDestination,
  Http,
  Leased,
  LeasedHttpContext,
  Source,
  StoreFeatures,
  WebhookReceiver,
} from '../contracts/index.ts'
import { endpointRelay, isEndpoints } from '../endpoints/index.ts'
import { LeasedCore } from '../leased/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { LeasedHttp } from '../requests/index.ts'
import type { Engine } from '../transaction/index.ts'
import type { Serves } from './membership.ts'

/** Options of a worker. It consumes, or relays, or both. */
export interface WorkerOptions<Tx> {
  /**
   * Consumers whose inbox this worker works (retries, local delivery, webhooks), and `consumer.from(…)` for those fed by a broker. What
   * is fed by webhooks stands for its consumer. Requests of `hapax.http` with mode `leased` are worked as well.
   */
  readonly consume?: readonly Consumed<Tx>[]
  /**
   * Where the outbox goes, for the relay that `createHapax` names (`default`, unless it says otherwise): a place at a broker, or
   * `webhooks({ … })` of `hapax/webhooks`, which delivers to registered endpoints. @default no relay
   */
  readonly relay?: Destination | EndpointDestination
  /** Where the outbox goes, by the name of the relay that a publish names. @default none */
  readonly relays?: Readonly<Record<string, Destination | EndpointDestination>>
  /** How long published messages are kept in `sent`, to look at or to publish again. @default not at all */
  readonly keepSentMs?: number
  /**
   * The longest pause between two looks into the database. What this process publishes is handed to the worker at once; on PostgreSQL
   * other processes notify it. @default 1_000
   */
  readonly pollMs?: number
  /** The time within which other workers take over the messages of a dead one. @default 15_000 */
  readonly takeoverMs?: number
  /**
   * Whether and how this worker deletes old rows: receipts after their consumer's `retentionMs`, sent messages after `keepSentMs`,
   * and the audit. @default true
   */
  readonly cleanup?: boolean | WorkerCleanup
}

/** What a worker can be given to consume. */
type Consumed<Tx> = Consumer<Tx> | Leased<Tx> | Source<Tx> | WebhookReceiver<Tx> | Http<LeasedHttpContext<Tx>>

/** How a worker deletes old rows. */
export interface WorkerCleanup {
  /** The shortest pause between two passes; after a long pass the pause is longer. @default 3_600_000, one hour */
  readonly everyMs?: number
  /** How long entries of the audit are kept; 'forever' never deletes them. @default 365 days */
  readonly auditRetentionMs?: number | 'forever'
}

/** The options with every default filled in. */
export interface WorkerSettings<Tx> {
  readonly consumers: readonly ConsumerCore<Tx>[]
  readonly sources: readonly Feed<Tx>[]
  readonly relays: ReadonlyMap<string, Destination>
  /** Those of the consumers that deliver to registered endpoints, and how many deliveries each of them makes at once. */
  readonly deliveries: ReadonlyMap<ConsumerCore<Tx>, number>
  /** What delivers to them, by relay. */
  readonly endpoints: ReadonlyMap<string, EndpointDestination>
  readonly keepSentMs: number | undefined
  readonly pollMs: number
  readonly takeoverMs: number
  /** The names of consumers that were given and are not enabled. */
  readonly disabled: readonly string[]
  /** Undefined: this worker deletes nothing. */
  readonly cleanup: Required<WorkerCleanup> | undefined
}

const NAMES = [
  'consume',
  'relay',
  'relays',
  'keepSentMs',
  'pollMs',
  'takeoverMs',
  'cleanup',
] as const satisfies readonly (keyof WorkerOptions<never>)[]

/** Checks the options and fills in the defaults. */
export function workerSettings<Tx>(engine: Engine<Tx>, options: WorkerOptions<Tx>): WorkerSettings<Tx> {
  noOthers('options of worker', options, NAMES)
  const { consume = [], keepSentMs } = options
  if (!Array.isArray(consume)) expected('consume', 'a list of consumers', consume)
  const given = relaysOf(options, engine.relay)
  if (consume.length === 0 && given.size === 0) {
    expected('options of worker', 'something to consume or a relay', 'neither')
  }
  const { relays, deliveries, endpoints } = assembled(engine, given)
  const consumers = [...new Set(consume.map((each) => consumerOf(engine, each)))]
  return {
    consumers: [...consumers.filter(isEnabled), ...deliveries.keys()],
    disabled: consumers.filter((each) => !isEnabled(each)).map(({ name }) => name),
    sources: consume.filter((each) => each instanceof Feed).filter(({ consumer }) => isEnabled(consumer)),
    relays,
    deliveries,
    endpoints,
    keepSentMs: keepSentMs === undefined ? undefined : spanMs('keepSentMs', keepSentMs),
    pollMs: positiveInteger('pollMs', options.pollMs, 1_000),
    takeoverMs: positiveInteger('takeoverMs', options.takeoverMs, 15_000),
    cleanup: cleanupOf(options.cleanup),
  }
}

/** What other workers are told. Getters, because handlers may be registered until the start, and listeners at any time. */
export function servesHere<Tx>(
  { source, events }: Pick<Engine<Tx>, 'source' | 'events'>,
  { consumers, relays }: Pick<WorkerSettings<Tx>, 'consumers' | 'relays'>,
): Omit<Serves, 'stuck' | 'missing' | 'failing'> {
  return {
    source,
    get consumers() {
      return new Map(consumers.map(({ name, served }) => [name, served]))
    },
    relays: [...relays.keys()],
    retention: new Map(consumers.map(({ name, settings }) => [name, retentionOf(settings)])),
    get samples() {
      return events.heard('sampled')
    },
  }
}

function retentionOf({ retentionMs }: Pick<ConsumerSettings, 'retentionMs'>): number {
  return retentionMs === 'forever' ? Number.POSITIVE_INFINITY : retentionMs
}

/** Whether this process works the messages of a consumer. */
export function isEnabled({ settings }: { readonly settings: { readonly enabled: boolean } }): boolean {
  return settings.enabled
}

const HOUR_MS = 3_600_000
const YEAR_MS = 365 * 24 * HOUR_MS

function cleanupOf(given: WorkerOptions<never>['cleanup'] = true): Required<WorkerCleanup> | undefined {
  if (given === false) return undefined
  const options = given === true ? {} : given
  object('cleanup', options, 'true, false or an object')
  noOthers('cleanup', options, ['everyMs', 'auditRetentionMs'])
  const { auditRetentionMs = YEAR_MS } = options
  return {
    everyMs: positiveInteger('cleanup.everyMs', options.everyMs, HOUR_MS),
    auditRetentionMs: auditRetentionMs === 'forever' ? 'forever' : spanMs('cleanup.auditRetentionMs', auditRetentionMs),
  }
}

function consumerOf<Tx>(engine: Engine<Tx>, of: Consumed<Tx>): ConsumerCore<Tx> {
  const given = of instanceof LeasedHttp ? of.leased : of
  const holds = given instanceof Feed || given instanceof WebhookFeed || given instanceof LeasedCore
  const consumer = holds ? given.consumer : given
  if (!(consumer instanceof ConsumerCore) || !consumer.isOf(engine)) {
    expected('consume', 'a list of consumers of the same hapax', consumer)
  }
  return consumer
}

/** Relays with registered endpoints have a consumer that delivers what they spread. */
function assembled<Tx>(
  engine: Engine<Tx>,
  given: ReadonlyMap<string, Destination | EndpointDestination>,
): Pick<WorkerSettings<Tx>, 'relays' | 'deliveries' | 'endpoints'> {
  const relays = new Map<string, Destination>()
  const deliveries = new Map<ConsumerCore<Tx>, number>()
  const endpoints = new Map<string, EndpointDestination>()
  for (const [name, destination] of given) {
    if (!isEndpoints(destination)) {
      relays.set(name, destination)
      continue
    }
    const relay = endpointRelay(engine, name, destination)
    relays.set(name, relay.destination)
    deliveries.set(relay.consumer, relay.concurrency)
    endpoints.set(name, destination)
  }
  return { relays, deliveries, endpoints }
}

function relaysOf<Tx>(
  { relay, relays = {} }: WorkerOptions<Tx>,
  own: string,
): ReadonlyMap<string, Destination | EndpointDestination> {
  object('relays', relays)
  const all = new Map<string, Destination | EndpointDestination>(Object.entries(relays))
  if (relay !== undefined && all.has(own)) expected('relay', `absent, because relays names '${own}'`, relay)
  if (relay !== undefined) all.set(own, relay)
  for (const [name, destination] of all) {
    nameText('name of a relay', name)
    if (!isEndpoints(destination)) {
      able(`relay ${name}`, 'a destination, for example an exchange of a broker', destination, ['publish', 'close'])
      object(`features of ${destination.name}`, destination.features)
    }
    nameText(`name of the destination of ${name}`, destination.name, MAX_TEXT_BYTES)
  }
  return all
}

/**
 * How many messages each consumer may handle at once, so that the pool suffices for all of them and for heartbeats. Leased handlers hold
 * no connection during their calls: all leased consumers together count as one that takes what the others leave.
 */
export function shareOut<Tx>(
  consumers: readonly ConsumerCore<Tx>[],
  pool: StoreFeatures['pool'],
): ReadonlyMap<ConsumerCore<Tx>, number> {
  const holding = consumers.filter((consumer) => !consumer.leased)
  const leased = consumers.length > holding.length ? 1 : 0
  const handlers = holding.reduce((sum, consumer) => sum + (consumer.concurrency ?? 1), 0)
  const most = forHandlers(pool)
  if (pool !== undefined && handlers + leased > most) throw poolTooSmall({ handlers, leased, pool })
  const open = holding.filter((consumer) => consumer.concurrency === undefined).length + leased
  const each = Math.min(CONCURRENCY, 1 + Math.floor((most - handlers - leased) / Math.max(1, open)))
  return new Map(
    consumers.map((consumer) => [consumer, consumer.concurrency ?? (consumer.leased ? CONCURRENCY : each)]),
  )
}

/** How many connections these shares leave to all leased consumers together. */
export function leasedShare<Tx>(shares: ReadonlyMap<ConsumerCore<Tx>, number>, pool: StoreFeatures['pool']): number {
  const consumers = [...shares.keys()]
  if (!consumers.some(({ leased }) => leased)) return Number.POSITIVE_INFINITY
  const holding = consumers.filter(({ leased }) => !leased)
  return forHandlers(pool) - holding.reduce((sum, consumer) => sum + (shares.get(consumer) ?? 0), 0)
}

/** How many connections of a pool handlers may hold. */
export function forHandlers(pool: StoreFeatures['pool']): number {
  return pool === undefined ? Number.POSITIVE_INFINITY : pool.max - pool.control
}

interface PoolNeeds {
  readonly handlers: number
  readonly leased: number
  readonly pool: NonNullable<StoreFeatures['pool']>
}

function poolTooSmall({ handlers, leased, pool }: PoolNeeds): HapaxError {
  const needed = handlers + leased + pool.control
  const parts = [
    ...(handlers > 0 ? [`${handlers} for handlers`] : []),
    ...(leased > 0 ? [`${leased} for leased consumers`] : []),
    ...(pool.control > 0 ? [`${pool.control} for heartbeats`] : []),
  ]
  return new HapaxError(
    'pool-too-small',
    `expected a pool of at least ${needed} connections (${parts.join(', ')}), got ${pool.max}: ` +
      'enlarge the pool, or lower the concurrency of the consumers',
    { fields: { needed, max: pool.max } },
  )
}

/** Refuses order from a subscription that cannot give it, and receipts that would be deleted before the last redelivery. */
export function checkSource({ consumer, subscription }: Pick<Feed<never, Fed>, 'consumer' | 'subscription'>): void {
  const { name } = consumer
  const { ordersKeys, horizonMs } = subscription.features
  if (consumer.ordered && !ordersKeys) {
    throw new HapaxError(
      'order-impossible',
      `expected a subscription that gives the messages of a key to one reader at a time, because ${name} wants order, ` +
        `got ${subscription.name}: use a single active consumer or a partitioned stream, or leave order out`,
      { fields: { consumer: name, subscription: subscription.name } },
    )
  }
  checkHorizon({ consumer, subscription }, horizonMs)
}

/** A warning about receipts that are kept for a short time, where it is not known for how long the broker may deliver a message again. */
export function horizonWarning(
  { consumer, subscription }: Pick<Feed<never, Fed>, 'consumer' | 'subscription'>,
  horizonMs: number | undefined = subscription.features.horizonMs,
): string | undefined {
  const { retentionMs } = consumer.settings
  if (horizonMs !== undefined || retentionMs === 'forever' || retentionMs >= SHORT_MS) return undefined
  return (
    `${consumer.name} keeps its receipts for ${spoken(retentionMs)}, and it is not known for how long ${subscription.name} may deliver a ` +
    'message again: a copy that comes later takes effect twice. Raise retentionMs, or state the time (horizonMs of a queue)'
  )
}

/** Receipts that are kept this long outlast what waits in a queue over a weekend. */
const SHORT_MS = 7 * 86_400_000

/** Refuses receipts that would be deleted before the last redelivery: it would then be taken as a new message. */
export function checkHorizon(
  { consumer, subscription }: Pick<Feed<never, Fed>, 'consumer' | 'subscription'>,
  horizonMs: number | undefined,
): void {
  const { name, settings } = consumer
  refuseShort(name, settings.retentionMs, horizonMs, `${subscription.name} may deliver a message again`)
}

/** A warning about settings that are allowed but hardly intended. */
export function warningOf<Tx>({ consumer, subscription }: Feed<Tx>): string | undefined {
  if (consumer.settings.onError !== 'rollback' || subscription.features.limitsRejects === true) return undefined
  return (
    `${consumer.name} leaves retries to the broker (onError: 'rollback'), but ${subscription.name} has no known delivery limit: ` +
    'a message that always fails would be delivered for ever'
  )
}

type Retention = Pick<ConsumerSettings, 'retry' | 'retentionMs'>

/** Refuses receipts that would be deleted while their message may still be retried. */
export function checkRetention({ name, settings }: Pick<ConsumerCore<never>, 'name'> & { settings: Retention }): void {
  refuseShort(name, settings.retentionMs, retrySpanMs(settings.retry), 'its retries may go on')
}

/** The longest time between the first and the last attempt. The loop is bounded, because `attempts` may be huge. */
export function retrySpanMs({ attempts, minDelayMs, maxDelayMs, factor }: RetryPolicy): number {
  let span = 0
  for (let attempt = 1; attempt < attempts && attempt < 10_000; attempt++) {
    span += Math.min(maxDelayMs, minDelayMs * Math.min(Number.MAX_VALUE, factor ** attempt))
  }
  return Math.ceil(span)
}

/** Refuses a consumer without order if another process keeps its order: messages would overtake each other for both. */
export function refuseOrderless(
  consumers: readonly { readonly name: string; readonly ordered: boolean }[],
  recorded: readonly { readonly consumer: string; readonly ordered: boolean }[],
): void {
  for (const { name, ordered } of consumers) {
    if (ordered || !recorded.some((each) => each.consumer === name && each.ordered)) continue
    throw new HapaxError(
      'order-mismatch',
      `expected consumer ${name} to have order, as another process has recorded, got order 'none': ` +
        `if order is not wanted any more, run npx hapax consumers remove ${name}`,
      { fields: { consumer: name } },
    )
  }
}

/**
 * Refuses a relay whose destination differs from the recorded one. Either the destination has changed, or a second service on this
 * database uses the relay of the first: then each would send the messages of the other to the wrong place.
 */
export function refuseMoved(relay: string, destination: string, recorded: string): void {
  if (recorded === destination) return
  throw new HapaxError(
    'relay-moved',
    `expected relay ${relay} to go to ${recorded}, as its first worker recorded, got ${destination}: ` +
      `if the relay belongs to another service on this database, give this one a relay of its own ` +
      `(createHapax({ relay }), or --relay of npx hapax relay); ` +
      `if its destination has changed, run npx hapax relays move ${relay} '${destination}'`,
    { fields: { relay, recorded, destination } },
  )
}
