import type { Clock } from './clock.ts'
import { HapaxError } from './errors.ts'
import type { EventHub } from './events.ts'
import type { Logger } from './logger.ts'

/** What waits for connections need of their hapax. */
interface AcquisitionsOptions {
  readonly clock: Clock
  readonly events: EventHub
  readonly logger: Logger
  /** How long a transaction waits if no transaction of this process gets a connection meanwhile. */
  readonly acquireMs: number
}

/**
 * How transactions wait for a connection of the pool. A queue in front of a busy pool is fine as long as it moves, so a wait ends only
 * when no transaction of this process has got a connection for `acquireMs`.
 */
export class Acquisitions {
  readonly #options: AcquisitionsOptions
  #gotAt = Number.NEGATIVE_INFINITY
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(options: AcquisitionsOptions) {
    this.#options = options
  }

  /** A transaction has got a connection. */
  got(): void {
    this.#gotAt = this.#options.clock.monotonic()
  }

  /** When a wait that began at this time ends, unless a connection is acquired before. */
  endOf(began: number): number {
    return Math.max(began, this.#gotAt) + this.#options.acquireMs
  }

  /** The error of a wait that timed out. It is logged once per `acquireMs`, not for every transaction that waits. */
  exhausted(): HapaxError {
    const { clock, events, logger, acquireMs } = this.#options
    const error = poolExhausted(acquireMs)
    if (clock.monotonic() - this.#toldAt >= acquireMs) {
      this.#toldAt = clock.monotonic()
      logger.warn({ waitedMs: acquireMs }, error.message)
      events.emit('pool-exhausted', () => ({ waitedMs: acquireMs, error }))
    }
    return error
  }
}

/** The error of a transaction that got no connection. */
export function poolExhausted(waitedMs: number): HapaxError {
  const what = `no connection of the pool became free within ${waitedMs} ms`
  return new HapaxError('store-unavailable', `${what}: something keeps them all, or the pool is too small`, {
    fields: { waitedMs },
  })
}

/** The default of `acquireMs`. */
export const ACQUIRE_MS = 10_000
