export * from './checkup.ts'
export {
  beforeCommit,
  byTransaction,
  causesOf,
  classOfCauses,
  cutOff,
  doomed,
  fieldsOf,
  isHarmless,
  leftOpen,
  NotSent,
  noAnswer,
  notInTransaction,
  unawaited,
  untilAborted,
  untilAcquired,
} from './connection/driver.ts'
export { destroy, isBusy } from './connection/pg-client.ts'
export {
  Changed,
  hasOtherRole,
  isAsBefore,
  isOtherSession,
  leavesBehind,
  SESSION,
  sameSession,
} from './connection/pg-session.ts'
export { PROBE } from './connection/recognised.ts'
export { Repeated } from './connection/repeated.ts'
export { brokenAtomicity } from './connection/store-errors.ts'
export { TransactionWatch } from './connection/watch.ts'
export type { AdminStatements, StatusStatements, TraceStatements } from './dialect/admin.ts'
export type { AsideStatements, KeyRef } from './dialect/aside.ts'
export type { Dialect, MigrationSource } from './dialect/dialect.ts'
export type { EndpointStatements, WrittenEndpoint } from './dialect/endpoints.ts'
export type { FailedStatements, FailingStatements, HeldStatements } from './dialect/failed.ts'
export type { InboxStatements, LeaseStatements, ReceiptStatements } from './dialect/inbox.ts'
export type { JournalStatements } from './dialect/journal.ts'
export type { ListStatements } from './dialect/lists.ts'
export type { OutboxStatements, RelayStatements, SentStatements } from './dialect/outbox.ts'
export type { RequestKey, ResponseStatements } from './dialect/responses.ts'
export { command, plain, prepared, type Query, type Sql, statement } from './dialect/statement.ts'
export type { SubscriptionStatements, WorkerStatements } from './dialect/workers.ts'
export { endpointLists, responseColumns } from './http-rows.ts'
export { pageOf } from './look.ts'
export { sqlStore } from './sql-store.ts'
export { COUNTED, GROWING, SAMPLED } from './status.ts'
export * from './values.ts'
