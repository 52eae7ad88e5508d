import type { Interrupt } from './interrupt.ts'
import { able } from './options.ts'

/** Local time. Injected, so that tests and a simulator can drive it. Times that processes share come from the database instead. */
export interface Clock {
  /** Wall time in milliseconds since 1970; only for the `time` attribute and for ids. */
  now(): number
  /** Milliseconds that never go back; for local deadlines. */
  monotonic(): number
  /** Calls back after `ms`. Returns a function that cancels it. `idle`: what waits for it does not keep the process alive. */
  after(ms: number, call: () => void, idle?: 'idle'): () => void
}

/** Checks the option `clock`; the default is the clock of this process. */
export function clockOption(given: Clock | undefined): Clock {
  if (given === undefined) return systemClock
  return able('clock', 'an object with now, monotonic and after', given, ['now', 'monotonic', 'after'])
}

/** The clock of this process. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, call, idle) => {
    const timer = setTimeout(call, ms)
    if (idle !== undefined) timer.unref()
    return () => clearTimeout(timer)
  },
}

/** How many parts a time awake has. */
const PARTS = 8

/**
 * Calls back when this process has been awake for `ms`: a standstill uses up one part of it, and not the time that somebody else has to
 * answer. `idle`: see `Clock.after`.
 */
export function afterAwake(clock: Clock, ms: number, call: () => void, idle?: 'idle'): () => void {
  let left = PARTS
  let cancel = (): void => {}
  const next = (): void => {
    if (left-- === 0) call()
    else cancel = clock.after(ms / PARTS, next, idle)
  }
  next()
  return () => cancel()
}

/** Resolves after `ms`, or at once when the signal is aborted. */
export function pause(clock: Clock, ms: number, signal?: Interrupt): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const done = (): void => {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal?.addEventListener('abort', done, { once: true })
  })
}

/** The work's result, or what `late` returns or throws when it takes longer than `ms`. `awake`: see `afterAwake`. */
export async function within<T>(
  clock: Clock,
  ms: number,
  work: Promise<T>,
  late: () => T,
  awake?: 'awake',
): Promise<T> {
  let cancel = (): void => {}
  const limit = new Promise<T>((resolve, reject) => {
    const give = (): void => {
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }
    cancel = awake === undefined ? clock.after(ms, give) : afterAwake(clock, ms, give)
  })
  try {
    return await Promise.race([work, limit])
  } finally {
    cancel()
  }
}
