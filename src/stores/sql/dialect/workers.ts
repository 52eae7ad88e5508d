import type { Statement, WorkerHello } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on workers. */
export interface WorkerStatements {
  /** Does nothing if the worker is known: the call may be repeated. */
  readonly join: Sql<[worker: WorkerHello]>
  /** Affects no row if the worker is not known any more. */
  readonly note: Sql<[id: string, inHand: string, alone: boolean, beat: boolean]>
  /**
   * id, name, serves, started_at, silent_ms, alive, in_hand, and the current time as `listed_at`; where workers have sessions, also
   * `session`, and `there` if it exists.
   */
  readonly list: Statement
  /** Records the session of workers; null: they have none. Undefined: this database has no worker sessions. */
  readonly attend: Sql<[ids: readonly string[], session: string | null]> | undefined
  /** Where the process itself is the session: its own mark, and whether another process exists; undefined: unknown from here. */
  readonly session?: { own(): string; isThere(session: string): boolean | undefined }
  /** Locks dead workers, and those of `ended` whose session is still the one that ended: id, in_hand, alone. */
  readonly lockDead: Sql<[ended: readonly string[]]>
  /** Counts a start, or a crash, on those of these inbox rows that are not locked elsewhere. */
  readonly suspect: Sql<[seqs: readonly string[]]>
  /** The same for rows that were the only ones in hand: the handler is the likely cause. */
  readonly crashed: Sql<[seqs: readonly string[]]>
  readonly leave: Sql<[ids: readonly string[]]>
}

/** Statements on subscriptions. */
export interface SubscriptionStatements {
  readonly add: Sql<[consumer: string, type: string, ordered: boolean]>
  /** ordered. */
  readonly get: Sql<[consumer: string, type: string]>
  /** consumer, type, ordered. */
  readonly list: Statement
  /** Locks the subscriptions of a consumer and returns their types. */
  readonly lock: Sql<[consumer: string]>
  readonly remove: Sql<[consumer: string]>
}
