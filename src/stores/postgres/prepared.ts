import { hash } from 'node:crypto'
import { fieldsOf, Repeated } from '../sql/index.ts'
import { isDirect } from './encoding.ts'

/**
 * The names under which the servers of one pool keep plans: on direct connections, and behind a pooler if the user says that it knows
 * them. If it does not, there are no names any more, and every statement is parsed each time.
 */
export class PreparedNames {
  readonly #onGivenUp: () => void
  readonly #everywhere: boolean
  readonly #repeated = new Repeated(MOST)
  readonly #names = new Map<string, string>()
  #enabled: boolean
  #refusals = 0

  /** `prepare`: also behind a pooler, never, or only on direct connections. */
  constructor(prepare: boolean | undefined, onGivenUp: () => void = () => {}) {
    this.#enabled = prepare !== false
    this.#everywhere = prepare === true
    this.#onGivenUp = onGivenUp
  }

  /** The name of a statement of hapax's own; empty: send it without one. */
  of(client: object, text: string): string {
    return this.#isFor(client) ? this.#nameOf(text) : ''
  }

  /** The same for a handler's statement. Only those that come again are worth a name: each costs memory on every connection. */
  ofRepeated(client: object, text: string): string {
    return this.#isFor(client) && this.#repeated.has(text) ? this.#nameOf(text) : ''
  }

  #isFor(client: object): boolean {
    return this.#enabled && (this.#everywhere || isDirect(client))
  }

  /** Whether an error says that the server has lost a name, or has it from another client. Takes note of that. */
  isRefusal(error: unknown): boolean {
    if (!isRefusedName(error)) return false
    this.#refusals += 1
    if (this.#enabled && this.#refusals >= ENOUGH) {
      this.#enabled = false
      this.#onGivenUp()
    }
    return true
  }

  /** Equal names are equal texts, whoever made them. */
  #nameOf(text: string): string {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    const name = `hapax_${hash('sha256', text, 'hex').slice(0, 32)}`
    this.#names.set(text, name)
    return name
  }
}

/** Statements of handlers that get a name. */
const MOST = 500

/** Someone may have discarded the plans of one connection; if it happens again and again, it is a pooler. */
const ENOUGH = 3

/** A new connection has neither trouble: the server does not know the name, or has it already. */
function isRefusedName(error: unknown): boolean {
  const { code }: { code?: unknown } = fieldsOf(error)
  return code === '26000' || code === '42P05'
}

/** The plan does not fit the tables any more, or the server has forgotten it: another connection has no such trouble. */
export function isStalePlan(error: unknown): boolean {
  const { code, message }: { code?: unknown; message?: unknown } = fieldsOf(error)
  return isRefusedName(error) || (code === '0A000' && /cached plan/.test(String(message)))
}
