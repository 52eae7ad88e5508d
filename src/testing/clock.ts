import { type Clock, systemClock } from '../base/index.ts'

/** Something that waits for its time. */
interface Waiting {
  readonly at: number
  readonly call: () => void
}

/**
 * A clock that goes as usual, and forward by leaps: a long time is over when a case says so. With a short one instead, a case
 * would fail wherever the machine stands still for longer than that.
 */
export class LeapingClock implements Clock {
  readonly #waiting = new Set<Waiting>()
  #leaptMs = 0

  now(): number {
    return systemClock.now()
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#leaptMs
  }

  after(ms: number, call: () => void): () => void {
    const due = (): void => {
      cancel()
      call()
    }
    const waiting = { at: this.monotonic() + ms, call: due }
    const cancelTimer = systemClock.after(ms, due)
    const cancel = (): void => {
      this.#waiting.delete(waiting)
      cancelTimer()
    }
    this.#waiting.add(waiting)
    return cancel
  }

  /** So much time has passed: what waited for it happens now. */
  leap(ms: number): void {
    this.#leaptMs += ms
    const now = this.monotonic()
    for (const waiting of [...this.#waiting]) if (waiting.at <= now && this.#waiting.has(waiting)) waiting.call()
  }
}
