import type {
  Audit,
  AuditSubject,
  Cleaned,
  CleanupStep,
  FailedFilter,
  FailedWhere,
  Finding,
  Origin,
  Result,
  SentFilter,
  SentWhere,
  Statement,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'

/** Runs one statement outside a transaction. */
type Query = (statement: Statement) => Promise<Result>

/** The statements behind the tools that people use: the failed store, keys, audit, cleaning. */
export interface OperatorDialect {
  /** seq, origin, consumer, the message, attempts, reason, error, error_hash, failed_at, held_seq, replaced_by. */
  failedList(filter: FailedFilter): Statement
  /** count. */
  failedCount(where: FailedWhere): Statement
  /** origin, consumer, type, reason, error_hash, count, first_at, last_at, error, seq; most first. */
  failedGroups(where: FailedWhere, limit: number): Statement
  /** seq, oldest first. */
  failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Statement
  failedGet(seq: string): Statement
  /**
   * Locks a failed row, and answers seq, origin, consumer, and held_seq if the row that it names is there and held.
   * One that an edit has replaced is only found if `replaced` says so.
   */
  failedLock(seq: string, replaced: boolean): Statement
  /**
   * Copies a failed row back into the inbox, or the outbox, due at once, with its lane, its order and its name. Its fence is 1: whoever
   * leases it is not the first, and there may be a journal.
   */
  copyBack(seq: string, origin: Origin): Statement
  /** The same with another message. */
  copyEdited(seq: string, origin: Origin, message: StoredMessage): Statement
  /** Clears held_at and the counts of a held row; due at once, and looked at again. It remembers the name of its failed row. */
  unhold(origin: Origin, seq: string, failedSeq: string): Statement
  /** Gives a held row another message, and clears as `unhold`; its failed row stays. */
  replaceHeld(origin: Origin, seq: string, message: StoredMessage): Statement
  deleteHeld(origin: Origin, seq: string): Statement
  deleteFailed(seq: string): Statement
  /** Names the message that replaced a failed one, which is not held any more. */
  failedReplaced(seq: string, id: string): Statement
  /** One receipt, for a message that an edit made. Fails if it is there. */
  insertReceipt(consumer: string, token: string, message: StoredMessage): Statement
  /** Writes an audit row about a failed row. */
  auditFailed(seq: string, audit: Audit): Statement
  /** Writes an audit row about something else. */
  auditOther(audit: Audit, about: AuditSubject): Statement

  /** origin, scope, key, id, failed_seq, held_at, waiting; longest first. */
  heldKeys(limit: number): Statement
  /** Locks the held row of a key and answers seq, source, id, type, and failed_seq if the failed store has it. */
  lockHeld(origin: Origin, scope: string, key: string): Statement
  /** A failed row for a held row that has none, for whatever reason. */
  heldToFailed(origin: Origin, seq: string): Statement
  /** The failed row of a held one does not name it any more. */
  failedLetGo(origin: Origin, heldSeq: string): Statement

  moveRelay(name: string, destination: string): Statement
  /** consumer, type, ordered. */
  readonly subscriptions: Statement
  /** Locks the subscriptions of a consumer and answers their types. */
  lockSubscriptions(consumer: string): Statement
  unsubscribe(consumer: string): Statement

  /** seq, relay, sent_at and the message. */
  sentList(filter: SentFilter): Statement
  /** seq, oldest first. */
  sentSeqs(where: SentWhere, after: string | undefined, limit: number): Statement
  /** seq, relay and the message. It stays where it is, so it need not be locked. */
  sentGet(seq: string): Statement
  /** Copies a sent row into the outbox, due at once. */
  republish(seq: string, lane: number): Statement

  /** One step of the cleaning, as `StoreAdmin.clean` has it. */
  clean(query: Query, step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned>
  checkup(query: Query): Promise<readonly Finding[]>
}
