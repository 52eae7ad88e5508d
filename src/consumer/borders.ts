import type { Reach } from '../contracts/index.ts'
import { OUT_OF_TURN, type Scope } from '../transaction/index.ts'

/**
 * Handlers known to send statements that cannot be observed, for example through the client of their transaction. A handler whose statements
 * are all observed can only roll back to its own savepoints: the border after each earlier message released the others.
 */
const hidden = new WeakSet<object>()

/**
 * Isolates the messages of a group, which share one transaction: a savepoint left open by one handler no longer exists for the next one
 * (`Unit.border`). Handlers that name no savepoint need no border.
 */
export class Borders {
  readonly #set: () => Promise<void>
  /** Whether a handler has ended since the last border. */
  #behind = false
  #due = false

  constructor({ border }: Pick<Scope<never>, 'border'>) {
    this.#set = border
  }

  /** Whether a border has to be set before this handler is called. */
  isDue(handler: object): boolean {
    return this.#due || (this.#behind && hidden.has(handler))
  }

  /** The same, whatever handlers do that have not ended yet. */
  mayBeDue(handler: object): boolean {
    return this.#due || hidden.has(handler)
  }

  async set(): Promise<void> {
    this.#behind = false
    this.#due = false
    await this.#set()
  }

  /** Records that a handler sends statements that cannot be observed. */
  hides(handler: object): void {
    hidden.add(handler)
  }

  /**
   * A handler has ended. Throws if it may have affected other messages: the group reruns with a border before this handler, or its messages
   * run one by one.
   */
  ended(handler: object, reach: Reach): void {
    if (reach === 'guard') throw new Error(`a handler used the savepoint name of hapax in a group`)
    if (reach === 'unseen' && this.#behind) {
      this.hides(handler)
      throw OUT_OF_TURN
    }
    this.#behind = true
    this.#due ||= reach !== 'none'
  }
}
