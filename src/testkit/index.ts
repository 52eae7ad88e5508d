// What applications test themselves with, and, below, the conformance suites that authors of stores and brokers run.
//
// `testHapax()` is a hapax on a memory store, `testPostgres()` a PostgreSQL in the process. `safeToRepeat` shows that a handler may be
// called again whenever a delivery is repeated or cut short. Nothing here depends on a test runner.

export * from '../testing/index.ts'
export { type TestClock, testClock } from './clock.ts'
export type { CrashPoint } from './crash-plan.ts'
export { crashable } from './crashable.ts'
export { type DrainOptions, type TestHapax, type TestHapaxOptions, testHapax } from './hapax.ts'
export {
  type Sql,
  type TestDb,
  type TestPostgres,
  type TestPostgresOptions,
  type TestResult,
  type TestTransaction,
  testPostgres,
} from './postgres.ts'
export type { PublishedMessage } from './published.ts'
export {
  type CrashOptions,
  crashAt,
  type Delivered,
  deliverTwice,
  type RepeatOptions,
  type SafeOptions,
  safeToRepeat,
} from './repeating.ts'
export { type WaitOptions, waitFor } from './waiting.ts'
