/** What one call of a handler did with its transaction. */
interface Observed {
  /** How many statements it had sent when its call returned, and in all. */
  readonly atOnce: number
  readonly sent: number
  /** Whether it waited for something else after the answers. */
  readonly lingered: boolean
  /** Whether it used the client itself, which nothing watches. */
  readonly untracked: boolean
}

/**
 * Whether calls of a handler may overlap: only if the last ones sent all their statements at once and ended with the answers. One that
 * did otherwise when it overlapped has to show that ten times as often before it overlaps again.
 */
export class Pace {
  #streak = 0
  #needed = FIRST

  get mayOverlap(): boolean {
    return this.#streak >= this.#needed
  }

  /** Learns from a call that succeeded. One that sent nothing shows nothing. */
  observe({ atOnce, sent, lingered, untracked }: Observed): void {
    if (untracked || (sent > 0 && (sent !== atOnce || lingered))) this.stumble()
    else if (sent > 0) this.#streak += 1
  }

  /** A call did not do as the ones before it. */
  stumble(): void {
    if (this.mayOverlap) this.#needed = Math.min(MOST, 10 * this.#needed)
    this.#streak = 0
  }
}

/** How many calls have to be simple before calls overlap, at first and at most. */
const FIRST = 3
const MOST = 100_000
