import type { Clock } from '../base/index.ts'
import { publishedAt, type StoredMessage } from '../message/index.ts'

/** How old a row was when it was read. */
interface Aged {
  /** Undefined or null: the row does not say when its message was published. */
  readonly ageMs?: number | null
  /** When it was read, by the monotonic clock. */
  readonly readAt: number
}

/** The clock of the database, as far as this process knows it: the clocks of processes may be wrong. */
export class DatabaseClock {
  readonly #clock: Clock
  /** The time of the database when the monotonic clock was at zero. Undefined: no heartbeat has told. */
  #zero: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Takes a time that the database reported at some instant since `began` (monotonic clock). Returns the minimum number of milliseconds that
   * the database clock went back since the previous report; the duration of the query does not count as a step.
   */
  learn(now: Date, began: number): number {
    const before = this.#zero
    this.#zero = now.getTime() - this.#clock.monotonic()
    return before === undefined ? 0 : Math.max(0, before - (now.getTime() - began))
  }

  /** Milliseconds since 1970; without a worker in this process, by its own clock. */
  now(): number {
    return this.#zero === undefined ? this.#clock.now() : this.#zero + this.#clock.monotonic()
  }

  /**
   * From publish to now: by the age of the row, if that counts from there, or by the time that the message says. Undefined: the message
   * does not say when it was published.
   */
  lagMs({ attributes }: Pick<StoredMessage, 'attributes'>, row?: Aged): number | undefined {
    // The clock may have gone back meanwhile.
    if (typeof row?.ageMs === 'number') return Math.max(0, row.ageMs + this.#clock.monotonic() - row.readAt)
    const at = publishedAt(attributes)
    return at === undefined ? undefined : Math.max(0, this.now() - at)
  }
}
