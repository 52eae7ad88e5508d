import { AsyncLocalStorage } from 'node:async_hooks'
import { HapaxError } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'

/** Messages that an outer call is working on. */
interface Working {
  readonly consumer: string
  readonly messages: readonly StoredMessage[]
  readonly parent: Working | undefined
  /** The outer call has ended. A timer that it left behind still has this context, but is no longer inside it. */
  ended: boolean
}

/** Follows a handler through its calls, to detect one that would wait for itself. */
const working: AsyncLocalStorage<Working> = new AsyncLocalStorage()

/**
 * Lets one call at a time work on a message of a consumer in this process. Copies of a message often arrive together; without this, each
 * would keep a database connection waiting for the lock of the first.
 */
export class Turns {
  readonly #consumer: string
  readonly #flight = new SingleFlight()

  constructor(consumer: string) {
    this.#consumer = consumer
  }

  /** Throws `reentrant` if a handler passes its own message to its own consumer: it would wait for itself. */
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

  /** Whether another call in this process works on the message. */
  isHeld({ messageKey }: StoredMessage): boolean {
    return this.#flight.holds(messageKey)
  }

  /** Runs `work` when no other call works on any of these messages. */
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

/** Lets one caller at a time work on a key. Callers that wait hold no key, so that they cannot deadlock. */
class SingleFlight {
  readonly #held = new Map<string, Promise<void>>()

  /** Whether a caller holds this key. */
  holds(key: string): boolean {
    return this.#held.has(key)
  }

  /** Runs with all keys held. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    let release: () => void = () => {}
    const done = new Promise<void>((resolve) => {
      release = resolve
    })
    // All keys are taken in one step, or none: a caller that held some of them while it waits could deadlock with another.
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
