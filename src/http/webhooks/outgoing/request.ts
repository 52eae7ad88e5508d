import { HapaxError } from '../../../base/index.ts'
import type { EndpointSecret } from '../../../contracts/index.ts'
import {
  contentTypeOf,
  encodeEvent,
  isJson,
  messageKey,
  type OutgoingMessage,
  percentEncode,
} from '../../../message/index.ts'
import type { Delivery } from './exchange.ts'
import { signatures } from './signing.ts'

/** What a delivery contains: the envelope of Standard Webhooks, or the data of the message as it is. */
export type BodyFormat = 'envelope' | 'data'

/** A message as a signed request. Throws `invalid-payload` or `unusable-secret`. */
export function deliveryOf(
  message: OutgoingMessage,
  secrets: readonly EndpointSecret[],
  format: BodyFormat,
  userAgent: string,
  now: number,
): Delivery {
  const id = webhookId(message)
  const timestamp = Math.floor(now / 1_000)
  const { headers, body } = format === 'envelope' ? enveloped(message) : asItIs(message)
  return {
    headers: {
      ...headers,
      accept: '*/*',
      'user-agent': userAgent,
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signatures(secrets, id, timestamp, body, now),
    },
    body,
  }
}

/**
 * The id of the message. One that a header cannot carry, or with a full stop, which separates the parts of what is signed, is
 * replaced by the key that hapax computes from source and id: the same in every attempt.
 */
export function webhookId({ source, id }: Pick<OutgoingMessage, 'source' | 'id'>): string {
  return /^[!-\-/-~]{1,255}$/.test(id) ? id : messageKey(source, id)
}

function enveloped(message: OutgoingMessage): Delivery {
  const { type, time: timestamp } = message
  const head = JSON.stringify({ type, timestamp }).slice(0, -1)
  const data = message.data.byteLength === 0 ? 'null' : jsonOf(message)
  return { headers: { 'content-type': 'application/json' }, body: Buffer.from(`${head},"data":${data}}`) }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The JSON as it was published: numbers and the order of fields stay. */
function jsonOf(message: OutgoingMessage): string {
  const type = contentTypeOf(message)
  if (!isJson(type)) throw invalid(`expected JSON for a webhook, got ${type}: see the option body`)
  try {
    const text = utf8.decode(message.data)
    JSON.parse(text)
    return text
  } catch (cause) {
    throw invalid('expected the data of a webhook to be the JSON that its content type says', cause)
  }
}

/** The attributes that tell a receiver what the data is. Others are nobody else's business. */
const TOLD = ['specversion', 'id', 'source', 'type', 'subject', 'time']

/** A CloudEvent in binary mode. */
function asItIs(message: OutgoingMessage): Delivery {
  const { attributes, contentType, body } = encodeEvent(message, 'binary')
  if (!/^[ -~]+$/.test(contentType)) throw invalid('expected a content type of printable ASCII characters')
  const told = attributes.filter(([name]) => TOLD.includes(name))
  return {
    headers: {
      'content-type': contentType,
      ...Object.fromEntries(told.map(([name, value]) => [`ce-${name}`, percentEncode(value)])),
    },
    body,
  }
}

function invalid(what: string, cause?: unknown): HapaxError {
  return new HapaxError('invalid-payload', what, { cause })
}
