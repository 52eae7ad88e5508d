/** Lets one caller at a time work on a key; others wait without holding anything. */
export class SingleFlight {
  readonly #held = new Map<string, Promise<void>>()

  /** Runs with all keys held. Keys are taken in sorted order, so that two callers cannot wait for each other. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const sorted = keys.length === 1 ? keys : [...keys].sort()
    let release: () => void = () => {}
    const done = new Promise<void>((resolve) => {
      release = resolve
    })
    const mine: string[] = []
    try {
      for (const key of sorted) {
        for (let held = this.#held.get(key); held !== undefined; held = this.#held.get(key)) await held
        this.#held.set(key, done)
        mine.push(key)
      }
      return await work()
    } finally {
      for (const key of mine) this.#held.delete(key)
      release()
    }
  }
}
