import type { Clock } from '../../src/base/index.ts'

/** A clock that moves only when it is told to: a minute on it is not over sooner for a process that stands still. */
export class StillClock implements Clock {
  #timers: { readonly at: number; readonly call: () => void }[] = []
  #time = 0

  now(): number {
    return this.#time
  }

  monotonic(): number {
    return this.#time
  }

  after(ms: number, call: () => void): () => void {
    const timer = { at: this.#time + ms, call }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer)
    }
  }

  get timers(): number {
    return this.#timers.length
  }

  pass(ms: number): void {
    this.#time += ms
    const due = this.#timers.filter(({ at }) => at <= this.#time)
    this.#timers = this.#timers.filter(({ at }) => at > this.#time)
    for (const { call } of due) call()
  }
}
