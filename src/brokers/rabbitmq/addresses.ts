import { systemRandom } from '../../base/index.ts'
import { type AmqpConnection, dial } from './client.ts'
import { serverClose } from './errors.ts'

/** The addresses of one server, or of the nodes of a cluster. */
export class Addresses {
  readonly #urls: readonly string[]
  readonly #timeoutMs: number
  /** Any first: processes with the same list should not all choose the same node. */
  #next: number

  constructor(urls: readonly string[], timeoutMs: number) {
    this.#urls = urls
    this.#timeoutMs = timeoutMs
    this.#next = Math.floor(systemRandom.number() * urls.length)
  }

  /** Tries them in turn, beginning with the one after the last, until one accepts: all of them within the timeout. */
  async dial(name: string): Promise<AmqpConnection> {
    const errors: unknown[] = []
    for (const url of this.#turn()) {
      try {
        return await dial(url, Math.ceil(this.#timeoutMs / this.#urls.length), name)
      } catch (error) {
        errors.push(error)
      }
    }
    // What a server says about a password or a virtual host is more than that others are away.
    throw errors.length === 1 ? errors[0] : (errors.find(serverClose) ?? new AggregateError(errors))
  }

  *#turn(): Generator<string> {
    for (let tried = 0; tried < this.#urls.length; tried++) {
      const index = this.#next
      this.#next = (index + 1) % this.#urls.length
      yield this.#urls[index] as string
    }
  }
}
