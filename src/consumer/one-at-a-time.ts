import { AsyncLocalStorage } from 'node:async_hooks'
import { HapaxError } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'

/** A call that works on messages of a consumer. */
class Working {
  readonly consumer: string
  readonly messages: readonly StoredMessage[]
  readonly parent: Working | undefined
  /** A timer that the call left behind still has this context, but is no longer inside it. */
  ended = false
  #done: PromiseWithResolvers<void> | undefined

  constructor(consumer: string, messages: readonly StoredMessage[], parent: Working | undefined) {
    this.consumer = consumer
    this.messages = messages
    this.parent = parent
  }

  /** Resolves when the call has ended. */
  get done(): Promise<void> {
    this.#done ??= Promise.withResolvers()
    return this.#done.promise
  }

  end(): void {
    this.ended = true
    this.#done?.resolve()
  }
}

/** Follows a handler through its calls, to detect one that would wait for itself. */
const working: AsyncLocalStorage<Working> = new AsyncLocalStorage()

/**
 * Lets one call at a time work on a message of a consumer in this process. Copies of a message often arrive together; without this, each
 * would keep a database connection waiting for the lock of the first. Calls that wait hold no message, so that they cannot deadlock.
 */
export class Turns {
  readonly #consumer: string
  readonly #held = new Map<string, Working>()

  constructor(consumer: string) {
    this.#consumer = consumer
  }

  /** Throws `reentrant` if a handler passes its own message to its own consumer: it would wait for itself. */
  refuseNested(messages: readonly { readonly stored: StoredMessage }[]): void {
    for (let held = working.getStore(); held !== undefined; held = held.parent) {
      if (held.ended || held.consumer !== this.#consumer) continue
      const keys = new Set(held.messages.map((message) => message.messageKey))
      if (!messages.some(({ stored }) => keys.has(stored.messageKey))) continue
      throw new HapaxError(
        'reentrant',
        `a handler of ${this.#consumer} handed its own message to ${this.#consumer} and would wait for itself`,
      )
    }
  }

  /** Whether another call in this process works on the message. */
  isHeld({ messageKey }: StoredMessage): boolean {
    return this.#held.has(messageKey)
  }

  /** Runs `work` when no other call works on any of these messages. */
  async run<T>(messages: readonly StoredMessage[], work: () => Promise<T>): Promise<T> {
    // All of them are taken in one step, or none: a call that held some of them while it waits could deadlock with another.
    for (let other = this.#first(messages); other !== undefined; other = this.#first(messages)) await other.done
    const held = new Working(this.#consumer, messages, working.getStore())
    for (const { messageKey } of messages) this.#held.set(messageKey, held)
    try {
      return await working.run(held, work)
    } finally {
      for (const { messageKey } of messages) this.#held.delete(messageKey)
      held.end()
    }
  }

  #first(messages: readonly StoredMessage[]): Working | undefined {
    if (this.#held.size === 0) return undefined
    for (const { messageKey } of messages) {
      const held = this.#held.get(messageKey)
      if (held !== undefined) return held
    }
    return undefined
  }
}
