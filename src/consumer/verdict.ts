import {
  asError,
  type ErrorCode,
  isHapaxError,
  Permanent,
  type Random,
  RetryAfter,
  type RetryPolicy,
  retryDelay,
} from '../base/index.ts'
import type { Outcome, OutcomeStatus } from '../contracts/index.ts'

/** The decision about a failed attempt: another one later, or the failed store. */
export type Verdict =
  /** `attempts`: how many the policy allows in all. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly attempts: number; readonly error: Error }
  | { readonly kind: 'fail'; readonly reason: ErrorCode; readonly error: Error }

/** Errors after which another attempt is pointless; their code is the reason. */
const FINAL: readonly ErrorCode[] = [
  'broken-atomicity',
  'nested-transaction',
  'reentrant',
  'missing-id',
  'invalid-id',
  'invalid-message',
  'invalid-payload',
  'unknown-type',
  'too-large',
  'unstorable',
  'undecodable',
  'given-up-by-broker',
  'endpoint-disabled',
  'endpoint-removed',
  'unknown-effect',
  'effect-result',
  'reused-effect',
  'expired',
]

/** Whether another attempt is pointless, whatever the policy says. */
export function isFinal(error: unknown): boolean {
  return error instanceof Permanent || (isHapaxError(error) && FINAL.includes(error.code))
}

/** Decides what follows from the error of the given attempt (1 is the first). */
export function judge(thrown: unknown, attempt: number, policy: RetryPolicy, random: Random): Verdict {
  const error = asError(thrown)
  if (isFinal(error)) return { kind: 'fail', reason: isHapaxError(error) ? error.code : 'permanent', error }
  if (attempt >= policy.attempts) return { kind: 'fail', reason: 'attempts-exhausted', error }
  const delayMs = askedDelay(error) ?? retryDelay(policy, attempt, random)
  return { kind: 'retry', delayMs, attempts: policy.attempts, error }
}

/** Ten years. Databases refuse dates that are thousands of years away, and then the failure could not be recorded. */
const MAX_DELAY_MS = 10 * 365 * 24 * 3_600_000

function askedDelay(error: Error): number | undefined {
  if (!(error instanceof RetryAfter) || !Number.isFinite(error.delayMs)) return undefined
  return Math.min(MAX_DELAY_MS, Math.max(0, error.delayMs))
}

/** The outcome of this status; only `busy` and `rolled-back` must not be acknowledged. */
export function outcome(status: OutcomeStatus, error?: Error): Outcome {
  const ack = status !== 'busy' && status !== 'rolled-back'
  return error === undefined ? { status, ack } : { status, ack, error }
}

/** Whether a message is given up without one more attempt that failed. */
export function isLost(reason: string): boolean {
  return reason === 'infrastructure' || reason === 'crash-loop'
}
