/** A number of places, shared by everything that asks for one. */
export class Semaphore {
  readonly #users: (() => void)[] = []
  #waiting: (() => void)[] = []
  /** How many of those have entered: removing the first element of an array is slow. */
  #entered = 0
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  get free(): boolean {
    return this.#free > 0
  }

  /** Takes a place that is free. */
  take(): void {
    this.#free -= 1
  }

  /** Takes a place as soon as there is one; undefined if that is now. */
  enter(): Promise<void> | undefined {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#free -= 1
    return undefined
  }

  /** Called when a place is free that nothing waits to enter; users take turns in being asked first. */
  onFree(user: () => void): void {
    this.#users.push(user)
  }

  /** Gives a place back. */
  give(): void {
    const next = this.#waiting[this.#entered]
    if (next !== undefined) this.#handOver(next)
    else this.#offer()
  }

  #offer(): void {
    this.#free += 1
    const first = this.#users.shift()
    if (first !== undefined) this.#users.push(first)
    for (const user of this.#users) if (this.#free > 0) user()
  }

  #handOver(next: () => void): void {
    this.#entered += 1
    if (2 * this.#entered >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#entered)
      this.#entered = 0
    }
    next()
  }
}
