import type { Origin } from './rows.ts'

/** What happened to a consumer or a relay within a minute, as workers have counted it, and what waited at its end. */
export interface Sample {
  readonly origin: Origin
  readonly scope: string
  /** Processed by the consumer, or confirmed to the relay. */
  readonly done: number
  readonly duplicates: number
  /** Attempts that failed and will be repeated. */
  readonly retried: number
  /** Failed for good. */
  readonly failed: number
  /** The time from publish to effect, or in the outbox, added up over `aged` messages whose age is known. */
  readonly lagMs: number
  readonly aged: number
  /** What waited, and for how long the oldest one did; null: this worker does not look at that. */
  readonly waiting: number | null
  readonly oldestMs: number | null
}

/** The samples of all workers for one minute, added up. */
export interface MinuteSample extends Sample {
  /** When the minute began, by the clock of the database. */
  readonly at: Date
}

/** The last hours, minute by minute. Written once a minute by each worker, and cleaned by the same call. */
export interface StoreSamples {
  /** Adds to the current minute of the database. Rows older than `keepMs` are deleted. */
  add(worker: string, samples: readonly Sample[], keepMs: number): Promise<void>
  /** Of the last `sinceMs`, oldest first, then by origin and scope. */
  list(sinceMs: number): Promise<readonly MinuteSample[]>
}
