// What an event is called that goes to registered endpoints: each endpoint has a copy of it in the inbox, with an identity of its own.

import type { OutgoingMessage } from './cloudevents.ts'
import { isIndexed } from './incoming.ts'
import { fingerprint, type Message, messageKey, packAttributes, type StoredMessage, sha256 } from './message.ts'

/** The consumer whose inbox has what waits for the endpoints of a relay. */
export function deliveriesName(relay: string): string {
  return `${DELIVERIES_OF}${relay}`
}

/** Whether a consumer delivers to endpoints. */
export function isDeliveries(consumer: string): boolean {
  return consumer.startsWith(DELIVERIES_OF)
}

const DELIVERIES_OF = 'webhooks:'

/** The source of the copy of an event that is for one endpoint. No id of an endpoint has a space in it. */
export function spreadSource(endpoint: string, source: string): string {
  return `${SOURCE}${endpoint} ${source}`
}

/** Which endpoint a copy is for, and the source of the event; undefined: it is no copy. */
export function originOf(source: string): { readonly endpoint: string; readonly source: string } | undefined {
  const space = source.indexOf(' ')
  if (!source.startsWith(SOURCE) || space < 0) return undefined
  return { endpoint: source.slice(SOURCE.length, space), source: source.slice(space + 1) }
}

/**
 * The copies of an event, one for each of these endpoints. Their id is the event's, so that spreading the event again finds their receipts. All
 * share the data, whose hash is computed once.
 */
export function spreadMessages(endpoints: readonly string[], message: OutgoingMessage): readonly StoredMessage[] {
  if (endpoints.length === 0) return []
  const { id, type, data } = message
  const shared = { id, type, data, attributes: packAttributes(message), fingerprint: fingerprint(data) }
  return endpoints.map((endpoint) => {
    const source = spreadSource(endpoint, message.source)
    const key = message.key === undefined ? null : spreadKey(endpoint, message.key)
    return { ...shared, messageKey: messageKey(source, id), source, key }
  })
}

/** The event that a copy was made of. */
export function eventOf(
  copy: Message,
  data: Uint8Array,
): { readonly endpoint: string; readonly event: OutgoingMessage } {
  const { key, ...others } = copy
  const origin = originOf(copy.source) ?? { endpoint: '', source: copy.source }
  const own = key?.slice(origin.endpoint.length + 1)
  const event = { ...others, source: origin.source, data }
  return {
    endpoint: origin.endpoint,
    event: own === undefined || own.startsWith(HASHED) ? event : { ...event, key: own },
  }
}

/** A key that becomes too long is hashed: its order counts, and its text is not sent. */
function spreadKey(endpoint: string, key: string): string {
  const whole = `${endpoint} ${key}`
  return isIndexed(whole) ? whole : `${endpoint} ${HASHED}${sha256(key)}`
}

const SOURCE = 'endpoint:'
const HASHED = '\u0001sha256:'
