import type { Clock } from '../clock.ts'

/** What deletions need of their relay. */
export interface DeletionsOptions {
  readonly clock: Clock
  delete(seqs: readonly string[]): Promise<void>
  /** Whether there is nothing that would be confirmed soon. */
  isLast(): boolean
  /** These are gone, or could not be deleted. */
  ended(seqs: readonly string[]): void
}

/** Deletes what the broker has confirmed, many at once. */
export class Deletions {
  readonly #options: DeletionsOptions
  #seqs: string[] = []
  #underWay = 0
  #running = false
  #enough: (() => void) | undefined

  constructor(options: DeletionsOptions) {
    this.#options = options
  }

  /** What the broker has, and the outbox has still. */
  get size(): number {
    return this.#seqs.length + this.#underWay
  }

  /** Takes a row; answers the work that begins with it, if it does. */
  add(seq: string): Promise<void> | undefined {
    this.#seqs.push(seq)
    if (!this.#running) return this.#run()
    if (this.#isEnough()) this.#enough?.()
    return undefined
  }

  async #run(): Promise<void> {
    this.#running = true
    // What is confirmed in the same moment goes with it.
    await null
    try {
      while (this.#seqs.length > 0) {
        await this.#gathered()
        await this.#delete(this.#seqs.splice(0, MOST))
      }
    } finally {
      this.#running = false
      // What was confirmed while that failed.
      this.#options.ended(this.#seqs.splice(0))
    }
  }

  async #delete(seqs: readonly string[]): Promise<void> {
    this.#underWay = seqs.length
    try {
      await this.#options.delete(seqs)
    } finally {
      this.#underWay = 0
      this.#options.ended(seqs)
    }
  }

  /** A delete costs a commit: it waits a moment for company. */
  async #gathered(): Promise<void> {
    if (this.#isEnough()) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#options.clock.after(GATHER_MS, resolve)
    this.#enough = resolve
    await promise
    cancel()
  }

  #isEnough(): boolean {
    return this.#seqs.length >= ENOUGH || this.#options.isLast()
  }
}

/** So many are worth a delete. */
const ENOUGH = 500
const MOST = 2_000
/** How long a confirmed message may stay in the outbox, so that others are deleted with it. */
const GATHER_MS = 10
