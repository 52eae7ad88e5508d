export {
  Attempt,
  type Attempted,
  type Engine,
  GRACE_MS,
  type Opened,
  OUT_OF_TURN,
  type Plan,
  type Scope,
  type Timing,
  type UnitSettings,
  type Work,
} from './attempt.ts'
export { type Cause, causeOf, withCause } from './cause.ts'
export { type Committed, committedInbox } from './committed.ts'
export { DatabaseClock } from './database-clock.ts'
export { Floor } from './floor.ts'
export { OUTSIDE_QUERIES, OutsideQueries } from './outside.ts'
export { type TransactionOptions, transact } from './own.ts'
export { insist, persist } from './persist.ts'
export { Publisher } from './publish.ts'
export { checkPublish, sentName } from './publish-options.ts'
export type { Route } from './routing.ts'
export { atOnce, unit } from './unit.ts'
export { LOCAL, type Prepared } from './waiting.ts'
export { watchedPublish } from './watched-publish.ts'
