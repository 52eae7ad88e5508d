// What users of hapax see of it; hapax.ts puts the parts together.

import type {
  AuditCleanupOptions,
  AuditLog,
  CleanupOptions,
  Consumers,
  DoctorOptions,
  Effects,
  Endpoints,
  FailedStore,
  Keys,
  Messages,
  Operations,
  Receipts,
  Relays,
  Sent,
} from './admin/index.ts'
import type { Clock, Events, Instrument, Logger, Random, Redact } from './base/index.ts'
import type { ConsumerOptions } from './consumer/index.ts'
import type {
  Consumer,
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
  StoreStatus,
  Trace,
  WorkedOnce,
  Worker,
} from './contracts/index.ts'
import type { LeasedOptions } from './leased/index.ts'
import type { Draft, MessageType } from './message/index.ts'
import type { Route, TransactionOptions } from './transaction/index.ts'
import type { WorkerOptions, WorkOnceOptions } from './worker/index.ts'

/** Options of `explain`. */
export interface ExplainOptions {
  /** Scans all rows, also those that no index covers. With millions of receipts, this takes seconds. @default false */
  readonly scan?: boolean
}

/** Options of `createHapax`. */
export interface HapaxOptions<Tx, Own> {
  readonly store: Store<Tx, Own>
  /** The CloudEvents source of every message that this application publishes, for example '/shop'. */
  readonly source: string
  /**
   * `relay` writes messages to the outbox; `local` hands them to the consumers on the same database. For messages of which neither the
   * publish, nor the type, nor `route` says it. @default 'relay'
   */
  readonly delivery?: 'relay' | 'local'
  /**
   * The relay that sends messages published without naming one, and that a worker's `relay` serves. A second service on the same
   * database that publishes to another place needs another name. @default 'default'
   */
  readonly relay?: string
  /**
   * Says where a message goes, as `{ relay }` or `{ delivery }`, if neither its publish nor its type does. It is called for each publish,
   * possibly more than once, and has to return the same for the same message, at once. @default all go where `delivery` and `relay` say
   */
  readonly route?: Route
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
  /**
   * What happens when a handler, or a service that it calls, takes another connection from the store's pool: its writes there are not part
   * of the handler's transaction. `warn` logs the first time in each consumer, with the stack; `error` refuses the connection
   * and fails the attempt with `outside-query`. @default 'warn'
   */
  readonly outsideQueries?: 'warn' | 'error' | 'ignore'
  /**
   * Calls a handler, or the work of `hapax.transaction`, where services look for the transaction: `(tx, call) => storage.run(tx, call)`.
   * It calls `call` once, at once, and returns what that returned. @default `call` is called
   */
  around?<T>(tx: Tx, call: () => T): T
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
  /** Changes to many rows: what was begun, by whom, and how far it is. */
  readonly operations: Operations
  /** Receipts of messages, by consumer and time. */
  readonly receipts: Receipts
  /** Outside calls of leased consumers, by consumer, state and time. */
  readonly effects: Effects
  /** Messages that wait in the inbox or the outbox, and why. */
  readonly messages: Messages
  /** What people did by hand. */
  readonly audit: AuditLog
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
  /**
   * `publish(tx, type, data, options?)` publishes a message that commits with `tx`: one of hapax's transactions, or the user's own.
   * `publish(type, data, options?)` publishes in the transaction that the code is inside of: that of `hapax.transaction` or of a handler.
   */
  publish<First extends Tx | Own | MessageType<never, unknown>, Data>(
    first: First,
    ...rest: PublishArguments<First, Data>
  ): Promise<Published>
  /** Publishes several messages with one insert, in this order. */
  publishMany(tx: Tx | Own, drafts: readonly Draft[]): Promise<readonly Published[]>
  /** The same in the transaction that the code is inside of. */
  publishMany(drafts: readonly Draft[]): Promise<readonly Published[]>
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
  /**
   * Works what is due, in inboxes and outboxes, until nothing is or `maxMs` is over, and ends: for endpoints that a scheduler calls where no
   * process runs for long. Several calls at once, in any processes, share the work.
   */
  workOnce(options: WorkOnceOptions<Tx>): Promise<WorkedOnce>
  /** What waits, and who works. Found in milliseconds; numbers above 10,000 are estimates, unless `exact` is asked for. */
  status(options?: { readonly exact?: boolean }): Promise<StoreStatus>
  /** What happened minute by minute, and what waited, as workers have counted it. */
  history(options?: { readonly sinceMs?: number }): Promise<readonly MinuteSample[]>
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
