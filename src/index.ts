export type { Arrival, AttributeFrom, Mapping } from './core/arrival.ts'
export type { By } from './core/audit.ts'
export type { RetryOptions } from './core/backoff.ts'
export type {
  Confirmation,
  Delivery,
  Destination,
  DestinationFeatures,
  Prefetch,
  Reader,
  Subscription,
  SubscriptionFeatures,
} from './core/broker.ts'
export type { BulkOptions, BulkResult, BulkSummary } from './core/bulk.ts'
export { classifyError } from './core/classify.ts'
export type { CleanupOptions } from './core/cleanup.ts'
export type { Clock } from './core/clock.ts'
export type { OutgoingMessage } from './core/cloudevents.ts'
export type {
  Connection,
  ConnectionFeatures,
  ErrorClass,
  Executor,
  Param,
  Result,
  Row,
  Statement,
  TransactionEnd,
  TransactionOptions,
  TransactionWork,
} from './core/connection.ts'
export type { Consumer, HandlerOptions, Source, SourceOptions } from './core/consumer.ts'
export type { ConsumerOptions, GroupOptions } from './core/consumer-options.ts'
export { type Draft, defineMessage, type MessageOptions, type MessageType, type PublishOptions } from './core/define.ts'
export { effectKey } from './core/effect.ts'
export {
  type ErrorCode,
  type ErrorRecord,
  HapaxError,
  isHapaxError,
  NotDone,
  Permanent,
  RetryAfter,
} from './core/errors.ts'
export type { EffectState, Events, HapaxEvent, HapaxEvents, MessageRef } from './core/events.ts'
export type { EditOptions, FailedQuery, FailedStore, SettleOptions } from './core/failed.ts'
export type {
  EffectCall,
  EffectOptions,
  Handler,
  HandlerContext,
  Item,
  LeaseContext,
  LeasedContext,
  LeasedHandler,
  LeaseHandler,
  ManyContext,
  ManyHandler,
  Published,
  PublishInHandler,
  Verified,
} from './core/handler-types.ts'
export {
  createHapax,
  type ExplainOptions,
  type Hapax,
  type HapaxOptions,
  type HapaxTransactionOptions,
} from './core/hapax.ts'
export { messageId, messageKey } from './core/identity.ts'
export type { MissingId } from './core/intake.ts'
export type { LeaseConsumer, LeaseOptions } from './core/lease-consumer.ts'
export type { LeaseFailed, LeaseHapax, LeaseHapaxOptions } from './core/lease-hapax.ts'
export type * from './core/lease-store.ts'
export type { LeaseWorker, LeaseWorkerOptions } from './core/lease-worker.ts'
export type { Leased, LeasedOptions } from './core/leased.ts'
export { consoleLogger, type Logger, silentLogger } from './core/logger.ts'
export type { IncomingMessage, LeavingMessage, Message, MessageAttributes, StoredMessage } from './core/message.ts'
export type { Consumers, Keys, KnownConsumer, Relays, Sent, SentQuery } from './core/operations.ts'
export type { Isolation } from './core/options.ts'
export type { Outcome, OutcomeStatus } from './core/outcome.ts'
export type { Random } from './core/random.ts'
export type { Redact } from './core/redact.ts'
export type * from './core/rows.ts'
export type { SchemaInput, SchemaIssue, SchemaOutput, SchemaResult, StandardSchema } from './core/standard-schema.ts'
export type * from './core/store.ts'
export { type Stub, stubOf } from './core/stub.ts'
export type * from './core/tools.ts'
export type { Chosen } from './core/where.ts'
export type { StopOptions, Worker, WorkerOptions } from './core/worker.ts'
