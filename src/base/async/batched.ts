interface Waiting<Item> {
  readonly item: Item
  resolve(): void
  reject(error: unknown): void
}

/** Writes what it is given: what comes in one moment together, and one write at a time, so that others get connections too. */
export class Batched<Item> {
  readonly #write: (items: readonly Item[]) => Promise<unknown>
  readonly #most: number
  readonly #waiting: Waiting<Item>[] = []
  #writing = false

  /** `most`: how many items one write takes. */
  constructor(most: number, write: (items: readonly Item[]) => Promise<unknown>) {
    this.#most = most
    this.#write = write
  }

  /** Resolves when it is written; rejects as the write does that had it. */
  add(item: Item): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      if (!this.#writing) void this.#writeAll()
    })
  }

  async #writeAll(): Promise<void> {
    this.#writing = true
    await null
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#most)
      try {
        await this.#write(batch.map(({ item }) => item))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#writing = false
  }
}
