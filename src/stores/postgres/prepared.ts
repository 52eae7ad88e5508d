import { hash } from 'node:crypto'
import { fieldsOf, Repeated } from '../sql/index.ts'

/** A statement that a handler repeats, under the name by which the server knows its plan. */
export interface Named {
  readonly name: string
  readonly text: string
}

/**
 * Decides which statements are worth a name: those that come again. Others would fill the memory of every connection for
 * nothing.
 */
export class PreparedNames {
  readonly #repeated = new Repeated(MOST)
  readonly #names = new Map<string, Named>()

  /** The name of a statement; undefined: send it without one. */
  of(text: string): Named | undefined {
    if (!this.#repeated.has(text)) return undefined
    const named = this.#names.get(text) ?? { name: `hapax_${hash('sha256', text, 'hex').slice(0, 16)}`, text }
    this.#names.set(text, named)
    return named
  }
}

/** Names at most: each costs memory on every connection. */
const MOST = 500

/** The plan does not fit the tables any more, or the server has forgotten it: a new connection has neither trouble. */
export function isStalePlan(error: unknown): boolean {
  const { code, message }: { code?: unknown; message?: unknown } = fieldsOf(error)
  return code === '26000' || (code === '0A000' && /cached plan/.test(String(message)))
}
