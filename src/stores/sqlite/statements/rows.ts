import { markOf, numberOf } from '../../../message/index.ts'

/** The numbers and the marks of rows: two lists. */
export function named(seqs: readonly string[]): readonly [string, string] {
  return [JSON.stringify(seqs.map(numberOf)), JSON.stringify(seqs.map(markOf))]
}

/** The number and the mark of one row. */
export function one(seq: string): readonly [string, string] {
  return [numberOf(seq), markOf(seq)]
}
