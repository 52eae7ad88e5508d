import type { Origin, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements that recover from a clock that went back. */
export interface ClockStatements {
  /** How many milliseconds the latest timestamp of heartbeats, samples and the newest waiting rows lies ahead, as `ms`; null: no rows. */
  readonly ahead: Statement
  /** The next `limit` rows, by number, whose due time was set at a time in the future: seq, the number alone. Locks nothing. */
  readonly waiting: Sql<[origin: Origin, after: string, limit: number]>
  /** Restarts the waits of these rows, except those locked elsewhere. */
  readonly recount: Sql<[origin: Origin, numbers: readonly string[]]>
  /** Sets heartbeats in the future to now. */
  readonly heartbeats: Statement
  /** Shortens leases of operations to at most this time from now. */
  readonly operations: Sql<[leaseMs: number]>
}
