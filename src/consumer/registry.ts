import type { RetryPolicy } from '../base/index.ts'
import { expected, HapaxError, noOthers, object } from '../base/index.ts'
import type { FailedHook, HandlerOptions } from '../contracts/index.ts'
import { defineMessage, type MessageType, messageType } from '../message/index.ts'
import type { Registered } from './handlers.ts'
import type { Hooks } from './on-failed.ts'
import { retryPolicy } from './options.ts'

/** Stands for every type that no process of a consumer has a handler for by name. No message has an empty type. */
export const OTHERS = ''

/** What the option `unknown` registers: a handler of every type, or nothing. */
export function unknownHandler<Call extends (...args: never[]) => unknown, Tx>(
  unknown: 'fail' | 'ignore' | Call | undefined,
  register: (handler: typeof ANY_TYPE & { readonly call: Call }) => Registered<Tx>,
): Registered<Tx> | undefined {
  if (typeof unknown === 'function') return register({ ...ANY_TYPE, call: unknown })
  if (unknown !== undefined && unknown !== 'fail' && unknown !== 'ignore') {
    expected('unknown', `'fail', 'ignore' or a function`, unknown)
  }
  return undefined
}

const ANY_TYPE: { readonly type: MessageType<never>; readonly retry: undefined } = {
  type: defineMessage<never>('*'),
  retry: undefined,
}

/** The handlers of a consumer, by type. */
export class Registry<Tx> implements Hooks<Tx> {
  readonly #consumer: string
  readonly #retry: RetryPolicy
  readonly #handlers = new Map<string, Registered<Tx>>()
  readonly #hooks = new Map<string, FailedHook<never, Tx>>()
  readonly #unknown: Registered<Tx> | undefined
  #started = false

  /** `unknown` handles the types that no other handler is registered for. */
  constructor(consumer: string, retry: RetryPolicy, unknown?: Registered<Tx>) {
    this.#consumer = consumer
    this.#retry = retry
    this.#unknown = unknown
  }

  get handlers(): ReadonlyMap<string, Registered<Tx>> {
    return this.#handlers
  }

  get types(): readonly string[] {
    return [...this.#handlers.keys()]
  }

  /** What a worker serves: the types, and `OTHERS` if there is a handler for the types that are not among them. */
  get served(): readonly string[] {
    return this.#unknown === undefined ? this.types : [...this.types, OTHERS]
  }

  /** The handler of types that no other handler is registered for. */
  get unknown(): Registered<Tx> | undefined {
    return this.#unknown
  }

  /** The handler of a message; throws `unknown-type`. */
  handlerOf(type: string): Registered<Tx> {
    const handler = this.#handlers.get(type) ?? this.#unknown
    if (handler === undefined) throw this.unknownType(type)
    return handler
  }

  /** The error of a message without a handler. */
  unknownType(type: string): HapaxError {
    const known = this.types.join(', ') || 'none'
    return new HapaxError('unknown-type', `expected a type that ${this.#consumer} handles (${known}), got ${type}`)
  }

  /** How messages of a type are tried again. */
  retryOf(type: string): RetryPolicy {
    return this.#handlers.get(type)?.retry ?? this.#retry
  }

  /** The policy of a handler; it takes what it leaves out from the consumer's. */
  retry(options: HandlerOptions): RetryPolicy | undefined {
    noOthers('options of on', options, ['retry'])
    const { retry } = options
    if (retry === undefined) return undefined
    object('retry', retry)
    return retryPolicy({ ...this.#retry, ...retry })
  }

  add(handler: Registered<Tx>): void {
    const { type } = messageType(handler.type)
    if (typeof handler.call !== 'function') expected(`handler of ${type}`, 'a function', handler.call)
    this.#refuseLate(type)
    if (this.#handlers.has(type)) {
      throw new HapaxError(
        'duplicate-handler',
        `expected one handler of ${type} in consumer ${this.#consumer}, got a second one`,
      )
    }
    this.#handlers.set(type, handler)
  }

  /** Adds what to do when a message of this type has failed for good. */
  addHook({ type }: MessageType<never, unknown>, hook: FailedHook<never, Tx>): void {
    if (typeof hook !== 'function') expected(`onFailed of ${type}`, 'a function', hook)
    this.#refuseLate(type)
    if (!this.#handlers.has(type)) expected(`onFailed of ${type}`, 'registered after the handler of that type', 'none')
    if (this.#hooks.has(type)) {
      const what = `expected one onFailed of ${type} in consumer ${this.#consumer}, got a second one`
      throw new HapaxError('duplicate-handler', what)
    }
    this.#hooks.set(type, hook)
  }

  hookOf(type: string): FailedHook<never, Tx> | undefined {
    return this.#hooks.get(type)
  }

  #refuseLate(type: string): void {
    if (!this.#started) return
    throw new HapaxError(
      'already-started',
      `expected handlers of ${this.#consumer} to be registered before its worker starts, got ${type} afterwards`,
    )
  }

  /** Whether a worker of this process has started with these handlers. */
  get started(): boolean {
    return this.#started
  }

  /** From now on no handler may be added. */
  start(): void {
    if (this.served.length === 0) expected(`consumer ${this.#consumer}`, 'a consumer with at least one handler', 'none')
    this.#started = true
  }
}
