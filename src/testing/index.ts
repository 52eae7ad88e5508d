// The conformance suites of stores and of brokers, as plain data for any test runner.
//
// Write a `StoreHarness` for your store: how to open a fresh database, and how to do business in its transactions.
// `storeCases(harness)` then gives `{ name, skip, run }` for every guarantee that a store has to keep. Run each case
// whose `skip` is undefined; show the others with their reason. Cases are independent of each other and may run at the
// same time. Names begin with the id of the failure that they show to be absent; those that depend on the isolation level
// run once for each level of `features.isolationLevels`. `storeSupport(features)` lists what a store cannot do, and why.
//
// `claimCases(harness)` is the same for a store that only knows leases, and needs a `ClaimHarness`.
// A `BrokerHarness` and `brokerCases(harness, memory)` are the same for the driver of a broker.

export type { BrokerHarness, BrokerNeed, PlaceTimes, RawMessage, TestBroker } from './broker/harness.ts'
export { type BrokerCase, type BrokerSupport, brokerCases, brokerSupport } from './broker/index.ts'
export type { RowStore, RowTx } from './broker/shop.ts'
export type { ClaimHarness, TestLeases } from './claims/harness.ts'
export { type ClaimCase, claimCases } from './claims/index.ts'
export type { HarnessFeatures, Need, OpenOptions, StoreHarness, TestDatabase } from './store/harness.ts'
export { type StoreCase, type StoreSupport, storeCases, storeSupport } from './store/index.ts'
