import type { Result, Statement } from '../connection.ts'
import type { StoredMessage } from '../message.ts'
import type { Audit, CleanupStep, FailedFilter, FailedWhere, Finding, Origin, SentFilter } from '../store.ts'

/** The statements behind the tools that people use: the failed store, keys, audit, cleaning, status. */
export interface OperatorDialect {
  /** seq, origin, consumer, the message, attempts, reason, error, error_hash, failed_at, held_seq, replaced_by. */
  failedList(filter: FailedFilter): Statement
  /** count. */
  failedCount(where: FailedWhere): Statement
  /** origin, consumer, type, reason, error_hash, count, first_at, last_at, error, seq; most first. */
  failedGroups(where: FailedWhere, limit: number): Statement
  failedGet(seq: string): Statement
  /** Locks a failed row that no edit has replaced, and answers seq, origin, consumer, held_seq, lane, ordered. */
  failedLock(seq: string): Statement
  /** Copies a failed row back into the inbox, or the outbox, due at once. */
  copyBack(seq: string, origin: Origin): Statement
  /** Clears held_at and the counts of a held row; due at once. */
  unhold(origin: Origin, seq: string): Statement
  /** Gives a held row another message, and clears as `unhold`. */
  replaceHeld(origin: Origin, seq: string, message: StoredMessage): Statement
  deleteHeld(origin: Origin, seq: string): Statement
  deleteFailed(seq: string): Statement
  /** Names the message that replaced a failed one, which is not held any more. */
  failedReplaced(seq: string, id: string): Statement
  /** One receipt, for a message that an edit made. */
  insertReceipt(consumer: string, token: string, message: StoredMessage): Statement
  /** Writes an audit row about a failed row. */
  auditFailed(seq: string, audit: Audit): Statement
  /** Writes an audit row about something else. */
  auditOther(
    audit: Audit,
    about: { origin?: Origin; consumer?: string; source?: string; id?: string; type?: string },
  ): Statement

  /** origin, scope, key, id, failed_seq, held_at, waiting. */
  heldKeys(limit: number): Statement
  /** Locks the held row of a key and answers seq, source, id, type. */
  lockHeld(origin: Origin, scope: string, key: string): Statement
  /** A failed row for a held row that has none, for whatever reason. */
  heldToFailed(origin: Origin, seq: string): Statement
  /** The failed row of a held one does not name it any more. */
  failedLetGo(origin: Origin, heldSeq: string): Statement

  moveRelay(name: string, destination: string): readonly Statement[]
  /** consumer, type, ordered. */
  readonly subscriptions: Statement
  unsubscribe(consumer: string): Statement

  /** seq, relay, sent_at and the message. */
  sentList(filter: SentFilter): Statement
  /** Locks a sent row and answers seq, relay, source, id, type. */
  sentLock(seq: string): Statement
  /** Copies a sent row into the outbox, due at once. */
  republish(seq: string): Statement

  /** One step of the cleaning: answers how many rows it deleted, and where the next step goes on. */
  cleanup(
    query: (statement: Statement) => Promise<Result>,
    step: CleanupStep,
    olderThanMs: number,
    limit: number,
  ): Promise<{ deleted: number; after: string | undefined }>
  /** count. */
  cleanable(consumer: string, olderThanMs: number): Statement
  checkup(query: (statement: Statement) => Promise<Result>): Promise<readonly Finding[]>

  /** consumer, receipts, waiting, retrying, held, failed. */
  readonly statusConsumers: Statement
  /** relay, waiting, held, failed, oldest, destination. */
  readonly statusRelays: Statement
  /** Statements whose rows have a column `place`: receipt, inbox, outbox, sent, failed or audit. */
  trace(id: string): readonly Statement[]
}
