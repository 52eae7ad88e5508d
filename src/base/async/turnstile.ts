/** Lets so many in at a time. */
export class Turnstile {
  #waiting: (() => void)[] = []
  /** How many of those have gone in: an array is slow to lose its first one. */
  #gone = 0
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Undefined: at once. */
  enter(): Promise<void> | undefined {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#free -= 1
    return undefined
  }

  leave(): void {
    const next = this.#waiting[this.#gone]
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#gone += 1
    if (2 * this.#gone >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#gone)
      this.#gone = 0
    }
    next()
  }
}
