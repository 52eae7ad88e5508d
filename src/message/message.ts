import type { HapaxError } from '../base/index.ts'

/** What tells a message without a usable identity from others that look like it: the delivery that it came by. */
export const DELIVERY: unique symbol = Symbol('delivery')

/** Marks a message that its reader could not decode: it is refused, and kept as it came. Only hapax has this symbol. */
export const REFUSED: unique symbol = Symbol('refused')

/** Marks a message of which its reader has only the beginning, with the size of all of it, if that is known. */
export const CUT: unique symbol = Symbol('cut')

/** The attributes of a message: those of CloudEvents 1.0, and what hapax adds. */
export interface MessageAttributes {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject?: string
  /** RFC 3339. */
  readonly time?: string
  readonly datacontenttype?: string
  /** Messages of one key belong together, for example those of one order. */
  readonly key?: string
  readonly correlationId?: string
  readonly causationId?: string
  readonly traceparent?: string
  readonly tracestate?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A message as a handler sees it in `ctx.message`: `data` is the JSON as it came, before the schema. */
export interface Message extends MessageAttributes {
  readonly data: unknown
}

/**
 * A message as it arrives at a consumer. `data` is a JSON value, or the bytes as they came (`Uint8Array`).
 * It is what some sender made of it: every field is checked at run time.
 */
export interface IncomingMessage extends Omit<MessageAttributes, 'id'> {
  readonly id?: string
  readonly data?: unknown
  /** The broker says that it delivered this message before. */
  readonly redelivered?: boolean
  /** Why a reader could not make sense of it. */
  readonly [REFUSED]?: HapaxError
  readonly [DELIVERY]?: string
  readonly [CUT]?: { readonly bytes: number | null }
}

/** A message as it is stored: identity and payload in columns of their own, the rest as one JSON text. */
export interface StoredMessage {
  /** Computed from source and id; see `messageKey`. */
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  /** JSON of the attributes that have no column of their own. */
  readonly attributes: string
  readonly data: Uint8Array
  /** Eight bytes of the payload's hash, in hexadecimal digits. */
  readonly fingerprint: string
}

/** What a stored message is to a broker. */
export type LeavingMessage = Omit<StoredMessage, 'messageKey' | 'fingerprint'>

/** Those that have no column of their own. */
export type OtherAttributes = Omit<MessageAttributes, 'id' | 'source' | 'type' | 'key'>

const OTHERS = [
  'subject',
  'time',
  'datacontenttype',
  'correlationId',
  'causationId',
  'traceparent',
  'tracestate',
  'headers',
] as const satisfies readonly (keyof OtherAttributes)[]

/** What `packAttributes` answers when there are none. */
export const NO_ATTRIBUTES = '{}'

/** The JSON text of the attributes that have no column. */
export function packAttributes(message: OtherAttributes): string {
  let text = ''
  for (const name of OTHERS) {
    const value = message[name]
    if (value !== undefined) text += `${text === '' ? '' : ','}"${name}":${JSON.stringify(value)}`
  }
  return `{${text}}`
}

/** The first of these attributes that is not what its type says; others than hapax may have written it. */
export function wrongAttribute(attributes: MessageAttributes): string | undefined {
  for (const name in attributes) {
    const value: unknown = attributes[name as keyof MessageAttributes]
    if (typeof value !== 'string' && !(name === 'headers' && isTexts(value))) return name
  }
  return undefined
}

function isTexts(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((each) => typeof each === 'string')
}

/** The attributes of a stored message. */
export function unpackAttributes(stored: Omit<LeavingMessage, 'data'>): MessageAttributes {
  const { id, source, type, key, attributes } = stored
  const own = key === null ? { id, source, type } : { id, source, type, key }
  return attributes === NO_ATTRIBUTES ? own : { ...own, ...unpackOthers(attributes) }
}

/** The attributes that have no column; what marks a stub is none of them. */
export function unpackOthers(attributes: string): OtherAttributes {
  const read = JSON.parse(attributes) as OtherAttributes & { stub?: unknown }
  if (read.stub === undefined) return read
  const { stub: _, ...others } = read
  return others
}
