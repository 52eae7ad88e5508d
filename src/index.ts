export type { By } from './admin/audit.ts'
export type { BulkOptions, BulkResult, BulkSummary } from './admin/bulk.ts'
export type { CleanupOptions } from './admin/cleanup.ts'
export type { EditOptions, FailedQuery, FailedStore, SettleOptions } from './admin/failed.ts'
export type { Consumers, Keys, KnownConsumer, Relays, Sent, SentQuery } from './admin/operations.ts'
export type { Chosen } from './admin/where.ts'
export type { RetryOptions } from './base/backoff.ts'
export type { Clock } from './base/clock.ts'
export { consoleLogger } from './base/console-logger.ts'
export {
  type ErrorCode,
  type ErrorRecord,
  HapaxError,
  isHapaxError,
  NotDone,
  Permanent,
  RetryAfter,
} from './base/errors.ts'
export type { EffectState, Events, HapaxEvent, HapaxEvents, MessageRef } from './base/events.ts'
export { type Logger, silentLogger } from './base/logger.ts'
export type { Isolation } from './base/options.ts'
export type { Random } from './base/random.ts'
export type { Redact } from './base/redact.ts'
export type { ClaimConsumer, ClaimConsumerOptions } from './claims/consumer.ts'
export type { ClaimFailed, ClaimHapax, ClaimHapaxOptions } from './claims/hapax.ts'
export type { ClaimWorker, ClaimWorkerOptions } from './claims/worker.ts'
export type { Consumer, HandlerOptions, Source, SourceOptions } from './consumer/consumer.ts'
export type { ConsumerOptions, GroupOptions } from './consumer/options.ts'
export type { Outcome, OutcomeStatus } from './consumer/outcome.ts'
export type * from './contracts/admin.ts'
export type {
  Confirmation,
  Delivery,
  Destination,
  DestinationFeatures,
  Prefetch,
  Reader,
  Subscription,
  SubscriptionFeatures,
} from './contracts/broker.ts'
export type * from './contracts/claims.ts'
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
} from './contracts/connection.ts'
export type {
  ClaimContext,
  ClaimHandler,
  EffectCall,
  EffectOptions,
  FailedContext,
  FailedHook,
  Handler,
  HandlerContext,
  Item,
  LeasedContext,
  LeasedHandler,
  ManyContext,
  ManyHandler,
  Published,
  PublishInHandler,
  Verified,
} from './contracts/handlers.ts'
export type * from './contracts/rows.ts'
export type * from './contracts/store.ts'
export {
  createHapax,
  type ExplainOptions,
  type Hapax,
  type HapaxOptions,
  type HapaxTransactionOptions,
} from './hapax.ts'
export { classifyError } from './leased/classify.ts'
export { effectKey } from './leased/effect.ts'
export type { Leased, LeasedOptions } from './leased/leased.ts'
export type { Arrival, AttributeFrom, Mapping } from './message/arrival.ts'
export type { OutgoingMessage } from './message/cloudevents.ts'
export { messageId, messageKey } from './message/identity.ts'
export type { MissingId } from './message/incoming.ts'
export type { IncomingMessage, LeavingMessage, Message, MessageAttributes, StoredMessage } from './message/message.ts'
export type { SchemaIssue, SchemaResult, StandardSchema } from './message/schema.ts'
export { type Stub, stubOf } from './message/stub.ts'
export {
  type Draft,
  defineMessage,
  type MessageOptions,
  type MessageType,
  type PublishOptions,
} from './message/type.ts'
export type { StopOptions, Worker, WorkerOptions } from './worker/worker.ts'
