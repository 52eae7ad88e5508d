import type { Reach } from '../../../contracts/index.ts'

const ORDER: readonly Reach[] = ['none', 'savepoints', 'unseen', 'guard']

/** The farther of two reaches. */
export function farther(one: Reach, other: Reach): Reach {
  return ORDER.indexOf(one) > ORDER.indexOf(other) ? one : other
}

/** The possible reach of a statement, by keywords anywhere in its text, so that neither comments nor further statements hide them. */
export function reachOf(text: unknown, words: RegExp): Reach {
  if (typeof text !== 'string') return 'unseen'
  if (!words.test(text)) return 'none'
  if (GUARD_NAME.test(text.normalize('NFD').replace(/\p{M}/gu, ''))) return 'guard'
  return HIDING.test(text) ? 'unseen' : 'savepoints'
}

/** Keywords that set, release or roll back to savepoints, or roll back everything: later handlers would run outside a transaction. */
export const SAVEPOINTS: RegExp = /\b(?:savepoint|release|rollback|abort)\b/i
/** Includes procedures and prepared texts, which may do the same; the digits are for `/*!50000savepoint a*\/`. */
export const MYSQL_SAVEPOINTS: RegExp = /(?:\b|\d)(?:savepoint|release|rollback|call|execute)\b/i
/** MySQL takes letters with accents for those without. With `U&` in front, PostgreSQL takes a name with escapes. */
const GUARD_NAME = /hapax|u&"/i
const HIDING = /(?:\b|\d)(?:call|execute)\b/i

/** Accumulates the reach of handlers. */
export class Reaching {
  #reach: Reach = 'none'

  get reach(): Reach {
    return this.#reach
  }

  add(reach: Reach): void {
    if (reach !== 'none') this.#reach = farther(this.#reach, reach)
  }

  take(): Reach {
    const reach = this.#reach
    this.#reach = 'none'
    return reach
  }
}
