// Checks what a publisher says of a message. A publisher gets an error for what a consumer would have to refuse later.

import {
  describe,
  expected,
  flag,
  HapaxError,
  isText,
  MAX_SPAN_MS,
  nameText,
  noOthers,
  numberFrom,
  object,
  text,
} from '../base/index.ts'
import {
  checkPlace,
  isName,
  MAX_TEXT_BYTES,
  type MessageType,
  messageType,
  type PublishOptions,
  textRule,
} from '../message/index.ts'

/** Readers refuse U+FFFD in an id or a source: clients write it for bytes that they could not decode. */
function isSent(value: unknown): value is string {
  return isName(value) && !value.includes('\ufffd')
}

const SENT_RULE = `${textRule('id')} without U+FFFD`

/** Checks the `source` option, which every published message carries. */
export function sentName(name: 'source', value: unknown): string {
  return isSent(value) ? value : expected(name, SENT_RULE, value)
}

const PUBLISH_OPTIONS = [
  'id',
  'key',
  'subject',
  'datacontenttype',
  'headers',
  'correlationId',
  'causationId',
  'traceparent',
  'tracestate',
  'delayMs',
  'delivery',
  'relay',
  'now',
] as const satisfies readonly (keyof PublishOptions)[]

/** Checks the type and the options of a publish; the data is checked by its schema. */
export function checkPublish(type: MessageType<never, unknown>, options: PublishOptions): void {
  checkPlace(messageType(type))
  noOthers('options of publish', options, PUBLISH_OPTIONS)
  const { id, delayMs, headers, now } = options
  if (id !== undefined && !isSent(id)) {
    throw new HapaxError('invalid-id', `expected id to be ${SENT_RULE}, got ${describe(id)}`)
  }
  if (delayMs !== undefined) numberFrom('delayMs', 0, delayMs, 0, MAX_SPAN_MS)
  checkPlace(options)
  if (now !== undefined) flag('now', now, false)
  if (options.datacontenttype !== undefined) nameText('datacontenttype', options.datacontenttype)
  for (const name of TEXTS) if (options[name] !== undefined) text(name, options[name], MAX_TEXT_BYTES)
  if (headers !== undefined) checkHeaders(headers)
}

/** Whether a value that came with another message can be published as an attribute. */
export function isAttribute(value: unknown): value is string {
  return isText(value, MAX_TEXT_BYTES)
}

const TEXTS = ['key', 'subject', 'correlationId', 'causationId', 'traceparent', 'tracestate'] as const

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  object('headers', headers)
  for (const [name, value] of Object.entries(headers)) {
    nameText('name of a header', name, MAX_TEXT_BYTES)
    if (typeof value !== 'string' || !value.isWellFormed()) expected(`headers.${name}`, 'a well-formed string', value)
  }
}
