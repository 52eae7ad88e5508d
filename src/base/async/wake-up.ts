import type { Clock } from '../clock.ts'

/** Wakes whoever waits; a wake-up while nobody waits is kept for the next one. */
export class Signal {
  #pending = false
  #wake: (() => void) | undefined

  notify(): void {
    this.#pending = true
    this.#wake?.()
  }

  /** Resolves at the next wake-up, or after `ms`. */
  wait(clock: Clock, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        this.#pending = false
        this.#wake = undefined
        resolve()
      }
      const cancel = clock.after(ms, done)
      this.#wake = done
      if (this.#pending) done()
    })
  }
}
