/**
 * Which connections of a pool were opened before doubt arose that they lead to the right server. The address of a database may lead
 * to another server after a fail-over, while the old one still lives: connections to it go on, read what is old, and may write what
 * nobody will see. So one connection whose server does not answer, or takes no writes any more, discredits those beside it.
 */
export class Era {
  readonly #opened = new WeakMap<object, number>()
  readonly #ended: () => void
  #current = 0

  /** `ended` is called when doubt has arisen. */
  constructor(ended: () => void = () => {}) {
    this.#ended = ended
  }

  /** Whether a connection that the pool hands out may be used; otherwise it is to be closed, and another one taken. */
  trusts(client: object): boolean {
    const opened = this.#opened.get(client)
    if (opened === undefined) this.#opened.set(client, this.#current)
    if (opened === undefined || opened === this.#current) return true
    // A pool with one connection that it cannot replace hands it out again: it would be refused for ever.
    this.#opened.delete(client)
    return false
  }

  /** Something on this connection gave reason to doubt. What was opened since is not concerned. */
  doubt(client: object): void {
    if (this.#opened.get(client) !== this.#current) return
    this.#current += 1
    this.#ended()
  }
}
