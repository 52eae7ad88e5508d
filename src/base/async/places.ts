/** How many transactions of a consumer may run at once: its inbox and its subscriptions share them. */
export class Places {
  readonly #users: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Called when a place is free again; users take turns in being asked first. */
  onFree(user: () => void): void {
    this.#users.push(user)
  }

  get free(): boolean {
    return this.#free > 0
  }

  take(): void {
    this.#free -= 1
  }

  give(): void {
    this.#free += 1
    const first = this.#users.shift()
    if (first !== undefined) this.#users.push(first)
    for (const user of this.#users) if (this.#free > 0) user()
  }
}
