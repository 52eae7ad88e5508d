import type { Clock } from '../base/index.ts'
import { asError, expected, HapaxError, messageOf } from '../base/index.ts'
import {
  type Draft,
  decode,
  fingerprint,
  isIndexed,
  messageKey,
  type Payload,
  type PublishOptions,
  packAttributes,
  parseJson,
  payloadOf,
  type StoredMessage,
  textRule,
} from '../message/index.ts'
import { checkPublish } from './publish-options.ts'
import { type RoutingOptions, relayOf } from './routing.ts'
import type { Prepared } from './waiting.ts'

/** What making messages needs to know of its hapax. */
export interface PrepareOptions extends RoutingOptions {
  readonly source: string
  readonly maxBytes: number
  readonly clock: Clock
  readonly mintId: () => string
}

/** Turns drafts into messages that can be written: synchronously, unless a schema is asynchronous. */
export function prepareAll(
  options: PrepareOptions,
  drafts: readonly Draft[],
): readonly Prepared[] | Promise<readonly Prepared[]> {
  const prepared: Prepared[] = []
  for (const [index, draft] of drafts.entries()) {
    const each = prepare(options, draft)
    if (each instanceof Promise) return prepareRest(options, prepared, each, drafts.slice(index + 1))
    prepared.push(each)
  }
  return prepared
}

async function prepareRest(
  options: PrepareOptions,
  before: readonly Prepared[],
  each: Promise<Prepared>,
  rest: readonly Draft[],
): Promise<readonly Prepared[]> {
  return [...before, await each, ...(await prepareAll(options, rest))]
}

function prepare(from: PrepareOptions, draft: Draft): Prepared | Promise<Prepared> {
  const { data, options } = draft ?? {}
  if (draft?.message === undefined || options === undefined) expected('drafts', 'messages made by of()', draft)
  const { message: type } = draft
  checkPublish(type, options)
  const payload = payloadOf(type.type, data, options.datacontenttype)
  // The key is computed from, and the schema applied to, the data as the consumer will see it: a Date, for example, arrives as text.
  const arrived = arriving(type.type, payload)
  const prepared = stored(from, type, payload, arrived, options)
  const checked = type.parse(arrived)
  return checked instanceof Promise ? checked.then(() => prepared) : prepared
}

function stored(
  from: PrepareOptions,
  type: Draft['message'],
  payload: Payload,
  data: unknown,
  options: PublishOptions,
): Prepared {
  const { source, mintId, clock, maxBytes } = from
  const id = options.id ?? mintId()
  const { bytes } = payload
  const attributes = packAttributes({
    ...options,
    time: new Date(clock.now()).toISOString(),
    datacontenttype: payload.contentType,
  })
  const size = bytes.byteLength + Buffer.byteLength(attributes)
  if (size > maxBytes) {
    throw new HapaxError('too-large', `expected a message of at most ${maxBytes} bytes, got ${size}`, {
      fields: { type: type.type, bytes: size },
    })
  }
  const message: StoredMessage = {
    messageKey: messageKey(source, id),
    source,
    id,
    type: type.type,
    key: keyOf(type, data, options),
    attributes,
    data: bytes,
    fingerprint: fingerprint(bytes),
  }
  if (message.key !== null && options.delayMs) {
    expected('delayMs', 'absent on a message with a key, because it would hold up what comes after it', options.delayMs)
  }
  return { message, relay: relayOf(from, type, options, message), delayMs: options.delayMs ?? 0 }
}

/** What arrives at the consumer, by the same rules as there. */
function arriving(type: string, { bytes, json, contentType }: Payload): unknown {
  try {
    return json === undefined ? decode({ data: bytes }, contentType) : parseJson(json)
  } catch (cause) {
    const what = `expected data of ${type} to be ${json === undefined ? contentType : 'JSON'} that a consumer takes: ${messageOf(asError(cause))}`
    throw new HapaxError('invalid-payload', what, { cause, fields: { type } })
  }
}

function keyOf(type: Draft['message'], data: unknown, options: PublishOptions): string | null {
  const key = options.key ?? type.keyOf(data as never)
  if (key === undefined || key === null) return null
  if (!isIndexed(key)) expected('key', textRule('key'), key)
  return key
}
