import type { OutboxRow, Postponed, Refused, SentFilter, SentWhere, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on the outbox. */
export interface OutboxStatements {
  /** With a token of `enter`: what is written nowhere else affects no row. */
  insert(rows: readonly OutboxRow[], entered?: string): readonly Statement[]
  /** seq, attempts and the message, in the order of seq; if asked for, `age_ms`. */
  readonly read: Sql<[seqs: readonly string[], aged?: boolean]>
  /** seq of those that are there. */
  readonly left: Sql<[seqs: readonly string[]]>
  /** Locks those of these outbox rows that are not locked elsewhere, and returns their seq and whether they are followed. */
  readonly lockFree: Sql<[seqs: readonly string[]]>
  readonly delete: Sql<[seqs: readonly string[]]>
  /**
   * As `delete`, of rows that are not followed, outside a transaction. A server that crashes may forget it: the message is published
   * again then, which consumers recognise. Rows that are locked elsewhere are not deleted, or the statement gives up soon.
   */
  readonly deleteConfirmed: Sql<[seqs: readonly string[]]>
  /** Counts an attempt, and makes rows due later. */
  postpone(rows: readonly Postponed[]): readonly Statement[]
  readonly lock: Sql<[seq: string]>
  /** Marks an outbox row as held: it stays, and holds its key. */
  readonly hold: Sql<[row: Pick<Refused, 'seq' | 'error' | 'entry'>]>
}

/** Statements on relays. */
export interface RelayStatements {
  /** Does nothing if the relay is recorded already. */
  readonly record: Sql<[name: string, destination: string]>
  /** destination. */
  readonly get: Sql<[name: string]>
  /** Records another destination by hand, whatever is recorded. */
  readonly move: Sql<[name: string, destination: string]>
}

/** Statements on messages that were published and kept. */
export interface SentStatements {
  /** Copies outbox rows that the broker has confirmed, before they are deleted. */
  readonly copy: Sql<[seqs: readonly string[]]>
  /** seq, relay, sent_at and the message. */
  readonly list: Sql<[filter: SentFilter]>
  /** seq, oldest first. */
  readonly seqs: Sql<[where: SentWhere, after: string | undefined, limit: number]>
  /** As `FailedStatements.freeze`. */
  readonly freeze: Sql<[where: SentWhere, limit: number | null]>
  /** seq, relay and the message. It stays where it is, so it need not be locked. */
  readonly get: Sql<[seq: string]>
  readonly delete: Sql<[seqs: readonly string[]]>
  /** Copies a sent row into the outbox, due at once. */
  readonly republish: Sql<[seq: string, lane: number]>
}
