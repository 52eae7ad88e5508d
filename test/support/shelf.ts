/** How databases of one kind are created and reused. */
export interface Shelved {
  /** Makes a database with all tables; returns its name. */
  make(): Promise<string>
  /** Removes every row that a case may have left, and waits for transactions that still write. */
  empty(name: string): Promise<unknown>
  drop(name: string): Promise<unknown>
}

/**
 * Databases that the cases of a file use one after another. Creating the tables costs a server ten times as much as most cases,
 * so a case gets empty tables that are not always new: numbers continue where the last case stopped.
 */
export class Shelf {
  readonly #shelved: Shelved
  readonly #clean: string[] = []

  constructor(shelved: Shelved) {
    this.#shelved = shelved
  }

  /** A database without rows. */
  async take(): Promise<string> {
    return this.#clean.pop() ?? (await this.#shelved.make())
  }

  async giveBack(name: string): Promise<void> {
    await this.#shelved.empty(name)
    this.#clean.push(name)
  }

  /** Drops a database that was altered. */
  async drop(name: string): Promise<void> {
    await this.#shelved.drop(name)
  }

  /** Drops all databases that were returned. */
  async clear(): Promise<void> {
    for (const name of this.#clean.splice(0)) await this.#shelved.drop(name)
  }
}
