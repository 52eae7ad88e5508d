import { type Clock, systemClock } from '../base/index.ts'

/** A pending timer. */
interface Waiting {
  readonly at: number
  readonly call: () => void
}

/**
 * A clock that runs normally and can also leap forward, so that a case can use long timeouts without waiting for them. With short
 * timeouts instead, a case would fail whenever the machine stalls for longer.
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

  after(ms: number, call: () => void, idle?: 'idle'): () => void {
    const due = (): void => {
      cancel()
      call()
    }
    const waiting = { at: this.monotonic() + ms, call: due }
    const cancelTimer = systemClock.after(ms, due, idle)
    const cancel = (): void => {
      this.#waiting.delete(waiting)
      cancelTimer()
    }
    this.#waiting.add(waiting)
    return cancel
  }

  /** Moves the clock forward and fires the timers that are due, in their order. */
  leap(ms: number): void {
    this.#leaptMs += ms
    const now = this.monotonic()
    const due = [...this.#waiting].filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)
    // One that is called may cancel the next.
    for (const waiting of due) if (this.#waiting.has(waiting)) waiting.call()
  }
}
