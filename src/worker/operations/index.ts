export { OperationKeeper } from './keeper.ts'
export { refuseRetry, refuseStub, refuseUnchecked } from './retrying.ts'
export { LEASE_MS, type OperationEngine, OperationRun, type RowResult } from './run.ts'
