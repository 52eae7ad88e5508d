// The conformance suites of stores and of brokers, as plain data for any test runner.
//
// Write a `StoreHarness` for your store: how to open a fresh database, and how to write business rows in its transactions.
// `storeCases(harness)` then returns `{ name, skip, run }` for every guarantee that a store must keep. Run each case
// whose `skip` is undefined, and report the others with their reason. Cases are independent and may run concurrently.
// A name begins with the id of the failure that the case rules out. Cases that depend on the isolation level run once for
// each level in `features.isolationLevels`. `storeSupport(features)` lists what a store cannot do, and why.
//
// A connection to an ORM or a driver is tested through the store of its database: by the cases whose `connection` is true.
//
// `claimCases(harness)` does the same for a store for leased work only, given a `ClaimHarness`, and
// `brokerCases(harness, memory)` for a broker driver, given a `BrokerHarness`.

export type {
  BrokerHarness,
  BrokerNeed,
  DestinationOptions,
  PlaceTimes,
  RawMessage,
  TestBroker,
} from './broker/harness.ts'
export { type BrokerCase, type BrokerSupport, brokerCases, brokerSupport } from './broker/index.ts'
export type { RowStore, RowTx } from './broker/shop.ts'
export type { ClaimHarness, TestLeases } from './claims/harness.ts'
export { type ClaimCase, claimCases } from './claims/index.ts'
export { LeapingClock } from './clock.ts'
export type {
  HarnessFeatures,
  Need,
  OpenOptions,
  StoreHarness,
  TestConnection,
  TestDatabase,
  TestServer,
} from './store/harness.ts'
export { type StoreCase, type StoreSupport, storeCases, storeSupport } from './store/index.ts'
