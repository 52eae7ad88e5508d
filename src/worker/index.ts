export { Crew } from './crew.ts'
export { horizonsOf } from './horizons.ts'
export { LifeCycle, type Round, stopped } from './life-cycle.ts'
export { SubscriptionLine } from './lines/subscription.ts'
export { namesakeText, type Serves, servesOf } from './membership.ts'
export { runOnce, type WorkOnceOptions, workOnce } from './once.ts'
export {
  LEASE_MS,
  type OperationEngine,
  OperationKeeper,
  OperationRun,
  type RowResult,
  refuseRetry,
  refuseStub,
  refuseUnchecked,
} from './operations/index.ts'
export { checkRetention, checkSource, forHandlers, isEnabled, type WorkerOptions } from './options.ts'
export { Reports } from './reports.ts'
export { Sampler } from './sampler.ts'
export { claimStateOf, stateOf } from './state.ts'
export { isUnserved, isUnservedRelay, Unserved } from './unserved.ts'
export { UnservedPublishes } from './unserved-publishes.ts'
export { WorkerCore } from './worker.ts'
