/** One position of the sequence, and whether it is finished. */
export interface Place<T> {
  readonly position: T
  finished: boolean
}

/**
 * Tracks up to where a sequence is finished without a gap, although its members finish in any order. Brokers such as Kafka take only
 * "everything up to here", so nothing beyond the first gap may be committed. Positions are added in their order.
 */
export class LowWater<T> {
  #places: Place<T>[] = []
  #first = 0

  /** Adds the next position. */
  add(position: T): Place<T> {
    const place = { position, finished: false }
    this.#places.push(place)
    return place
  }

  /** How many positions the mark has not passed. */
  get size(): number {
    return this.#places.length - this.#first
  }

  /** Moves the mark. Returns the last position it passed and how many it passed; undefined if it did not move. */
  advance(): { readonly position: T; readonly count: number } | undefined {
    let next = this.#first
    let last: Place<T> | undefined
    for (let place = this.#places[next]; place?.finished; place = this.#places[next]) {
      last = place
      next += 1
    }
    if (last === undefined) return undefined
    const { position } = last
    const count = next - this.#first
    this.#first = next
    // Not at every step: copying the rest each time would cost the square of the window.
    if (this.#first > 1_000 && this.#first * 2 > this.#places.length) {
      this.#places = this.#places.slice(this.#first)
      this.#first = 0
    }
    return { position, count }
  }
}
