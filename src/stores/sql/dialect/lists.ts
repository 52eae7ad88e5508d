import type { Statement } from '../../../contracts/index.ts'

/** A row by its key: a page begins behind it. */
export interface KeyPosition {
  readonly consumer: string
  readonly messageKey: string
  readonly name: string
}

/** Pages of tables that are read by their key alone, the highest first. */
export interface ListStatements {
  /** message_key, source, id, type, taken_at. */
  receipts(behind: KeyPosition, limit: number): Statement
  /** message_key, name, state, attempts, error, first_at, last_at, and source, id and type of its receipt, or null. */
  effects(behind: KeyPosition, limit: number): Statement
}
