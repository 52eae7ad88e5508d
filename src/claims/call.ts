// One call of a handler on a store that has only claims, and the context that the handler receives.

import { boundLogger, expected, type LimitedLogger, type Logger } from '../base/index.ts'
import { type Content, type Registered, ref } from '../consumer/index.ts'
import type { ClaimContext } from '../contracts/index.ts'
import { callLeased, closed, type EffectEngine, Effects, type HeldLease } from '../leased/index.ts'
import type { Message, StoredMessage } from '../message/index.ts'

/** What a call needs. */
export interface CallOptions {
  readonly engine: EffectEngine & { readonly logger: LimitedLogger }
  readonly consumer: string
  readonly message: StoredMessage
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly held: HeldLease
  readonly leaseMs: number
}

/** One call of a handler: makes its context, and its journal if the handler asks for one. */
export class Call {
  readonly #options: CallOptions
  #effects: Effects | undefined
  #open = true

  constructor(options: CallOptions) {
    this.#options = options
  }

  /** Resolves with what the handler returned, when it has left no effect undecided; rejects with what stands in the way of settling. */
  run(handler: Registered<never>): Promise<unknown> {
    const { message } = this.#options
    if (handler.kind !== 'claimed') expected(`handler of ${message.type}`, 'a handler of claims', handler.kind)
    return callLeased(handler, message, this.#context, this.#ended)
  }

  /** Gives up on whatever still runs: its result no longer matters. */
  close(): void {
    this.#open = false
    this.#effects?.leave()
  }

  readonly #context = ({ message }: Content): ClaimContext => {
    return new Context(message, this.#options, this.#journal)
  }

  /**
   * The handler has returned. After an earlier attempt (a fence above 1) the journal is always opened: that attempt may have left an
   * effect undecided that this one did not come across.
   */
  readonly #ended = (): Effects | undefined => {
    if (this.#options.held.fence > 1) this.#journal()
    this.#open = false
    return this.#effects
  }

  /** Made on first use, because many handlers make no outside call. Undefined once the call is over. */
  readonly #journal = (): Effects | undefined => {
    if (!this.#open) return undefined
    const { engine, consumer, message, held, leaseMs } = this.#options
    // Retries of a journal write end with the lease: after that, the message belongs to its next holder.
    this.#effects ??= new Effects({ engine, consumer, message, held, leaseMs, insistMs: leaseMs })
    return this.#effects
  }
}

/** What a handler receives; a class rather than a literal, because one is made for every call. */
class Context implements ClaimContext {
  readonly message: Message
  readonly attempt: number
  readonly fence: number
  readonly effect: ClaimContext['effect']
  readonly note: ClaimContext['note']
  readonly #options: CallOptions

  constructor(message: Message, options: CallOptions, journal: () => Effects | undefined) {
    this.message = message
    this.attempt = options.attempt
    this.fence = options.held.fence
    this.#options = options
    this.effect = (name, call, options) => journal()?.effect(name, call, options) ?? Promise.reject(closed())
    this.note = (fields) => journal()?.note(fields) ?? Promise.reject(closed())
  }

  get signal(): AbortSignal {
    return this.#options.held.signal
  }

  get logger(): Logger {
    const { engine, consumer, attempt } = this.#options
    return boundLogger(engine.logger.forHandlers, { consumer, about: ref(this.message), attempt })
  }
}
