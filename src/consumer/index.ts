export { allOutcomes, distinct, inGroups, listenerOf, type OutcomeListener, Outcomes, type Settled } from './batch.ts'
export { CONCURRENCY, ConsumerCore, consumerName } from './consumer.ts'
export { isFeared, Recorder } from './failures.ts'
export { type Fed, Feed } from './feed.ts'
export { type Content, decodeFor, OTHERS, type Registered, Registry, unknownHandler } from './handlers.ts'
export type { Keys } from './keys.ts'
export { Turns } from './one-at-a-time.ts'
export { type ConsumerOptions, type ConsumerSettings, consumerSettings, refuseDisabled } from './options.ts'
export {
  aboutOf,
  compare,
  conflictWith,
  howToSee,
  logProcessed,
  Reporter,
  ref,
  reportUnavailable,
  type TakenBefore,
  watchOutcomes,
} from './reporter.ts'
export { refuseShort, spoken } from './retention.ts'
export { asFarAsStorable, jsonInAnyEncoding } from './storable.ts'
export { MAX_CRASHES, type Noted, type StoredWorkParts } from './stored.ts'
export { isLost, judge, outcome, type Verdict } from './verdict.ts'
export { factsOfRows, findingsOf, placeOf, type WatchedAttempt, watched } from './watched.ts'
export { isWebhook, WebhookFeed } from './webhook-feed.ts'
