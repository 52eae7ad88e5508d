import { HapaxError } from '../base/index.ts'
import type { HandlerContext, HandlerOptions, Item, LeasedContext, ManyContext } from '../contracts/index.ts'
import { type MessageType, messageType } from '../message/index.ts'
import { DEFAULT_NAME } from './tokens.ts'

/** Options of `@OnMessage` and its sisters. */
export interface OnMessageOptions extends HandlerOptions {
  /** The name of the consumer. It scopes deduplication: keep it for as long as the consumer lives. */
  readonly consumer: string
  /** The name of the `HapaxModule` whose hapax takes the messages. @default 'default' */
  readonly hapax?: string
}

/** How the messages of a handler reach it. */
type HandlerKind = 'one' | 'many' | 'leased'

/** What a decorator wrote on a method. */
export interface Marked {
  readonly kind: HandlerKind
  readonly type: MessageType<never, unknown>
  readonly consumer: string
  readonly hapax: string
  readonly options: HandlerOptions
}

/** A decorator of methods of this shape: of TypeScript's `experimentalDecorators`, and of the language itself. */
export interface MethodMark<Shape> {
  <M extends Shape>(target: object, key: string | symbol, descriptor: TypedPropertyDescriptor<M>): void
  <M extends Shape>(method: M, context: { readonly kind: 'method' }): void
}

/**
 * Takes the messages of a type for a consumer, in a transaction that commits together with the receipt. The method receives the data and
 * the context: `(order: Order, ctx: HandlerContext<Tx>)`. Works on every provider and controller that is a singleton.
 */
export function OnMessage<In, Out>(
  type: MessageType<In, Out>,
  options: OnMessageOptions,
): MethodMark<(data: Out, ctx: HandlerContext<never>) => unknown> {
  return mark('one', type, options)
}

/** The same for the messages of a group as one array: `(items: Item<Order>[], ctx: ManyContext<Tx>)`. */
export function OnMessages<In, Out>(
  type: MessageType<In, Out>,
  options: OnMessageOptions,
): MethodMark<(items: readonly Item<Out>[], ctx: ManyContext<never>) => unknown> {
  return mark('many', type, options)
}

/** The same under a lease and without a transaction, for methods that call the outside world: `(sms: Sms, ctx: LeasedContext<Tx>)`. */
export function OnLeasedMessage<In, Out>(
  type: MessageType<In, Out>,
  options: OnMessageOptions,
): MethodMark<(data: Out, ctx: LeasedContext<never>) => unknown> {
  return mark('leased', type, options)
}

const MARKS = Symbol.for('hapax:handlers')

function mark<Shape>(
  kind: HandlerKind,
  given: MessageType<never, unknown>,
  options: OnMessageOptions,
): MethodMark<Shape> {
  const { consumer, hapax = DEFAULT_NAME, ...rest } = options
  const marked: Marked = { kind, type: messageType(given), consumer, hapax, options: rest }
  return (target: unknown, _: unknown, descriptor?: { readonly value?: unknown }): void => {
    const method = descriptor?.value ?? target
    if (typeof method !== 'function') {
      throw new HapaxError('invalid-option', `expected the handler of ${marked.type.type} to be a method, got none`)
    }
    // A method may take several types.
    Reflect.defineMetadata(MARKS, [...marksOf(method), marked], method)
  }
}

/** What the decorators wrote on a method. */
export function marksOf(method: object): readonly Marked[] {
  return Reflect.getMetadata(MARKS, method) ?? []
}
