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
  leftInside,
  leftOpen,
  NotSent,
  noAnswer,
  notInTransaction,
  patience,
  ranOutOfTime,
  unawaited,
  untilAborted,
  untilAcquired,
} from './connection/driver.ts'
export { Era } from './connection/era.ts'
export { connectionOn, isConnection } from './connection/given.ts'
export {
  isMysqlQueue,
  type MysqlCallback,
  MysqlMark,
  type MysqlQueue,
  type MysqlQueued,
} from './connection/mysql-marks.ts'
export { keepsOpen, type MysqlSent, mysqlSent } from './connection/mysql-sent.ts'
export {
  assertLocks,
  assertMode,
  MYSQL_ONLY,
  MYSQL_SERVER,
  mysqlReset,
  mysqlSession,
  mysqlSuited,
  NO_LIMIT,
} from './connection/mysql-session.ts'
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
export { farther, MYSQL_SAVEPOINTS, Reaching, reachOf, SAVEPOINTS } from './connection/reach.ts'
export { PROBE } from './connection/recognised.ts'
export { Repeated } from './connection/repeated.ts'
export { isSqliteBusy, sqliteCode } from './connection/sqlite/codes.ts'
export { OpenedFile, prepareFile, queueFor, queueOf } from './connection/sqlite/file.ts'
export { placed, withoutNumbers } from './connection/sqlite/placeholders.ts'
export { SyncConnection, type SyncDriver } from './connection/sqlite/sync-connection.ts'
export {
  BUSY_TIMEOUT_MS,
  type SyncClient,
  SyncDatabase,
  type SyncStatement,
} from './connection/sqlite/sync-database.ts'
export { GUARD, type Lending, SyncTransaction } from './connection/sqlite/sync-transaction.ts'
export { Patience } from './connection/sqlite/turns.ts'
export { TransactionWatch } from './connection/watch.ts'
export type { AdminStatements, StatusStatements, TraceStatements } from './dialect/admin.ts'
export type { AsideStatements, KeyRef } from './dialect/aside.ts'
export type { ClockStatements } from './dialect/clock.ts'
export type { Dialect, MigrationSource } from './dialect/dialect.ts'
export type { EndpointStatements, WrittenEndpoint } from './dialect/endpoints.ts'
export type { FailedStatements, FailingStatements, HeldStatements } from './dialect/failed.ts'
export type { InboxStatements, LeaseStatements, ReceiptStatements } from './dialect/inbox.ts'
export type { JournalStatements } from './dialect/journal.ts'
export type { ListStatements } from './dialect/lists.ts'
export type { OperationStatements } from './dialect/operations.ts'
export type { OutboxStatements, RelayStatements, SentStatements } from './dialect/outbox.ts'
export type { PauseStatements } from './dialect/pauses.ts'
export type { RequestKey, ResponseStatements } from './dialect/responses.ts'
export type { SampleStatements } from './dialect/samples.ts'
export { command, plain, prepared, type Query, type Sql, statement } from './dialect/statement.ts'
export type { WaitingLists, WaitingPath } from './dialect/waiting.ts'
export type { SubscriptionStatements, WorkerStatements } from './dialect/workers.ts'
export { frozen, leaseLost } from './frozen.ts'
export { endpointLists, responseColumns } from './http-rows.ts'
export { pageOf } from './look.ts'
export { conditionsJson } from './operation-rows.ts'
export { sqlStore } from './sql-store.ts'
export { COUNTED, GROWING, SAMPLED } from './status.ts'
export * from './values.ts'
export { auditedStatements, type WaitingTable, type WaitingWords, type Way, waitingStatements } from './waiting.ts'
