/**
 * Keys are looked at page by page, lane by lane, and a lane that has come to its end begins again. One turn is over when
 * every lane that had more keys when it began has come to its end.
 */
export class Rotation {
  #after: ReadonlyMap<number, string> = new Map()
  readonly #left = new Set<number>()

  /** Where the next look goes on. */
  get after(): ReadonlyMap<number, string> {
    return this.#after
  }

  /** Whether there are keys that this turn has not come to. */
  get unfinished(): boolean {
    return this.#left.size > 0
  }

  /** Learns which lanes have more keys. */
  seen(after: ReadonlyMap<number, string>): void {
    this.#after = after
    if (this.#left.size === 0) for (const lane of after.keys()) this.#left.add(lane)
    else for (const lane of this.#left) if (!after.has(lane)) this.#left.delete(lane)
  }
}
