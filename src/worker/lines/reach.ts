// Rows without order go to any idle worker. A line takes rows of its own lanes first; this module decides when it takes others.

import type { Clock, Random } from '../../base/index.ts'
import type { Entry, Look, Share } from '../../contracts/index.ts'
import { ALL_LANES } from '../../message/index.ts'

/**
 * Decides when a line looks at other workers' lanes, and which of the rows found it may take. In a backlog every row is overdue while its
 * owner is working, so only rows that are still there some time after they were first seen may be taken.
 */
export class Reach {
  readonly #clock: Clock
  readonly #random: Random
  readonly #staleMs: number
  /** Whether the last look at this worker's own lanes found fewer rows than there was room for. */
  #short = true
  #asked = 0
  #next = Number.NEGATIVE_INFINITY
  /** How many shares of the current look are for other workers' lanes. */
  #shares = 0
  /** When each row that was seen may be taken. */
  #ripe = new Map<string, number>()
  #stale: readonly Entry[] = []

  constructor({ clock, random }: { readonly clock: Clock; readonly random: Random }, staleMs: number) {
    this.#clock = clock
    this.#random = random
    this.#staleMs = staleMs
  }

  /**
   * The shares of other workers' lanes; none while this worker's own lanes fill it, or right after such a look, because rows take a while to
   * become overdue. `usual`: the shares of this look in its own lanes.
   */
  of(usual: readonly Share[], foreign: readonly Share[]): readonly Share[] {
    this.#asked = usual.reduce((least, { limit }) => Math.min(least, limit), Number.POSITIVE_INFINITY)
    const now = this.#clock.monotonic()
    const may = this.#short && now >= this.#next
    const shares = may ? foreign.map((share) => ({ ...share, after: NO_KEYS, overdueMs: OVERDUE_MS })) : []
    if (shares.length > 0) this.#next = now + OVERDUE_MS
    this.#shares = shares.length
    if (this.#shares === 0 && !this.#short) this.#ripe.clear()
    return shares
  }

  /** The results for this worker's own lanes. */
  own(looks: readonly Look[]): readonly Look[] {
    return looks.slice(0, looks.length - this.#shares)
  }

  /** Whether the results contain rows of other lanes that may be taken. */
  finds(looks: readonly Look[]): boolean {
    if (this.#shares === 0) return false
    const now = this.#clock.monotonic()
    const entries = looks.slice(looks.length - this.#shares).flatMap((look) => look.entries)
    this.#ripe = new Map(entries.map(({ seq }) => [seq, this.#ripe.get(seq) ?? now + this.#staleMs]))
    this.#stale = entries.filter(({ seq }) => this.#ripeAt(seq) <= now)
    return this.#stale.length > 0
  }

  /**
   * Picks some of these rows at random, because a live owner begins with the oldest, and other idle workers pick as well. `own`: the number of
   * rows found in this worker's own lanes.
   */
  take(own: number, most: number, may: (entry: Entry) => boolean): readonly Entry[] {
    const now = this.#clock.monotonic()
    const [stale, others] = [this.#stale.filter(may), this.#stale.filter((entry) => !may(entry))]
    this.#stale = []
    this.#short = own < this.#asked
    for (const { seq } of others) this.#ripe.set(seq, now + BUSY_MS)
    const taken: Entry[] = []
    for (let left = stale.length; left > 0 && taken.length < most; left--) {
      const [entry] = stale.splice(Math.floor(this.#random.number() * left), 1)
      if (entry !== undefined) taken.push(entry)
    }
    // There may be more to take.
    if (taken.length > 0) this.#next = Number.NEGATIVE_INFINITY
    return taken
  }

  /** In how many milliseconds to look again for rows that were seen; undefined: no rows were seen. */
  get nextMs(): number | undefined {
    if (this.#ripe.size === 0) return undefined
    return Math.max(this.#staleMs, Math.min(...this.#ripe.values()) - this.#clock.monotonic())
  }

  #ripeAt(seq: string): number {
    return this.#ripe.get(seq) ?? Number.POSITIVE_INFINITY
  }
}

/** The smaller of the defined values. */
export function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}

/** All lanes except these. */
export function othersOf(lanes: readonly number[]): readonly number[] {
  const own = new Set(lanes)
  return ALL_LANES.filter((lane) => !own.has(lane))
}

/** A live, idle owner would have taken a row by then. */
const OVERDUE_MS = 200
/** How long a row that another worker has is left alone. */
const BUSY_MS = 1_000
const NO_KEYS: Look['after'] = new Map()
