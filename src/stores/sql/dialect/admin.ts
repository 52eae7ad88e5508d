import type { Audit, AuditSubject, Cleaned, CleanupStep, Finding, Row, Statement } from '../../../contracts/index.ts'
import type { KeyRange } from '../../../message/index.ts'
import type { Query, Sql } from './statement.ts'

/** Statements behind what people look after. */
export interface AdminStatements {
  /** origin, scope, key, id, failed_seq, held_at, waiting; longest first. */
  readonly keys: Sql<[limit: number]>
  /** Writes an audit row about a failed row. */
  readonly auditFailed: Sql<[seq: string, audit: Audit]>
  /** Writes an audit row about something else. */
  readonly audit: Sql<[audit: Audit, about: AuditSubject]>
  /** One step of the cleaning, as `StoreAdmin.clean` has it. */
  clean(query: Query, step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned>
  /** What `doctor` finds; a check that cannot be made is a warning, not an error. */
  checkup(query: Query): Promise<readonly Finding[]>
}

/**
 * Statements behind `status`. Their rows have the columns what, place, scope, name, n, at, a and b:
 * - clock: at is the time of the database.
 * - queue: a count (n) of rows of a scope in a table (place: inbox or outbox), up to one more than `COUNTED`, and since when the oldest of
 *   them waits (at). By name: loose and keyed are all rows, without and with order, retrying and held some of them; front has no count.
 * - failed: a count, in the same way, of an origin (place), a scope and a reason (name).
 * - known: a scope that has receipts. relay: a scope, and its destination (a).
 * - rows: about how many rows a table (place) has (n), and when its oldest was written (at), where either is quickly found. With the
 *   place inbox_tried or outbox_tried: of those that retry or are held, where the database knows.
 * - share: the weight (n) of a scope in a table, or of a scope and a reason (name) in the failed store; with the name retrying, the part
 *   of the rows of the scope that retry, where there is no inbox_tried. Only what was counted in part needs them.
 * - paused: an origin (place) and a scope that the actor (name) has paused (at), with a note (a).
 * - worker: place is alive or dead, scope its id, n for how long it is silent, at when it started, a what it serves, b what it has in hand.
 */
export interface StatusStatements {
  /** consumer: those that have receipts, found by one probe each. */
  readonly receiptConsumers: Statement
  /** Settings of the transaction that looks; if there are none, it needs no transaction. */
  settings(limitMs: number): readonly Statement[]
  /** What waits, by indexes alone. */
  look(query: Query): Promise<readonly Row[]>
  /** The same, counted: queue with the names waiting, retrying and held, failed, rows of other tables, and receipts by scope. */
  readonly exact: Statement
}

/**
 * Statements behind `explain`. Receipts are the table that grows without end: nothing but `all` reads them by anything but their key.
 *
 * Rows have a column `place`: receipt, response, inbox, outbox, sent, failed or audit. Besides source, type and at they have the columns of their
 * table that `Trace` names: due_at is available_at, scope is consumer or relay.
 */
export interface TraceStatements {
  /** source: of the first receipts of a consumer, by their keys. Those of ids that are no UUIDv7 come first, at random. */
  readonly receiptSources: Sql<[consumer: string, limit: number]>
  /** source: of the newest rows of the inbox, the outbox, the sent and the failed store. */
  readonly otherSources: Sql<[limit: number]>
  /** The receipts of one consumer, by key and id. */
  readonly receipts: Sql<[id: string, consumer: string, keys: KeyRange]>
  /** The inbox, the outbox, the sent and the failed store, by key and id. */
  byKey(id: string, keys: KeyRange): readonly Statement[]
  /** The audit, by id. */
  readonly audit: Sql<[id: string]>
  /** Responses, by id, without their content; source and type are those of their receipt. */
  readonly responses: Sql<[id: string]>
  /** Receipts, the inbox, the outbox, the sent and the failed store, by id: they are read as a whole. */
  all(id: string): readonly Statement[]
}
