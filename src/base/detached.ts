import { AsyncLocalStorage } from 'node:async_hooks'
import type { Clock } from './clock.ts'

/** Runs work outside the asynchronous context of its caller. */
export type Detached = <Args extends unknown[], T>(work: (...args: Args) => T, ...args: Args) => T

/**
 * Work in the background is nobody's request: whatever the caller has in an `AsyncLocalStorage`, such as a user, a transaction or the
 * span of a request, must not be seen by it. The snapshot is of the moment in which this module was loaded.
 */
export const detached: Detached = AsyncLocalStorage.snapshot()

/** The same clock. What it calls back runs detached. */
export function detachedClock(clock: Clock, detach: Detached): Clock {
  const after: Clock['after'] = (ms, call, idle) => clock.after(ms, call, idle)
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after: (ms, call, idle) => detach(after, ms, call, idle),
  }
}
