/** Lets one caller at a time work on a key; others wait without holding anything. */
export class SingleFlight {
  readonly #held = new Map<string, Promise<void>>()

  /** Whether somebody works on a key. */
  holds(key: string): boolean {
    return this.#held.has(key)
  }

  /** Runs with all keys held. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    let release: () => void = () => {}
    const done = new Promise<void>((resolve) => {
      release = resolve
    })
    // All at once or none: a caller that holds keys never waits for others.
    for (let held = this.#first(keys); held !== undefined; held = this.#first(keys)) await held
    for (const key of keys) this.#held.set(key, done)
    try {
      return await work()
    } finally {
      for (const key of keys) this.#held.delete(key)
      release()
    }
  }

  #first(keys: readonly string[]): Promise<void> | undefined {
    if (this.#held.size === 0) return undefined
    for (const key of keys) {
      const held = this.#held.get(key)
      if (held !== undefined) return held
    }
    return undefined
  }
}
