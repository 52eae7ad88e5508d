import type { Clock } from '../../base/index.ts'
import type { Look, Share } from '../../contracts/index.ts'

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

/**
 * When to look at all keys of a line, also at those that stand aside: seldom, because nothing should be found there that the
 * other looks have missed.
 */
export class Review {
  readonly #clock: Clock
  readonly #rotation = new Rotation()
  #next = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** These shares, at all of their keys from where the last review ended; none if it is too early. */
  of(shares: readonly Share[]): readonly Share[] {
    const now = this.#clock.monotonic()
    if (now < this.#next) return []
    this.#next = now + REVIEW_MS
    return shares.map((share) => ({ ...share, limit: REVIEW_LIMIT, after: this.#rotation.after, all: true }))
  }

  seen(looks: readonly Look[]): void {
    if (looks.length > 0) this.#rotation.seen(afterOf(looks))
  }
}

/** Where the next look goes on, of all these. */
export function afterOf(looks: readonly Look[]): ReadonlyMap<number, string> {
  return new Map(looks.flatMap((look) => [...look.after]))
}

const REVIEW_MS = 10_000
const REVIEW_LIMIT = 2_000
