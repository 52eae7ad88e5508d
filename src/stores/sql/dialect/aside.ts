import type { Row, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** A key of a consumer, or of a relay. */
export interface KeyRef {
  readonly scope: string
  readonly lane: number
  readonly key: string
}

/**
 * The statements that keep keys of the inbox, or of the outbox, which cannot run out of the way of a look. A row stands aside if it is
 * held, if it waits for its time (`waits`), or behind such a row; a row that others stand aside behind is `followed`.
 */
export interface AsideStatements {
  /**
   * Locks those of these rows that hold up their key for a while: held, or not due within a second, and neither leased nor locked.
   * Columns: seq, scope, lane, key.
   */
  readonly heads: Sql<[seqs: readonly string[]]>
  /** The rows behind these that do not stand aside, at most `limit` of each: head, seq. Plain reads. */
  behind(heads: readonly Row[], limit: number): readonly Statement[]
  /** Locks those of these rows that do not stand aside and are not locked elsewhere: seq. */
  readonly free: Sql<[seqs: readonly string[]]>
  /** Puts the first rows of keys aside. */
  readonly putHeads: Sql<[seqs: readonly string[], followed: boolean]>
  /** Puts rows aside that stand behind another. */
  readonly putBehind: Sql<[seqs: readonly string[]]>
  /** The first row of each key that stands aside behind another: seq. Plain reads. */
  next(keys: readonly KeyRef[]): readonly Statement[]
  /** Has rows looked at again. */
  readonly forward: Sql<[seqs: readonly string[]]>
  /** The same for the first row that stands aside behind each of these, which are about to be deleted. */
  readonly forwardBehind: Sql<[seqs: readonly string[]]>
}
