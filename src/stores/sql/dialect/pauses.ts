import type { Audit, Origin, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on consumers and relays that a person has paused. */
export interface PauseStatements {
  /** origin, scope, actor, note, at; by origin and scope. */
  readonly list: Statement
  /** Locks one, and returns the same columns. */
  readonly lock: Sql<[origin: Origin, scope: string]>
  /** Fails if it is paused. */
  readonly insert: Sql<[origin: Origin, scope: string, audit: Audit]>
  readonly delete: Sql<[origin: Origin, scope: string]>
}
