import type { Audit, AuditSubject, Cleaned, CleanupStep, Finding, Statement } from '../../../contracts/index.ts'
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

/** Statements behind `status`. */
export interface StatusStatements {
  /** consumer: those that have receipts, found by one probe each. */
  readonly receiptConsumers: Statement
  /** count: of the receipts of a consumer, up to the limit. */
  readonly receiptCount: Sql<[consumer: string, limit: number]>
  /** consumer, waiting, retrying, held, failed. */
  readonly consumers: Statement
  /** relay, waiting, held, failed, oldest, destination. */
  readonly relays: Statement
  /** name, estimate, age: of the tables that grow, as `Growth` has it; null where nothing is quickly found. */
  readonly growth: Statement
}

/**
 * Statements behind `explain`. Receipts are the table that grows without end: nothing but `all` reads them by anything but their key.
 *
 * Rows have a column `place`: receipt, inbox, outbox, sent, failed or audit. Besides source, type and at they have the columns of their
 * table that `Trace` names: due_at is available_at, scope is consumer or relay.
 */
export interface TraceStatements {
  /** source: of the first receipts of a consumer, by their keys. Those of ids that are no UUIDv7 come first, at random. */
  readonly receiptSources: Sql<[consumer: string, limit: number]>
  /** source: of the newest rows of the inbox, the outbox, the sent and the failed store. */
  readonly otherSources: Sql<[limit: number]>
  /** The receipts of one consumer, by key and id. */
  readonly receipts: Sql<[id: string, consumer: string, keys: KeyRange]>
  /** The inbox, the sent and the failed store, by key and id. */
  byKey(id: string, keys: KeyRange): readonly Statement[]
  /** The audit, by id, and the outbox, which is read as a whole: an index would cost every publish. */
  byId(id: string): readonly Statement[]
  /** Receipts, the inbox, the sent and the failed store, by id: they are read as a whole. */
  all(id: string): readonly Statement[]
}
