import { hash } from 'node:crypto'

/** A statement that a handler repeats, under the name by which the server knows its plan. */
export interface Named {
  readonly name: string
  readonly text: string
}

/**
 * Decides which statements are worth a name: those that come again. Texts that differ each time, with values written into
 * them, would fill the memory of every connection for nothing.
 */
export class PreparedNames {
  readonly #seen = new Map<string, number>()
  readonly #names = new Map<string, Named>()

  /** The name of a statement; undefined: send it without one. */
  of(text: string): Named | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= MOST) return known
    const times = (this.#seen.get(text) ?? 0) + 1
    if (times < WORTH_IT) {
      if (this.#seen.size >= MOST) this.#seen.clear()
      this.#seen.set(text, times)
      return undefined
    }
    this.#seen.delete(text)
    const named = { name: `hapax_${hash('sha256', text, 'hex').slice(0, 16)}`, text }
    this.#names.set(text, named)
    return named
  }
}

const WORTH_IT = 3
const MOST = 500

/** The plan does not fit the tables any more, or the server has forgotten it: a new connection has neither trouble. */
export function isStalePlan(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return code === '26000' || (code === '0A000' && /cached plan/.test(String(message)))
}
