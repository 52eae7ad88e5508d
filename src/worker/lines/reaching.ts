import type { Clock } from '../../base/index.ts'

/** What is told whether a destination can be reached from here. */
export interface ReachingOptions {
  readonly clock: Clock
  /** The messages are left to other workers, or taken back. */
  tell(reached: boolean): void
}

/**
 * Whether a relay reaches its destination. One that does not for a while, although others may, leaves its messages to them, and tries
 * again later and later: as long as it tries, its share waits.
 */
export class Reaching {
  readonly #options: ReachingOptions
  #failingSince: number | undefined
  #awayMs = MIN_AWAY_MS
  /** Until when the messages are left to others. */
  #awayUntil: number | undefined

  constructor(options: ReachingOptions) {
    this.#options = options
  }

  /** The destination has answered. */
  reached(): void {
    this.#failingSince = undefined
    this.#awayMs = MIN_AWAY_MS
    this.#back()
  }

  /** It has not. */
  missed(): void {
    const now = this.#options.clock.monotonic()
    this.#failingSince ??= now
    if (this.#awayUntil !== undefined || now - this.#failingSince < GIVE_UP_MS) return
    this.#awayUntil = now + this.#awayMs
    this.#awayMs = Math.min(MAX_AWAY_MS, 2 * this.#awayMs)
    this.#options.tell(false)
  }

  /** Takes the messages back when it is time for another try. */
  look(): void {
    if (this.#awayUntil !== undefined && this.#options.clock.monotonic() >= this.#awayUntil) this.#back()
  }

  #back(): void {
    if (this.#awayUntil === undefined) return
    this.#awayUntil = undefined
    this.#options.tell(true)
  }
}

const GIVE_UP_MS = 10_000
const MIN_AWAY_MS = 30_000
const MAX_AWAY_MS = 600_000
