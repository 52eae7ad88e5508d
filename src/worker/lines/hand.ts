/** What a line has in hand: rows that wait for a place, or are under way. */
export class Hand {
  readonly #seqs = new Map<string, number>()
  readonly #lately = new Set<string>()
  #bytes = 0

  get size(): number {
    return this.#seqs.size
  }

  /** The memory that it takes. */
  get bytes(): number {
    return this.#bytes
  }

  take(seq: string, bytes: number): void {
    this.#seqs.set(seq, bytes)
    this.#bytes += bytes
  }

  letGo(seq: string): void {
    const bytes = this.#seqs.get(seq)
    if (bytes === undefined) return
    this.#seqs.delete(seq)
    this.#bytes -= bytes
    this.#lately.add(seq)
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
