import { Turns } from '../consumer/index.ts'
import type { StoredResponse } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'

/** A request that has a response. */
export interface Settled {
  readonly fingerprint: string
  readonly response: StoredResponse
}

/** How a flight ended: with a response, because another process has the request, or in any other way. */
export type Landed = Settled | 'busy' | 'free'

/** A request that this process is working on, as seen by another one with its key. */
export interface Flight {
  /** Resolves when its handler begins, or when it has ended: before that, nobody knows whether it is a repetition itself. */
  readonly known: Promise<void>
  /** Resolves when it has ended. */
  readonly done: Promise<Landed>
  /** Undefined: it has not ended. */
  readonly landed: Landed | undefined
}

/**
 * Lets one request at a time work under a key in this process. Clients send copies together; without this, each would take a database
 * connection to wait for the first.
 */
export class Gate {
  readonly #flights = new Map<string, Flight>()
  readonly #turns: Turns

  constructor(scope: string) {
    this.#turns = new Turns(`hapax.http('${scope}')`)
  }

  /** Throws `reentrant` if a handler sends its own request to itself. */
  refuseNested(message: StoredMessage): void {
    this.#turns.refuseNested([{ stored: message }])
  }

  /** The request that works under this key. */
  flight({ messageKey }: StoredMessage): Flight | undefined {
    return this.#flights.get(messageKey)
  }

  /** Works under a key that is free; `begins` is to be called when the handler is. */
  async run<T>(
    message: StoredMessage,
    work: (begins: () => void) => Promise<T>,
    landedOf: (result: T) => Landed,
  ): Promise<T> {
    const { messageKey } = message
    const flight = new Running()
    this.#flights.set(messageKey, flight)
    let landed: Landed = 'free'
    try {
      const result = await this.#turns.run([message], () => work(() => flight.begin()))
      landed = landedOf(result)
      return result
    } finally {
      this.#flights.delete(messageKey)
      flight.land(landed)
    }
  }
}

class Running implements Flight {
  readonly #known = Promise.withResolvers<void>()
  readonly #done = Promise.withResolvers<Landed>()
  landed: Landed | undefined

  get known(): Promise<void> {
    return this.#known.promise
  }

  get done(): Promise<Landed> {
    return this.#done.promise
  }

  begin(): void {
    this.#known.resolve()
  }

  land(landed: Landed): void {
    this.landed = landed
    this.#known.resolve()
    this.#done.resolve(landed)
  }
}
