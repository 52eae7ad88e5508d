import type { Random } from './random.ts'

/** When and how often a message is tried again. */
export interface RetryOptions {
  /** How often the handler is called in all. @default 10 */
  readonly attempts?: number
  /** @default 1_000 */
  readonly minDelayMs?: number
  /** @default 600_000 */
  readonly maxDelayMs?: number
  /** By how much the span of the delay grows with each attempt. @default 2 */
  readonly factor?: number
}

/** The same with every default filled in. */
export type RetryPolicy = Required<RetryOptions>

/**
 * The delay after the given attempt (1 is the first). Jitter fills the whole span between the least delay and the
 * exponential bound, so that messages that failed together do not come back together.
 */
export function retryDelay(policy: RetryPolicy, attempt: number, random: Random): number {
  // After many attempts the power is infinite, and infinity times a least delay of 0 is no number.
  const growth = Math.min(Number.MAX_VALUE, policy.factor ** attempt)
  const bound = Math.min(policy.maxDelayMs, policy.minDelayMs * growth)
  const span = Math.max(0, bound - policy.minDelayMs)
  return Math.min(policy.maxDelayMs, Math.round(policy.minDelayMs + random.number() * span))
}
