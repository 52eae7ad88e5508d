/** What a line has in hand: rows that wait for a place, or are under way. */
export class Hand {
  readonly #seqs = new Set<string>()
  readonly #lately = new Set<string>()

  get size(): number {
    return this.#seqs.size
  }

  get seqs(): ReadonlySet<string> {
    return this.#seqs
  }

  take(seq: string): void {
    this.#seqs.add(seq)
  }

  letGo(seq: string): void {
    if (this.#seqs.delete(seq)) this.#lately.add(seq)
  }

  /** A look begins: from now on, what is let go may be shown by it as it was before. */
  looking(): void {
    this.#lately.clear()
  }

  /** Whether a row that the last look shows may be taken. */
  isFree(seq: string): boolean {
    return !this.#seqs.has(seq) && !this.#lately.has(seq)
  }
}
