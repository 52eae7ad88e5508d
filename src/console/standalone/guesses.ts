import { hashed } from './sessions.ts'

/** Wrong passwords and tokens checked without delay. */
const MOST = 10
/** The interval between further checks. */
const REFILL_MS = 6_000

/** Limits the rate at which passwords and tokens can be guessed. Credentials that were accepted before are always checked. */
export class Guesses {
  readonly #now: () => number
  readonly #proven = new Set<string>()
  #left = MOST
  #counted: number

  constructor(now: () => number) {
    this.#now = now
    this.#counted = now()
  }

  /** How long the sender has to wait before these credentials are checked; 0: no wait. */
  waitMs(credentials: string): number {
    this.#refill()
    if (this.#left > 0 || this.#proven.has(hashed(credentials))) return 0
    return this.#counted + REFILL_MS - this.#now()
  }

  /** Returns whether these credentials are accepted for the first time. */
  right(credentials: string): boolean {
    const before = this.#proven.size
    return this.#proven.add(hashed(credentials)).size > before
  }

  wrong(): void {
    this.#refill()
    if (this.#left === MOST) this.#counted = this.#now()
    this.#left = Math.max(0, this.#left - 1)
  }

  #refill(): void {
    const more = Math.max(0, Math.floor((this.#now() - this.#counted) / REFILL_MS))
    this.#left = Math.min(MOST, this.#left + more)
    this.#counted += more * REFILL_MS
  }
}
