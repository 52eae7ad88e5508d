// What a line remembers between looks: the rows in hand, the rows to avoid, and where to continue.

import { type Clock, type Random, type RetryPolicy, retryDelay } from '../../base/index.ts'
import type { Look, Share } from '../../contracts/index.ts'

/** The rows that a line has in hand: they wait for a place, or are under way. */
export class Hand {
  readonly #seqs = new Map<string, number>()
  /** Rows released since the last look began: it may still show them as they were before. */
  readonly #lately = new Set<string>()
  #looking = false
  #bytes = 0

  get size(): number {
    return this.#seqs.size
  }

  /** The memory that these rows take. */
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
    if (this.#looking) this.#lately.add(seq)
  }

  /** A look begins. Rows released before it are shown as they are now. */
  looking(): void {
    this.#lately.clear()
    this.#looking = true
  }

  /** What the look showed has been taken: what is released from now on is shown by the next one as it is then. */
  looked(): void {
    this.#lately.clear()
    this.#looking = false
  }

  /** Whether a row that the last look shows may be taken into hand. */
  isFree(seq: string): boolean {
    return !this.#seqs.has(seq) && !this.#lately.has(seq)
  }
}

/** Rows that another worker has locked, or that failed to get through. Each is left alone for a while, longer each time. */
export class Avoided {
  readonly #engine: { readonly clock: Clock; readonly random: Random }
  readonly #policy: RetryPolicy
  readonly #most: number
  readonly #rows = new Map<string, { readonly times: number; readonly until: number }>()

  /** Beyond `most` rows all are forgotten and tried again, so that memory stays bounded. */
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

  /** These rows are done. */
  forget(seqs: readonly string[]): void {
    if (this.#rows.size === 0) return
    for (const seq of seqs) this.#rows.delete(seq)
  }
}

/**
 * Remembers how far a line has come through its keys. They are looked at page by page in each lane; a lane that has come to its end
 * begins again. A turn is over when every lane that had more keys at its beginning has come to its end.
 */
export class Rotation {
  #after: ReadonlyMap<number, string> = new Map()
  readonly #left = new Set<number>()

  /** The key in each lane behind which the next look continues. */
  get after(): ReadonlyMap<number, string> {
    return this.#after
  }

  /** Whether this turn has keys left. */
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
 * A rare look at all keys of a line, including those that usual looks skip as held or not due. It should find nothing that the usual
 * looks have missed; it is a safety net.
 */
export class Review {
  readonly #clock: Clock
  readonly #rotation = new Rotation()
  #next = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The shares of a review, from where the last one ended; none if it is too early for one. */
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

/** Where the next look continues after all of these. */
export function afterOf(looks: readonly Look[]): ReadonlyMap<number, string> {
  return new Map(looks.flatMap((look) => [...look.after]))
}

/** The pause between two reviews: they read more than usual looks. */
const REVIEW_MS = 10_000
const REVIEW_LIMIT = 2_000
