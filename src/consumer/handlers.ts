import {
  asError,
  expected,
  HapaxError,
  isHapaxError,
  messageOf,
  noOthers,
  object,
  type RetryPolicy,
} from '../base/index.ts'
import type {
  ClaimContext,
  HandlerContext,
  HandlerOptions,
  Item,
  LeasedContext,
  ManyContext,
} from '../contracts/index.ts'
import {
  decode,
  defineMessage,
  type Message,
  type MessageType,
  messageType,
  type StoredMessage,
  unpackAttributes,
} from '../message/index.ts'
import type { Hooks, RegisteredHook } from './on-failed.ts'
import { retryPolicy } from './options.ts'

/**
 * A handler as it was registered. `call` is declared as a method, because methods may narrow their parameters: so a handler of any
 * data fits. At run time it receives what the `parse` of its own type returned.
 */
export type Registered<Tx> = {
  readonly type: MessageType<never, unknown>
  /** Undefined: the policy of the consumer. */
  readonly retry: RetryPolicy | undefined
} & (OneHandler<Tx> | HandlerOfMany<Tx> | Leased<Tx> | Claimed)

/** Runs in the transaction of its message. */
export interface OneHandler<Tx> {
  readonly kind: 'one'
  call(data: unknown, context: HandlerContext<Tx>): unknown
}

/** Runs in the transaction of a group, with all messages of its type at once. */
export interface HandlerOfMany<Tx> {
  readonly kind: 'many'
  call(items: readonly Item<unknown>[], context: ManyContext<Tx>): unknown
}

/** Runs under a lease, with no transaction open. */
interface Leased<Tx> {
  readonly kind: 'leased'
  /** Its data is the payload as bytes, whatever the content type says. @default false */
  readonly raw?: boolean
  call(data: unknown, context: LeasedContext<Tx>): unknown
}

/** Runs under a claim, on a store without transactions. */
interface Claimed {
  readonly kind: 'claimed'
  call(data: unknown, context: ClaimContext): unknown
}

/** A message as its handler receives it: `data` is what the schema made of the payload. */
export interface Content {
  readonly message: Message
  readonly data: unknown
}

/** A message that fits its handler, ready to be called. */
export interface Job<Tx> {
  readonly stored: StoredMessage
  readonly handler: Registered<Tx>
  readonly attempt: number
  /** The decoded message. Decoded again for every call, because a handler that was rolled back may have changed it. */
  content(): Content | Promise<Content>
}

/** Decodes and checks a message for its handler; throws `invalid-payload`. */
export function prepareJob<Tx>(
  handler: Registered<Tx>,
  stored: StoredMessage,
  attempt: number,
): Job<Tx> | Promise<Job<Tx>> {
  const first = decodeFor(handler, stored)
  if (first instanceof Promise) return first.then((content) => new Decoded(handler, stored, attempt, content))
  return new Decoded(handler, stored, attempt, first)
}

class Decoded<Tx> implements Job<Tx> {
  readonly handler: Registered<Tx>
  readonly stored: StoredMessage
  readonly attempt: number
  /** For the first call. */
  #unused: Content | undefined

  constructor(handler: Registered<Tx>, stored: StoredMessage, attempt: number, unused: Content) {
    this.handler = handler
    this.stored = stored
    this.attempt = attempt
    this.#unused = unused
  }

  content(): Content | Promise<Content> {
    const content = this.#unused ?? decodeFor(this.handler, this.stored)
    this.#unused = undefined
    return content
  }
}

/** Decodes and checks a message for one call of its handler; throws `invalid-payload`. */
export function decodeFor(
  handler: Pick<Registered<never>, 'type'> & { readonly raw?: boolean },
  stored: StoredMessage,
): Content | Promise<Content> {
  const attributes = unpackAttributes(stored)
  if (handler.raw === true) return { message: { ...attributes, data: stored.data }, data: stored.data }
  const value = decode(stored, attributes.datacontenttype)
  const message: Message = { ...attributes, data: value }
  try {
    const data = handler.type.parse(value)
    if (!(data instanceof Promise)) return { message, data }
    return data.then(
      (awaited) => ({ message, data: awaited }),
      (error: unknown) => refuse(stored, error),
    )
  } catch (error) {
    return refuse(stored, error)
  }
}

/** A schema may throw anything; to callers it is always `invalid-payload`, after which a retry is pointless. */
function refuse({ type }: StoredMessage, error: unknown): never {
  if (isHapaxError(error, 'invalid-payload')) throw error
  throw new HapaxError('invalid-payload', `the schema of ${type} threw: ${messageOf(asError(error))}`, { cause: error })
}

/** Splits a group that failed. Handlers of many get halves, which find the culprit in few calls; others get single messages. */
export function smaller<J extends { readonly handler: { readonly kind: Registered<never>['kind'] } }>(
  jobs: readonly J[],
): readonly (readonly J[])[] {
  const middle = Math.ceil(jobs.length / 2)
  const halves = jobs.some((job) => job.handler.kind === 'many')
  return halves ? [jobs.slice(0, middle), jobs.slice(middle)] : jobs.map((job) => [job])
}

/** Stands for all types that no process of the consumer handles by name. Cannot clash: no message has an empty type. */
export const OTHERS = ''

/** The handler of the option `unknown`, if it is a function. */
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

/** The handlers and hooks of a consumer, by type. They are fixed once a worker has started. */
export class Registry<Tx> implements Hooks<Tx> {
  readonly #consumer: string
  readonly #retry: RetryPolicy
  readonly #handlers = new Map<string, Registered<Tx>>()
  readonly #hooks = new Map<string, RegisteredHook<Tx>>()
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

  /** What a worker serves: the types, and `OTHERS` if there is a handler for all others. */
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

  /** The retry policy of a handler. Options that it leaves out come from the consumer. */
  retry(options: HandlerOptions): RetryPolicy | undefined {
    noOthers('options of on', options, ['retry'])
    const { retry } = options
    if (retry === undefined) return undefined
    object('retry', retry)
    return retryPolicy({ ...this.#retry, ...retry })
  }

  /** Adds a handler; throws if its type has one, or if a worker has started. */
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

  /** Adds the `onFailed` hook of a type; its handler has to be registered first. */
  addHook({ type }: MessageType<never, unknown>, hook: RegisteredHook<Tx>): void {
    if (typeof hook.call !== 'function') expected(`onFailed of ${type}`, 'a function', hook.call)
    this.#refuseLate(type)
    if (!this.#handlers.has(type)) expected(`onFailed of ${type}`, 'registered after the handler of that type', 'none')
    if (this.#hooks.has(type)) {
      const what = `expected one onFailed of ${type} in consumer ${this.#consumer}, got a second one`
      throw new HapaxError('duplicate-handler', what)
    }
    this.#hooks.set(type, hook)
  }

  hookOf(type: string): RegisteredHook<Tx> | undefined {
    return this.#hooks.get(type)
  }

  /** A running worker has told the others which types it serves, and would not notice a new one. */
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

  /** No handler may be added from now on. A consumer without any is refused: its messages would wait for ever. */
  start(): void {
    if (this.served.length === 0) expected(`consumer ${this.#consumer}`, 'a consumer with at least one handler', 'none')
    this.#started = true
  }
}
