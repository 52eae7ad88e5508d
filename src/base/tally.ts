import type { Clock } from './clock.ts'

/** What has happened to a consumer (`inbox`) or a relay (`outbox`) since it was last asked for. */
export interface Counted {
  readonly origin: 'inbox' | 'outbox'
  readonly scope: string
  readonly done: number
  readonly duplicates: number
  readonly retried: number
  readonly failed: number
  /** Added up over `aged` messages. */
  readonly lagMs: number
  readonly aged: number
}

/** The counts of one consumer or relay. Kept apart from events, so that counting costs no more than an addition. */
export class Counts {
  readonly #clock: Clock
  done = 0
  duplicates = 0
  retried = 0
  failed = 0
  #lagMs = 0
  #aged = 0
  #nextAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether the lag of a message is wanted: of one about every second, because finding it out is not free. */
  get wantsLag(): boolean {
    return this.#clock.monotonic() >= this.#nextAt
  }

  /** The lag of a message, if it is known. */
  lag(ms: number | undefined): void {
    this.#nextAt = this.#clock.monotonic() + EVERY_MS
    if (ms === undefined) return
    this.#lagMs += ms
    this.#aged += 1
  }

  /** What was counted; begins anew. */
  take(): Omit<Counted, 'origin' | 'scope'> {
    const { done, duplicates, retried, failed } = this
    const taken = { done, duplicates, retried, failed, lagMs: Math.round(this.#lagMs), aged: this.#aged }
    this.done = 0
    this.duplicates = 0
    this.retried = 0
    this.failed = 0
    this.#lagMs = 0
    this.#aged = 0
    return taken
  }
}

/** Counts what happens in this process, for the samples that workers write. */
export class Tally {
  readonly #clock: Clock
  readonly #counts = new Map<string, { readonly origin: Counted['origin']; scope: string; counts: Counts }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The counts of a consumer or a relay. */
  of(origin: Counted['origin'], scope: string): Counts {
    const name = `${origin}:${scope}`
    const known = this.#counts.get(name)
    if (known !== undefined) return known.counts
    const counts = new Counts(this.#clock)
    this.#counts.set(name, { origin, scope, counts })
    return counts
  }

  /** What was counted since the last time. */
  take(): readonly Counted[] {
    return [...this.#counts.values()].map(({ origin, scope, counts }) => ({ origin, scope, ...counts.take() }))
  }
}

const EVERY_MS = 1_000
