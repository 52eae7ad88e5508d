import { able, describe, expected, fieldOf, HapaxError, noOthers, text } from '../base/index.ts'
import { describeIssues, type StandardSchema } from './schema.ts'

/** A kind of message: its name, its schema and the key it belongs to. `In` is what is published, `Out` what handlers get. */
export interface MessageType<In = unknown, Out = In> {
  readonly type: string
  /** A message of this type, for `publishMany`. */
  of(data: In, options?: PublishOptions): Draft
  /** The key of a message with this data. */
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
export interface PublishOptions {
  /** An id of your own, for example from `messageId`. @default a fresh UUIDv7 */
  readonly id?: string
  /** @default the key that the message type computes */
  readonly key?: string
  readonly subject?: string
  /**
   * What the data is. A text whose content type is not JSON is sent as it is, and so are bytes (`Uint8Array`); all else is made JSON.
   * Handlers get a text for `text/…`, and bytes for what is neither that nor JSON. @default 'application/json', or
   * 'application/octet-stream' for bytes
   */
  readonly datacontenttype?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly correlationId?: string
  readonly causationId?: string
  readonly traceparent?: string
  readonly tracestate?: string
  /** Not before this many milliseconds after the commit's insert. */
  readonly delayMs?: number
  /** The relay that sends it. @default the `relay` of `createHapax` */
  readonly relay?: string
  /** Write the row at once and not as the last statement of the transaction. @default false */
  readonly now?: boolean
}

/** Options of `defineMessage`. */
export interface MessageOptions<In, Out = In> {
  /** What checks and transforms the data: of zod, valibot, arktype or another library with Standard Schema. @default nothing does */
  readonly schema?: StandardSchema<In, Out>
  /** Which messages belong together, for example those of one order. */
  readonly key?: (data: In) => string
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
  noOthers('options of defineMessage', options, ['schema', 'key'])
  const { schema, key } = options
  if (key !== undefined && typeof key !== 'function') expected('key', 'a function', key)
  if (schema !== undefined && typeof schema?.['~standard']?.validate !== 'function') {
    expected('schema', 'a Standard Schema', schema)
  }
  const message: MessageType<In, Out> = {
    type,
    of: (data, publishOptions = {}) => ({ message, data, options: publishOptions }),
    keyOf: (data) => key?.(data),
    parse: schema === undefined ? (data) => data as Out : (data) => parseWith(type, schema, data),
  }
  return Object.freeze(message)
}

/** A message type, checked: handlers and publishes are often registered in plain JavaScript. */
export function messageType<Type extends MessageType<never, unknown>>(type: Type): Type {
  able('type', 'a message type made by defineMessage', type, ['of', 'keyOf', 'parse'])
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
