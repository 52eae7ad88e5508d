import type { AuditWhere, Origin, Statement, WaitingWhere } from '../../../contracts/index.ts'
import type { KeyRange } from '../../../message/index.ts'
import type { Sql } from './statement.ts'

/** How rows are found: all by their number, those of a key of one scope whose order counts, or those in a state of one scope. */
export type WaitingPath =
  | { readonly by: 'all' }
  | { readonly by: 'key'; readonly scope: string; readonly key: string }
  | { readonly by: 'held' | 'retrying'; readonly scope: string }

/**
 * Statements that list what waits in the inbox, or the outbox, the highest number first. Rows have seq, scope, source, id, type, key,
 * state, ordered, attempts, bytes, created_at, due_at, held_at, error, failures and history.
 */
export interface WaitingStatements {
  /**
   * scope: those with rows that are found in this way, by one probe each. Undefined: no index finds all rows in this state, or of a key in
   * all scopes. In the inbox, rows whose order does not count are in no index by key.
   */
  readonly scopes: Readonly<Record<'due', Statement> & Record<'key' | 'held' | 'retrying', Statement | undefined>>
  /** seq, created_at: of the last one of so many rows before a number. No row: there are fewer. */
  readonly floor: Sql<[path: WaitingPath, before: string, rows: number]>
  /** Rows from a number on and before another that fit. */
  readonly page: Sql<[path: WaitingPath, where: WaitingWhere, from: string, before: string, limit: number]>
  /** Rows of a range of keys of messages that fit, in no order. */
  readonly byId: Sql<[keys: KeyRange, where: WaitingWhere, limit: number]>
  /** Rows by their numbers that fit, in no order. */
  readonly numbered: Sql<[numbers: readonly string[], where: WaitingWhere]>
  /** seq: of rows that hold their key, in no order, where `scopes` has no way to them. */
  readonly held: Sql<[limit: number]> | undefined
  /** seq, due_at, attempts: of rows of a scope that may have failed and are due next, or the oldest of those that have failed. */
  readonly due: Sql<[scope: string, limit: number]>
  /** One row with its message. */
  readonly one: Sql<[seq: string]>
  /** One row without its message. */
  readonly place: Sql<[seq: string]>
  /** The first row of a key, if it comes before a number. */
  readonly first: Sql<[scope: string, key: string, before: string]>
  /** count: of the rows of a key before a number, up to a limit. */
  readonly count: Sql<[scope: string, key: string, before: string, limit: number]>
}

/** Statements that list the audit, the highest number first: seq, at, action, actor, note, origin, scope, source, id, type. */
export interface AuditedStatements {
  /** seq, created_at: as above. */
  readonly floor: Sql<[before: string, rows: number]>
  readonly page: Sql<[where: AuditWhere, from: string, before: string, limit: number]>
}

/** What waits by its origin, and the audit. */
export type WaitingLists = Readonly<Record<Origin, WaitingStatements>> & { readonly audited: AuditedStatements }
