import { type Clock, HapaxError } from '../base/index.ts'
import type { Verdict } from '../consumer/index.ts'

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

// Why a claimed message is not worked on.

/** Somebody else has it. */
export function elsewhere(): HapaxError {
  return new HapaxError('busy', 'another process is working on this message')
}

/** It waits for its next attempt. */
export function notItsTurn(): HapaxError {
  return new HapaxError('busy', 'whoever had this message was not heard of again: few of that kind run at once')
}

export function notDue(): HapaxError {
  return new HapaxError('busy', 'the next attempt at this message is not due yet')
}

/** It has ended its process too often. */
export function crashLoop(crashes: number): Verdict & { kind: 'fail' } {
  const what = `${crashes} times in a row, whoever worked on this message was not heard of again`
  return { kind: 'fail', reason: 'crash-loop', error: new HapaxError('crash-loop', what) }
}
