import type { Statement, WorkerHello } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on workers. */
export interface WorkerStatements {
  /** Does nothing if the worker is known: the call may be repeated. */
  readonly join: Sql<[worker: WorkerHello]>
  /** Affects no row if the worker is not known any more. */
  readonly note: Sql<[id: string, inHand: string, alone: boolean, beat: boolean]>
  /** id, name, serves, started_at, silent_ms, alive, in_hand, and the time as `listed_at`. */
  readonly list: Statement
  /** Locks workers that are dead: id, in_hand, alone. */
  readonly lockDead: Statement
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
