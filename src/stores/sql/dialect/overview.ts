import type { Statement } from '../../../contracts/index.ts'
import type { KeyRange } from '../../../message/index.ts'

/**
 * The statements behind `status` and `explain`. Receipts are the table that grows without end: nothing but `traceAll` reads them by
 * anything but their key.
 *
 * Rows of the statements that trace have a column `place`: receipt, inbox, outbox, sent, failed or audit. Besides source, type and at
 * they have the columns of their table that `Trace` names: due_at is available_at, scope is consumer or relay.
 */
export interface OverviewDialect {
  /** consumer: those that have receipts, found by one probe each. */
  readonly receiptConsumers: Statement
  /** count: of the receipts of a consumer, up to the limit. */
  receiptCount(consumer: string, limit: number): Statement
  /** consumer, waiting, retrying, held, failed. */
  readonly statusConsumers: Statement
  /** relay, waiting, held, failed, oldest, destination. */
  readonly statusRelays: Statement

  /** source: of the first receipts of a consumer, by their keys. Those of ids that are no UUIDv7 come first, at random. */
  receiptSources(consumer: string, limit: number): Statement
  /** source: of the newest rows of the inbox, the outbox, the sent and the failed store. */
  otherSources(limit: number): Statement
  /** The receipts of one consumer, by key and id. */
  traceReceipts(id: string, consumer: string, keys: KeyRange): Statement
  /** The inbox, the sent and the failed store, by key and id. */
  traceKeys(id: string, keys: KeyRange): readonly Statement[]
  /** The audit, by id, and the outbox, which is read as a whole: an index would cost every publish. */
  traceId(id: string): readonly Statement[]
  /** Receipts, the inbox, the sent and the failed store, by id: they are read as a whole. */
  traceAll(id: string): readonly Statement[]
}
