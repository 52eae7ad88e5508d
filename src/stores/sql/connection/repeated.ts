/** Tells statements that come again from those whose text differs each time, with values written into it. */
export class Repeated {
  readonly #most: number
  readonly #seen = new Map<string, number>()
  readonly #known = new Set<string>()

  /** Remembers so many texts at most. */
  constructor(most: number) {
    this.#most = most
  }

  /** Whether this text has come often enough to be worth a preparation. */
  has(text: string): boolean {
    if (this.#known.has(text)) return true
    if (this.#known.size >= this.#most) return false
    const times = (this.#seen.get(text) ?? 0) + 1
    if (times < WORTH_IT) {
      if (this.#seen.size >= this.#most) this.#seen.clear()
      this.#seen.set(text, times)
      return false
    }
    this.#seen.delete(text)
    this.#known.add(text)
    return true
  }
}

/** A statement that has come so often is likely to come again. */
const WORTH_IT = 3
