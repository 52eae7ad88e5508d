// The interfaces between hapax and its drivers: what authors of stores, connections and brokers implement and receive. Published as
// `hapax/contracts`. The suites that a driver has to pass are in `hapax/testing`.

export type {
  Clock,
  EffectState,
  ErrorRecord,
  Facts,
  Findings,
  Instrument,
  Isolation,
  MessageFacts,
  Messages,
  Operation,
  Random,
  Running,
  TraceContext,
} from '../base/index.ts'
export type { Arrival, LeavingMessage, OutgoingMessage, Past, PastFailure, StoredMessage } from '../message/index.ts'
export * from './admin.ts'
export type * from './broker.ts'
export type * from './claims.ts'
export type * from './clock.ts'
export type * from './connection.ts'
export type * from './consumers.ts'
export type * from './endpoints.ts'
export type * from './handlers.ts'
export type * from './http.ts'
export type * from './lists.ts'
export type * from './news.ts'
export type * from './operations.ts'
export type * from './pauses.ts'
export type * from './responses.ts'
export * from './rows.ts'
export type * from './samples.ts'
export * from './store.ts'
export type * from './webhooks.ts'
