// What an event is called that goes to registered endpoints: each endpoint has a copy of it in the inbox, with an identity of its own.

import type { OutgoingMessage } from './cloudevents.ts'
import { isIndexed } from './incoming.ts'
import { fingerprint, type Message, messageKey, packAttributes, type StoredMessage, sha256 } from './message.ts'

/** The consumer whose inbox has what waits for the endpoints of a relay. */
export function deliveriesName(relay: string): string {
  return `webhooks:${relay}`
}

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

/** The copy of an event for one endpoint. Its id is the event's, so that spreading the event again finds its receipt. */
export function spreadMessage(endpoint: string, message: OutgoingMessage): StoredMessage {
  const source = spreadSource(endpoint, message.source)
  const { id, type, data } = message
  const key = message.key === undefined ? null : spreadKey(endpoint, message.key)
  const attributes = packAttributes(message)
  return { messageKey: messageKey(source, id), source, id, type, key, attributes, data, fingerprint: fingerprint(data) }
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
