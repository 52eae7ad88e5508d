import type { OutboxRow, Postponed, Refused, SentFilter, SentWhere, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on the outbox. */
export interface OutboxStatements {
  /** With a token of `enter`: what is written nowhere else affects no row. */
  insert(rows: readonly OutboxRow[], entered?: string): readonly Statement[]
  /** seq, relay, attempts and the message, in the order of seq. */
  readonly read: Sql<[seqs: readonly string[]]>
  /** seq of those that are there. */
  readonly left: Sql<[seqs: readonly string[]]>
  /** Locks those of these outbox rows that nobody has locked, and returns their seq and whether they are followed. */
  readonly lockFree: Sql<[seqs: readonly string[]]>
  readonly delete: Sql<[seqs: readonly string[]]>
  /**
   * As `deleteOutbox`, of rows that are not followed, outside a transaction; it may be forgotten by a server that crashes. Of rows that others have locked it deletes
   * nothing, or gives up soon.
   */
  readonly deleteConfirmed: Sql<[seqs: readonly string[]]>
  postpone(rows: readonly Postponed[]): readonly Statement[]
  readonly lock: Sql<[seq: string]>
  readonly hold: Sql<[row: Pick<Refused, 'seq' | 'error'>]>
}

/** Statements on relays. */
export interface RelayStatements {
  readonly record: Sql<[name: string, destination: string]>
  /** destination. */
  readonly get: Sql<[name: string]>
  readonly move: Sql<[name: string, destination: string]>
}

/** Statements on messages that were published and kept. */
export interface SentStatements {
  readonly copy: Sql<[seqs: readonly string[]]>
  /** seq, relay, sent_at and the message. */
  readonly list: Sql<[filter: SentFilter]>
  /** seq, oldest first. */
  readonly seqs: Sql<[where: SentWhere, after: string | undefined, limit: number]>
  /** seq, relay and the message. It stays where it is, so it need not be locked. */
  readonly get: Sql<[seq: string]>
  readonly delete: Sql<[seqs: readonly string[]]>
  /** Copies a sent row into the outbox, due at once. */
  readonly republish: Sql<[seq: string, lane: number]>
}
