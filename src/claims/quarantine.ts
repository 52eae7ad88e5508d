import type { Clock } from '../base/index.ts'

/**
 * Who may run of the messages whose process was not heard of again. Most of them had nothing to do with it: after the first time a few
 * run at once. What was in hand a second time runs while no other such message does. None of them waits here, so that none stands in
 * the way of others.
 */
export class Quarantine {
  readonly #clock: Clock
  readonly #most: number
  #few = 0
  #alone = false
  /** Until then the few leave room for one that has to be alone. */
  #wantedUntil = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, concurrency: number) {
    this.#clock = clock
    this.#most = Math.ceil(concurrency / PART)
  }

  /** Whether a message of so many crashes may run now; it leaves when it is done. */
  enter(crashes: number): boolean {
    return crashes >= ALONE_AFTER ? this.#enterAlone() : this.#enterFew()
  }

  leave(crashes: number): void {
    if (crashes >= ALONE_AFTER) this.#alone = false
    else this.#few -= 1
  }

  #enterAlone(): boolean {
    if (this.#alone || this.#few > 0) {
      this.#wantedUntil = this.#clock.monotonic() + WANTED_MS
      return false
    }
    this.#wantedUntil = Number.NEGATIVE_INFINITY
    this.#alone = true
    return true
  }

  #enterFew(): boolean {
    if (this.#alone || this.#few >= this.#most || this.#clock.monotonic() < this.#wantedUntil) return false
    this.#few += 1
    return true
  }
}

const ALONE_AFTER = 2
/** A quarter of what runs at once, and always one. */
const PART = 4
/** Longer than one takes to ask again. */
const WANTED_MS = 5_000
