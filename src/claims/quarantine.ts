import { type Clock, HapaxError } from '../base/index.ts'
import type { Verdict } from '../consumer/index.ts'

/**
 * Decides which suspects may run: messages whose claim ran out because their process crashed or hung. Most of them did not cause it, so
 * that after one crash a few suspects run at once. After a second crash a message runs while no other suspect does. A suspect that may
 * not run is sent back instead of waiting here, so that it blocks no other message.
 */
export class Quarantine {
  readonly #clock: Clock
  readonly #most: number
  #few = 0
  #alone = false
  /** Until this time no further suspects begin, so that one that has to be alone gets its turn. */
  #wantedUntil = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, concurrency: number) {
    this.#clock = clock
    this.#most = Math.ceil(concurrency / PART)
  }

  /** Whether a message with this many crashes may run now. If so, call `leave` when it is done. */
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
/** A quarter of what runs at once may be suspects, and always at least one. */
const PART = 4
/** Longer than a refused suspect waits before it asks again. */
const WANTED_MS = 5_000

// Why a claimed message is not worked on.

/** Another process holds the claim. */
export function elsewhere(): HapaxError {
  return new HapaxError('busy', 'another process is working on this message')
}

/** The store has lost part of a message: without its journal, a call that was made would look as if it had not been. */
export function halfLost(): HapaxError {
  return new HapaxError(
    'store-unavailable',
    'the message is incomplete in the store, because one of its keys was evicted or deleted: it cannot be processed',
  )
}

/** A suspect that may not run yet; see `Quarantine`. */
export function notItsTurn(): HapaxError {
  return new HapaxError('busy', 'the process that had this message crashed or hung; only few such messages run at once')
}

/** It waits for its next attempt. */
export function notDue(): HapaxError {
  return new HapaxError('busy', 'the next attempt at this message is not due yet')
}

/** The verdict on a message whose process crashed too often. */
export function crashLoop(crashes: number): Verdict & { kind: 'fail' } {
  const what = `${crashes} times in a row, the process that worked on this message crashed or hung`
  return { kind: 'fail', reason: 'crash-loop', error: new HapaxError('crash-loop', what) }
}
