export { allOutcomes, distinct, inGroups } from './batch.ts'
export {
  CONCURRENCY,
  Consumer,
  consumerName,
  type Fed,
  Source,
  type SourceOptions,
} from './consumer.ts'
export { compare, conflictWith, Recorder } from './failures.ts'
export { type Content, decodeFor, type Registered } from './handlers.ts'
export { Turns } from './one-at-a-time.ts'
export { type ConsumerOptions, type ConsumerSettings, consumerSettings } from './options.ts'
export { type Outcome, outcome } from './outcome.ts'
export { type HandlerOptions, OTHERS, Registry, unknownHandler } from './registry.ts'
export { howToSee, Reporter, ref, type TakenBefore } from './reporter.ts'
export { asFarAsStorable, jsonInAnyEncoding } from './storable.ts'
export { MAX_CRASHES, type StoredWorkParts } from './stored.ts'
export { judge, type Verdict } from './verdict.ts'
