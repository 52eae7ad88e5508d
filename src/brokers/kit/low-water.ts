/** A place in a sequence that may be finished. */
export interface Place<T> {
  readonly position: T
  finished: boolean
}

/**
 * Finds out how far a sequence is finished without a gap, when its members finish in any order: what a broker that only takes
 * "everything up to here" may be told. Positions are added in their order.
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

  /** How many are not behind the mark. */
  get size(): number {
    return this.#places.length - this.#first
  }

  /** The last position up to which everything is finished, and how many that are, if the mark has moved since the last call. */
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
    // Moved now and then: moving at each step would cost the square of the window.
    if (this.#first > 1_000 && this.#first * 2 > this.#places.length) {
      this.#places = this.#places.slice(this.#first)
      this.#first = 0
    }
    return { position, count }
  }
}
