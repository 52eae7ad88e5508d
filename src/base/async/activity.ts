import { HapaxError } from '../errors.ts'

/** Counts what is under way, so that closing can wait for it, and refuses what comes afterwards. */
export class Activity {
  #running = 0
  #closed = false
  #waiting: (() => void)[] = []

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new HapaxError('closed', 'this hapax is closed')
    this.#running += 1
    try {
      return await work()
    } finally {
      this.#running -= 1
      if (this.#running === 0) for (const resolve of this.#waiting.splice(0)) resolve()
    }
  }

  /** Resolves when nothing is under way. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }
}
