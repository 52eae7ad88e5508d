// SQLite has one writer at a time. Transactions of this process take turns in a queue; those of other processes hold the lock of the file,
// and are tried again and again, because SQLite itself would block the event loop while it waits, or give up at once.

import { HapaxError, type Interrupt, pause, systemClock, Turn, type WriterQueue } from '../../../../base/index.ts'
import { isSqliteBusy } from './codes.ts'

/** How long to wait for the turn to write, unless the caller says. */
const WAIT_MS = 60_000
const MAX_PAUSE_MS = 5

/**
 * A wait with an end: the lock timeout, or the signal; then it rejects with `busy`, or with the signal's reason. First for the turn in this
 * process, then for the lock of the file.
 */
export class Patience {
  readonly #signal: Interrupt | undefined
  readonly #deadline: number

  constructor(waitMs: number = WAIT_MS, signal?: Interrupt) {
    this.#signal = signal
    this.#deadline = systemClock.monotonic() + waitMs
  }

  /** The turn to write in this process; `queueOf(path)` has the queue of a file. To be ended. `ahead`: before transactions that wait. */
  turn(queue: WriterQueue, ahead = false): Turn | Promise<Turn> {
    const taken = queue.take(this.#leftMs, this.#signal, ahead)
    return taken instanceof Turn ? taken : taken.then(inTime)
  }

  /** Does what may meet the lock of another process; while it does, again and again. */
  until<T>(action: () => T): T | Promise<T> {
    try {
      return action()
    } catch (error) {
      return this.#retry(async () => action(), error)
    }
  }

  /** The same for what is asynchronous. */
  async untilDone<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      return this.#retry(action, error)
    }
  }

  /** The pauses leave the event loop free. */
  async #retry<T>(action: () => Promise<T>, first: unknown): Promise<T> {
    let error = first
    for (let attempt = 1; isSqliteBusy(error); attempt++) {
      const leftMs = this.#leftMs
      if (leftMs === 0) throw busy(error)
      const pauseMs = Math.min(attempt, MAX_PAUSE_MS) * (0.5 + Math.random())
      await pause(systemClock, Math.min(pauseMs, leftMs), this.#signal)
      this.#signal?.throwIfAborted()
      try {
        return await action()
      } catch (next) {
        error = next
      }
    }
    throw error
  }

  get #leftMs(): number {
    return Math.max(0, this.#deadline - systemClock.monotonic())
  }
}

function inTime(turn: Turn | undefined): Turn {
  if (turn === undefined) throw busy()
  return turn
}

function busy(cause?: unknown): HapaxError {
  return new HapaxError('busy', 'another transaction held the write lock for too long', { cause })
}
