import { systemClock, within } from '../../base/index.ts'

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
  readonly #underWay = new Set<Promise<string>>()
  #over = false

  constructor(shelved: Shelved) {
    this.#shelved = shelved
  }

  /** A database without rows. */
  async take(): Promise<string> {
    return this.#clean.pop() ?? (await this.making(() => this.#shelved.make()))
  }

  /** Makes a database, unless the run is over. */
  async making(make: () => Promise<string>): Promise<string> {
    if (this.#over) throw new Error('the run is over')
    const work = make()
    this.#underWay.add(work)
    try {
      return await work
    } finally {
      this.#underWay.delete(work)
    }
  }

  /** No database is made from now on; waits for those that are being made, but not for ever. */
  async end(): Promise<void> {
    this.#over = true
    await within(systemClock, END_MS, Promise.allSettled(this.#underWay), () => [])
  }

  /** What cannot be emptied is dropped: not every engine can lock tables. */
  async giveBack(name: string): Promise<void> {
    try {
      await this.#shelved.empty(name)
    } catch {
      return this.drop(name)
    }
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

/** How long a database may take to be made once the run is over. */
const END_MS = 10_000
