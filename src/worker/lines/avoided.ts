import type { Clock, Random } from '../../base/index.ts'
import { type RetryPolicy, retryDelay } from '../../base/index.ts'

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
