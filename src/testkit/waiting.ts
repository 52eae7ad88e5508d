import assert from 'node:assert/strict'
import { pause, positiveInteger, systemClock } from '../base/index.ts'

/** Options of `waitFor`. */
export interface WaitOptions {
  /** How long to wait at most. @default 5_000 */
  readonly timeoutMs?: number
}

/**
 * Waits until a condition holds: until the function returns something truthy, and resolves with that. It may throw meanwhile, as an
 * assertion does; what it threw last is what this rejects with when the time is over.
 */
export async function waitFor<T>(condition: () => T | Promise<T>, options: WaitOptions = {}): Promise<NonNullable<T>> {
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 5_000)
  const end = systemClock.monotonic() + timeoutMs
  for (;;) {
    let thrown: unknown
    try {
      const value = await condition()
      if (value) return value
      thrown = undefined
    } catch (error) {
      thrown = error ?? new Error('the condition threw nothing')
    }
    if (systemClock.monotonic() >= end) {
      throw thrown ?? new assert.AssertionError({ message: `the condition did not hold within ${timeoutMs} ms` })
    }
    await pause(systemClock, 5)
  }
}
