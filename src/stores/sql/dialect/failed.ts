import type {
  FailedFilter,
  FailedRow,
  FailedWhere,
  FinalFailure,
  FrozenFailed,
  Origin,
  Refused,
  Statement,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import type { Sql } from './statement.ts'

/** Statements that move messages into the failed store. */
export interface FailingStatements {
  /** Writes messages that fail without having a row of the inbox. */
  insert(rows: readonly FailedRow[]): readonly Statement[]
  /** Copies an inbox row into failed; `hold`: the copy names the row, which stays. */
  readonly inbox: Sql<[row: FinalFailure]>
  /** The same for an outbox row. */
  readonly outbox: Sql<[row: Refused]>
}

/** Statements on the failed store. */
export interface FailedStatements {
  /** seq, origin, consumer, the message, attempts, reason, error, error_hash, failed_at, held_seq, replaced_by, failures, history. */
  readonly list: Sql<[filter: FailedFilter]>
  /** count. */
  readonly count: Sql<[where: FailedWhere]>
  /** origin, consumer, type, reason, error_hash, count, first_at, last_at, error, seq; most first. */
  readonly groups: Sql<[where: FailedWhere, limit: number]>
  /** seq, oldest first. Without the payload: changes in bulk read thousands of rows at a time. */
  readonly seqs: Sql<[where: FrozenFailed, after: string | undefined, limit: number]>
  /** count, last and failure: the number of rows, counted up to the limit, the name of the newest one, and the number of the last failure. */
  readonly freeze: Sql<[where: FrozenFailed, limit: number | null]>
  /** The columns of `list`. */
  readonly get: Sql<[seq: string]>
  /**
   * Locks a failed row, and returns seq, origin, consumer, the number of its failure, replaced_by, and held_seq if the row that it names
   * exists and is held. A row that an edit has replaced is only found if `replaced` is true.
   */
  readonly lock: Sql<[seq: string, replaced: boolean]>
  readonly delete: Sql<[seq: string]>
  /** Names the message that replaced a failed one, which is not held any more. */
  readonly replaced: Sql<[seq: string, id: string]>
  /** The failed row of a held one does not name it any more. */
  readonly letGo: Sql<[origin: Origin, heldSeq: string]>
}

/** Statements on single rows of the inbox, or of the outbox, by hand: most of them are about rows that hold their key. */
export interface HeldStatements {
  /** Locks a row that was tried before, is not due, and is neither held nor leased; returns seq, scope, source, id, type. */
  readonly retrying: Sql<[seq: string]>
  /** Makes a row due at once, and looked at again. */
  readonly hasten: Sql<[seq: string]>
  /** Locks the held row of a key and returns seq, source, id, type, and failed_seq if the failed store has it. */
  readonly lock: Sql<[scope: string, key: string]>
  /** Clears held_at and the counts of a held row; due at once, and looked at again. It remembers the name of its failed row. */
  readonly unhold: Sql<[seq: string, failedSeq: string]>
  /** Gives a held row another message, and clears as `unhold`; its failed row stays. */
  readonly replace: Sql<[seq: string, message: StoredMessage]>
  readonly delete: Sql<[seq: string]>
  /** A failed row for a held row that has none, for whatever reason. */
  readonly toFailed: Sql<[seq: string]>
  /**
   * Copies a failed row back into the inbox, or the outbox, due at once, with its lane, its order and its name. Its fence is 1:
   * the next lease is not the first one, and there may be a journal.
   */
  readonly back: Sql<[seq: string]>
  /** The same with another message. */
  readonly backEdited: Sql<[seq: string, message: StoredMessage]>
  /**
   * Gives the failed row of this inbox or outbox row the number and the mark that it had before a retry, unless they are taken. The number
   * assigned to the new row stays in failure_seq and distinguishes this failure from the previous one.
   */
  readonly keepNumber: Sql<[seq: string]>
}
