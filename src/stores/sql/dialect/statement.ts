import type { Param, Result, Statement } from '../../../contracts/index.ts'

/** A statement for an input: its text is always the same, or differs with the number of its values. */
export type Sql<Input extends readonly unknown[]> = (...input: Input) => Statement

/** Runs one statement outside a transaction. */
export type Query = (statement: Statement) => Promise<Result>

/** A text, and how its values are made of an input. */
export function statement<Input extends readonly unknown[]>(
  text: string,
  params: (...input: Input) => readonly Param[],
): Sql<Input> {
  return (...input) => ({ text, params: params(...input) })
}

/** The same for a statement that is worth preparing. */
export function prepared<Input extends readonly unknown[]>(
  text: string,
  params: (...input: Input) => readonly Param[],
): Sql<Input> {
  return (...input) => ({ text, params: params(...input), prepare: true })
}

/** A statement of a transaction's own, such as a savepoint. */
export function command(text: string): Statement {
  return { text, params: NO_PARAMS, prepare: true }
}

/** A statement without values. */
export function plain(text: string): Statement {
  return { text, params: NO_PARAMS }
}

const NO_PARAMS: readonly [] = []
