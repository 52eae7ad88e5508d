export * from './checkup.ts'
export {
  beforeCommit,
  classOfCauses,
  cutOff,
  doomed,
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
export { Changed, hasOtherRole, isAsBefore, leavesBehind, SESSION } from './connection/pg-session.ts'
export { PROBE } from './connection/recognised.ts'
export { Repeated } from './connection/repeated.ts'
export { brokenAtomicity } from './connection/store-errors.ts'
export { TransactionWatch } from './connection/watch.ts'
export type { AsideDialect, KeyRef } from './dialect/aside.ts'
export type { Dialect, MigrationSource } from './dialect/dialect.ts'
export type { LeaseDialect } from './dialect/leases.ts'
export type { OperatorDialect } from './dialect/operator.ts'
export type { OverviewDialect } from './dialect/overview.ts'
export { pageOf } from './look.ts'
export { sqlStore } from './sql-store.ts'
export * from './values.ts'
