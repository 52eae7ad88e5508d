import type { Clock } from './clock.ts'
import { HapaxError } from './errors.ts'
import type { EventHub } from './events.ts'
import type { Logger } from './logger.ts'

/** What waits for connections need of their hapax. */
interface AcquisitionsOptions {
  readonly clock: Clock
  readonly events: EventHub
  readonly logger: Logger
  /** For how long nobody may get a connection while somebody waits for one. */
  readonly acquireMs: number
}

/**
 * How transactions wait for a connection of the pool. A queue in front of a busy pool is no trouble as long as it moves: a wait
 * is given up when no transaction of this process got a connection for so long.
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

  /** When a wait that began then is given up, as things are. */
  endOf(began: number): number {
    return Math.max(began, this.#gotAt) + this.#options.acquireMs
  }

  /** The error of a wait that is given up. It is told, but not for every transaction that waits. */
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

/** How long a transaction may wait for a connection while nobody gets one. */
export const ACQUIRE_MS = 10_000
