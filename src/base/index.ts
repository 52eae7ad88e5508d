export { type RetryOptions, type RetryPolicy, retryDelay } from './backoff.ts'
export { Batcher, collected } from './batcher.ts'
export { afterAwake, type Clock, clockOption, pause, systemClock, within } from './clock.ts'
export { Activity, inParallel, Semaphore, Signal, Watched } from './concurrency.ts'
export { type Budget, budgetOption, type ConnectionBudget, connectionBudget } from './connection-budget.ts'
export { ACQUIRE_MS, Acquisitions, poolExhausted } from './connection-wait.ts'
export { type Detached, detached, detachedClock } from './detached.ts'
export {
  asError,
  describe,
  type ErrorCode,
  type ErrorRecord,
  errorFields,
  errorHash,
  faultFields,
  HapaxError,
  isHapaxError,
  isRefusal,
  messageOf,
  NotDone,
  Permanent,
  present,
  RetryAfter,
  reasonOf,
  recordError,
  storeClosed,
  transactionClosed,
  unstorable,
} from './errors.ts'
export type { HapaxEvents, WebhookOutcome } from './events.ts'
export { type EffectState, EventHub, type Events, type MessageRef } from './events.ts'
export type {
  Facts,
  Findings,
  Instrument,
  MessageFacts,
  Messages,
  Operation,
  Running,
  TraceContext,
} from './instrument.ts'
export { detachedOf, instrumentOption, type SafeInstrument } from './instrument.ts'
export type { Interrupt } from './interrupt.ts'
export { type Borrowed, type Lender, type Making, type Purpose, serverOf } from './lender.ts'
export { contained, heard, heardPool, loadClient, shownUrl, unreached } from './links.ts'
export { boundLogger, consoleLogger, type LimitedLogger, type Logger, loggerOption, silentLogger } from './logger.ts'
export { unsupportedNode } from './node-version.ts'
export {
  able,
  callback,
  expected,
  fieldOf,
  flag,
  type Isolation,
  identifier,
  isDay,
  isolationOption,
  isText,
  MAX_MS,
  MAX_SPAN_MS,
  nameText,
  noOthers,
  numberFrom,
  object,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  signalOption,
  spanMs,
  text,
  wholeNumber,
  word,
} from './options.ts'
export { Outages } from './outages.ts'
export { isRunning, processMark } from './process-mark.ts'
export { format, type Random, randomOption, systemRandom, uuidv7Source, uuidv7Time } from './random.ts'
export { type Redact, redact, redactOption } from './redact.ts'
export { exactJson, safe, safeJson, safeLines, shellWord } from './safe-json.ts'
export type { Horizon, State } from './state.ts'
export { type Surroundings, surroundings, type Taking, unwatched, watchPool } from './surroundings.ts'
export { type Counted, Counts, Tally } from './tally.ts'
export { version } from './version.ts'
export { workerName } from './worker-name.ts'
export { Turn, WriterQueue } from './writer-queue.ts'
