import { able, describe, expected, fieldOf, HapaxError, nameText, noOthers, text, word } from '../base/index.ts'
import { describeIssues, type StandardSchema } from './schema.ts'

/** Where messages go: a publish, a type of messages, or `route` of `createHapax` may say it. */
export interface Place {
  /** `relay` writes the message to the outbox; `local` hands it to the consumers on the same database. @default what is said elsewhere */
  readonly delivery?: 'relay' | 'local'
  /** The relay that sends it. @default what is said elsewhere */
  readonly relay?: string
}

/** Checks where messages are to go. */
export function checkPlace({ delivery, relay }: Place): void {
  if (delivery !== undefined) word('delivery', DELIVERIES, delivery)
  if (relay === undefined) return
  nameText('relay', relay)
  if (delivery === 'local') expected('relay', "absent with delivery: 'local'", relay)
}

/** The ways of delivery. */
export const DELIVERIES = ['relay', 'local'] as const

/** A kind of message: its name, its schema and the key it belongs to. `In` is what is published, `Out` what handlers get. */
export interface MessageType<In = unknown, Out = In> extends Place {
  readonly type: string
  /** A message of this type, for `publishMany`. */
  of(data: In, options?: PublishOptions): Draft
  /** Whether the type has a key function. */
  readonly keyed: boolean
  /** The key of a message with this data, as it is on the wire. */
  keyOf(data: In): string | undefined
  /** Checks and transforms data as it came over the wire; throws `invalid-payload`. */
  parse(data: unknown): Out | Promise<Out>
}

/** A message that is not published yet. */
export interface Draft {
  readonly message: MessageType<never, unknown>
  readonly data: unknown
  readonly options: PublishOptions
}

/** What a publisher may say about one message. */
export interface PublishOptions extends Place {
  /** An id of your own, for example from `messageId`. @default a fresh UUIDv7 */
  readonly id?: string
  /** @default the key that the message type computes */
  readonly key?: string
  readonly subject?: string
  /**
   * What the data is. Bytes (`Uint8Array`) and texts are sent as they are, unless the content type of a text is JSON; all else is made
   * JSON. Handlers get a text for `text/…`, and bytes for what is neither that nor JSON. @default 'text/plain; charset=utf-8' for a
   * text, 'application/octet-stream' for bytes, 'application/json' for all else
   */
  readonly datacontenttype?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly correlationId?: string
  readonly causationId?: string
  readonly traceparent?: string
  readonly tracestate?: string
  /** Not before this many milliseconds after the commit's insert. */
  readonly delayMs?: number
  /** The way of this message. @default that of its type, of `route`, or of `createHapax` */
  readonly delivery?: 'relay' | 'local'
  /** The relay that sends it. @default that of its type, of `route`, or of `createHapax` */
  readonly relay?: string
  /** Write the row at once and not as the last statement of the transaction. @default false */
  readonly now?: boolean
}

/** Options of `defineMessage`. */
export interface MessageOptions<In, Out = In> extends Place {
  /** What checks and transforms the data: of zod, valibot, arktype or another library with Standard Schema. @default nothing does */
  readonly schema?: StandardSchema<In, Out>
  /**
   * Groups messages that belong together, for example those of one order. Called with the data as it is on the wire, before schema
   * validation, when a message is published and when one arrives without a key. `undefined`: the message has no key.
   */
  readonly key?: (data: In) => string | undefined
  /** The way of these messages. @default that of `route`, or of `createHapax` */
  readonly delivery?: 'relay' | 'local'
  /** The relay that sends them. @default that of `route`, or of `createHapax` */
  readonly relay?: string
}

/**
 * Describes a kind of message. The wire carries the JSON of the schema's input; handlers receive its output,
 * so that transforms run once.
 */
export function defineMessage<In = unknown, Out = In>(
  type: string,
  options: MessageOptions<In, Out> = {},
): MessageType<In, Out> {
  text('type', type)
  noOthers('options of defineMessage', options, ['schema', 'key', 'delivery', 'relay'])
  const { schema, key, delivery, relay } = options
  checkPlace(options)
  if (key !== undefined && typeof key !== 'function') expected('key', 'a function', key)
  if (schema !== undefined && typeof schema?.['~standard']?.validate !== 'function') {
    expected('schema', 'a Standard Schema', schema)
  }
  const message: MessageType<In, Out> = {
    type,
    of: (data, publishOptions = {}) => ({ message, data, options: publishOptions }),
    keyed: key !== undefined,
    keyOf: (data) => key?.(data),
    parse: schema === undefined ? (data) => data as Out : (data) => parseWith(type, schema, data),
    ...(delivery !== undefined && { delivery }),
    ...(relay !== undefined && { relay }),
  }
  return Object.freeze(message)
}

/** Whether a value is a message type. Read field by field, because it may be anything, such as the handle of a transaction that is over. */
export function isMessageType(value: unknown): value is MessageType {
  try {
    return (
      typeof fieldOf(value, 'type') === 'string' &&
      METHODS.every((method) => typeof fieldOf(value, method) === 'function')
    )
  } catch {
    return false
  }
}

const METHODS = ['of', 'keyOf', 'parse'] as const satisfies readonly (keyof MessageType)[]

/** A message type, checked: handlers and publishes are often registered in plain JavaScript. */
export function messageType<Type extends MessageType<never, unknown>>(type: Type): Type {
  able('type', 'a message type made by defineMessage', type, METHODS)
  text('type', type.type)
  return type
}

function parseWith<Out>(type: string, schema: StandardSchema<unknown, Out>, data: unknown): Out | Promise<Out> {
  const result = schema['~standard'].validate(data)
  // Not every promise is one of this realm; one taken for a result would be data that is not there.
  if (isPromise(result)) return Promise.resolve(result).then((awaited) => checkedValue(type, awaited))
  return checkedValue(type, result)
}

function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof fieldOf(value, 'then') === 'function'
}

function checkedValue<Out>(
  type: string,
  result: Awaited<ReturnType<StandardSchema<unknown, Out>['~standard']['validate']>>,
): Out {
  if (typeof result !== 'object' || result === null || !('value' in result || 'issues' in result)) {
    const what = `expected the schema of ${type} to answer a value or issues, got ${describe(result)}`
    throw new HapaxError('invalid-payload', what, { fields: { type } })
  }
  if (result.issues === undefined) return result.value
  throw new HapaxError(
    'invalid-payload',
    `expected data of ${type} to fit its schema: ${describeIssues(result.issues)}`,
    {
      fields: { type, issues: result.issues },
    },
  )
}
