export { Activity } from './async/activity.ts'
export { Batcher, collected } from './async/batcher.ts'
export { Watched } from './async/observed-promise.ts'
export { inParallel } from './async/parallel.ts'
export { Semaphore } from './async/semaphore.ts'
export { SingleFlight } from './async/single-flight.ts'
export { Signal } from './async/wake-up.ts'
export { Queue, Turn } from './async/writer-queue.ts'
export { type RetryOptions, type RetryPolicy, retryDelay } from './backoff.ts'
export { loadClient } from './client.ts'
export { type Clock, clockOption, pause, systemClock, within } from './clock.ts'
export { ACQUIRE_MS, Acquisitions, poolExhausted } from './connection-wait.ts'
export { consoleLogger } from './console-logger.ts'
export { contained } from './contained.ts'
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
  RetryAfter,
  recordError,
  transactionClosed,
  unstorable,
} from './errors.ts'
export type { HapaxEvents } from './events.ts'
export { type EffectState, EventHub, type Events, type MessageRef } from './events.ts'
export { heard, heardPool } from './heard.ts'
export { type LimitedLogger, type Logger, loggerOption, silentLogger } from './logger.ts'
export { unsupportedNode } from './node-version.ts'
export {
  able,
  callback,
  expected,
  flag,
  type Isolation,
  identifier,
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
export { type Random, randomOption, systemRandom } from './random.ts'
export { shownUrl, unreached } from './reach.ts'
export { type Redact, redact, redactOption } from './redact.ts'
export { safe, safeJson, safeLines, shellWord } from './safe-json.ts'
export { format, uuidv7Source, uuidv7Time } from './uuid.ts'
