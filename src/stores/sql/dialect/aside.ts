import type { Origin, Row, Statement } from '../../../contracts/index.ts'

/** A key of a consumer, or of a relay. */
export interface KeyRef {
  readonly scope: string
  readonly lane: number
  readonly key: string
}

/**
 * The statements that keep keys which cannot run out of the way of a look. A row stands aside if it is held, if it waits for its
 * time (`waits`), or behind such a row; a row that others stand aside behind is `followed`.
 */
export interface AsideDialect {
  /**
   * Locks those of these rows that hold up their key for a while: held, or not due within a second, and neither leased nor locked.
   * Columns: seq, scope, lane, key.
   */
  heads(table: Origin, seqs: readonly string[]): Statement
  /** The rows behind these that do not stand aside, at most `limit` of each: head, seq. Plain reads. */
  behind(table: Origin, heads: readonly Row[], limit: number): readonly Statement[]
  /** Locks those of these rows that do not stand aside and that nobody has locked: seq. */
  free(table: Origin, seqs: readonly string[]): Statement
  /** Puts the first rows of keys aside. */
  putHeads(table: Origin, seqs: readonly string[], followed: boolean): Statement
  /** Puts rows aside that stand behind another. */
  putBehind(table: Origin, seqs: readonly string[]): Statement
  /** The first row of each key that stands aside behind another: seq. Plain reads. */
  next(table: Origin, keys: readonly KeyRef[]): readonly Statement[]
  /** Has rows looked at again. */
  forward(table: Origin, seqs: readonly string[]): Statement
  /** The same for the first row that stands aside behind each of these, which are about to be deleted. */
  forwardBehind(table: Origin, seqs: readonly string[]): Statement
}
