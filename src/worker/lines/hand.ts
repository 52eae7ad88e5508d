import { type Clock, type Random, type RetryPolicy, retryDelay } from '../../base/index.ts'
import type { Look, Share } from '../../contracts/index.ts'

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

/** Rows that are left alone for a while, each time for longer. */
export class Avoided {
  readonly #engine: { readonly clock: Clock; readonly random: Random }
  readonly #policy: RetryPolicy
  readonly #most: number
  readonly #rows = new Map<string, { readonly times: number; readonly until: number }>()

  /** Beyond `most` of them, all are tried again. */
  constructor(engine: { readonly clock: Clock; readonly random: Random }, policy: RetryPolicy, most: number) {
    this.#engine = engine
    this.#policy = policy
    this.#most = most
  }

  has(seq: string): boolean {
    const until = this.#rows.get(seq)?.until
    return until !== undefined && until > this.#engine.clock.monotonic()
  }

  add(seq: string): void {
    const { clock, random } = this.#engine
    const times = (this.#rows.get(seq)?.times ?? 0) + 1
    if (this.#rows.size >= this.#most) this.#rows.clear()
    this.#rows.set(seq, { times, until: clock.monotonic() + retryDelay(this.#policy, times, random) })
  }

  /** These are done with. */
  forget(seqs: readonly string[]): void {
    if (this.#rows.size === 0) return
    for (const seq of seqs) this.#rows.delete(seq)
  }
}

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
