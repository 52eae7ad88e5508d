import { AsyncLocalStorage } from 'node:async_hooks'
import { HapaxError } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'

/** Messages that a caller up the stack is working on. */
interface Working {
  readonly consumer: string
  readonly messages: readonly StoredMessage[]
  readonly parent: Working | undefined
  /** What the caller left behind, such as a timer, is not inside it any more. */
  ended: boolean
}

/** To notice a handler that would wait for itself. */
const working: AsyncLocalStorage<Working> = new AsyncLocalStorage()

/** Lets one caller at a time work on a message of a consumer. */
export class Turns {
  readonly #consumer: string
  readonly #flight = new SingleFlight()

  constructor(consumer: string) {
    this.#consumer = consumer
  }

  /** A handler that hands its own message to its own consumer would wait for itself. */
  refuseNested(messages: readonly StoredMessage[]): void {
    for (let held = working.getStore(); held !== undefined; held = held.parent) {
      if (held.ended || held.consumer !== this.#consumer) continue
      const keys = new Set(held.messages.map((message) => message.messageKey))
      if (!messages.some(({ messageKey }) => keys.has(messageKey))) continue
      throw new HapaxError(
        'reentrant',
        `a handler of ${this.#consumer} handed its own message to ${this.#consumer} and would wait for itself`,
      )
    }
  }

  /** Whether somebody in this process works on it. */
  isHeld({ messageKey }: StoredMessage): boolean {
    return this.#flight.holds(messageKey)
  }

  /** One caller at a time per message, and a note for handlers that would wait for themselves. */
  run<T>(messages: readonly StoredMessage[], work: () => Promise<T>): Promise<T> {
    const keys = messages.map((message) => message.messageKey)
    const held = { consumer: this.#consumer, messages, parent: working.getStore(), ended: false }
    return this.#flight
      .run(keys, () => working.run(held, work))
      .finally(() => {
        held.ended = true
      })
  }
}

/** Lets one caller at a time work on a key; others wait without holding anything. */
class SingleFlight {
  readonly #held = new Map<string, Promise<void>>()

  /** Whether somebody works on a key. */
  holds(key: string): boolean {
    return this.#held.has(key)
  }

  /** Runs with all keys held. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    let release: () => void = () => {}
    const done = new Promise<void>((resolve) => {
      release = resolve
    })
    // All at once or none: a caller that holds keys never waits for others.
    for (let held = this.#first(keys); held !== undefined; held = this.#first(keys)) await held
    for (const key of keys) this.#held.set(key, done)
    try {
      return await work()
    } finally {
      for (const key of keys) this.#held.delete(key)
      release()
    }
  }

  #first(keys: readonly string[]): Promise<void> | undefined {
    if (this.#held.size === 0) return undefined
    for (const key of keys) {
      const held = this.#held.get(key)
      if (held !== undefined) return held
    }
    return undefined
  }
}
