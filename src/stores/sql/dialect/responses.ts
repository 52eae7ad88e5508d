import type { ResponseRow, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Names a request: the key of its receipt, and of its response. */
export interface RequestKey {
  readonly consumer: string
  readonly messageKey: string
}

/** Statements on the responses to HTTP requests. Times are the database's. */
export interface ResponseStatements {
  /** Writes a response in the place of the one that is there, if any. */
  write(row: ResponseRow): readonly Statement[]
  /** The columns of a receipt; status, headers and body of its response, or null; and whether that has `expired`. */
  readonly read: Sql<[key: RequestKey]>
  /**
   * Locks responses that have expired and whose message neither the inbox nor the failed store has, the oldest first, without those that
   * are locked elsewhere: consumer, message_key.
   */
  readonly lockExpired: Sql<[limit: number]>
  /** The same for one; waits for it. */
  readonly lockOne: Sql<[key: RequestKey]>
  /** Deletes responses with their receipts and journals. */
  delete(keys: readonly RequestKey[]): readonly Statement[]
}
