// What handlers receive, and what they may say of an outside call.

import type { Logger } from '../base/index.ts'
import type { Message, MessageType, PublishOptions } from '../message/index.ts'

/** The result of `publish`. `duplicate`: every consumer had this id already (local delivery only). */
export interface Published {
  readonly id: string
  readonly duplicate?: true
}

/** Publishes a message that commits with the handler's transaction. */
export type PublishInHandler = <In>(
  type: MessageType<In, unknown>,
  data: In,
  options?: PublishOptions,
) => Promise<Published>

/**
 * What `hapax.publish` takes beside its first argument, which is a transaction, or the type of a message for the current one. Not
 * overloads, because for these the compiler reports only the last one, which may be the wrong one.
 */
export type PublishArguments<First, Data> =
  First extends MessageType<infer In, unknown>
    ? [data: In, options?: PublishOptions]
    : [type: MessageType<Data, unknown>, data: NoInfer<Data>, options?: PublishOptions]

/** What a handler receives beside the data. */
export interface HandlerContext<Tx> {
  /** The transaction that commits together with the receipt; dead once the handler has settled. */
  readonly tx: Tx
  readonly message: Message
  readonly publish: PublishInHandler
  /** Aborted when the handler runs out of time. */
  readonly signal: AbortSignal
  /** 1 for the first call. */
  readonly attempt: number
  /** Adds the consumer, the message (`about`) and the attempt to every line. Made when it is read, so that `{ ...ctx }` has none. */
  readonly logger: Logger
}

/** What a handler of many messages receives beside them. Its logger adds the consumer to every line. */
export type ManyContext<Tx> = Omit<HandlerContext<Tx>, 'message' | 'attempt'>

/** A message in a handler of many. */
export interface Item<Data> {
  readonly data: Data
  readonly message: Message
  /** Publishes because of this message, as `ctx.publish` of a handler of one does. */
  readonly publish: PublishInHandler
}

/** A handler of one message. */
export type Handler<Data, Tx> = (data: Data, ctx: HandlerContext<Tx>) => unknown
/** A handler of many messages. */
export type ManyHandler<Data, Tx> = (items: readonly Item<Data>[], ctx: ManyContext<Tx>) => unknown

/** What an `onFailed` hook receives beside the data and the error. */
export interface FailedContext<Tx> extends HandlerContext<Tx> {
  /** The transaction that writes the message to the failed store. */
  readonly tx: Tx
  /** How often the handler was called. */
  readonly attempt: number
  /** Why it is not tried again, as the failed store shows it: `attempts-exhausted`, `permanent`, `crash-loop`, … */
  readonly reason: string
}

/** What to do in the transaction that writes a message to the failed store. */
export type FailedHook<Data, Tx> = (data: Data, error: Error, ctx: FailedContext<Tx>) => unknown

/** What a leased handler receives beside the data. */
export interface LeasedContext<Tx> {
  readonly message: Message
  /** Aborted when the message has passed to another process, or the handler runs out of time. */
  readonly signal: AbortSignal
  /** 1 for the first call. */
  readonly attempt: number
  /** Grows each time that the message is taken, until a person retries it: a receiver that remembers it can refuse late ones. */
  readonly fence: number
  /** Adds the consumer, the message (`about`) and the attempt to every line. */
  readonly logger: Logger
  /**
   * Makes an outside call once: it is journalled, carries a key that never changes, and is not made again by a retry. Resolves with
   * the result as JSON has it, in every attempt; inside the call this context is not to be used.
   */
  effect<T>(name: string, call: EffectCall<T>, options?: EffectOptions<T>): Promise<T>
  /** What to do in the transaction that settles the message; several are done in turn. */
  complete(work: (tx: Tx) => unknown): void
  /** Publishes a message that commits with the settling. */
  readonly publish: PublishInHandler
  /** Records something for people to read. It is merged into the notes of earlier attempts. */
  note(fields: Readonly<Record<string, unknown>>): Promise<void>
}

/** What a leased handler receives on a store without transactions: nothing to complete, and nothing to publish with it. */
export type ClaimContext = Omit<LeasedContext<never>, 'complete' | 'publish'>

/** A handler that calls the outside world, on a store without transactions. */
export type ClaimHandler<Data> = (data: Data, ctx: ClaimContext) => unknown

/** A handler that calls the outside world. */
export type LeasedHandler<Data, Tx> = (data: Data, ctx: LeasedContext<Tx>) => unknown

/** What the provider says: the call happened, with this result; it did not happen; or unknown. */
export type Verified<T> = { readonly done: T } | 'not-done' | 'unknown'

/** Options of an effect. */
export interface EffectOptions<T> {
  /**
   * What to do when it is unknown whether the call happened. `hold` keeps the message for a person to decide. `retry-same-key` calls
   * again with the same key, for providers that honour it. A function asks the provider. @default 'hold'
   */
  readonly onUnknown?: 'hold' | 'retry-same-key' | ((key: string) => Verified<T> | Promise<Verified<T>>)
  /** Whether an error proves that the call did not happen. @default `classifyError` */
  readonly classify?: (error: unknown) => 'not-done' | 'unknown'
  /** How long the call may take; then its outcome is unknown. @default as long as the handler may */
  readonly timeoutMs?: number
}

/** Makes the outside call; `key` is the same in every attempt. */
export type EffectCall<T> = (key: string, signal: AbortSignal) => T | Promise<T>
