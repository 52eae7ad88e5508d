// Messages for peers that know neither hapax nor CloudEvents: the body is the data, and the attributes are headers with plain names.

import type { Arrival } from './arrival.ts'
import { contentTypeOf, type EncodedEvent, honestHeaders, type OutgoingMessage } from './cloudevents.ts'

/** Attributes by their names in CloudEvents, and the headers that carry them. */
const NAMES = {
  id: 'message-id',
  type: 'type',
  source: 'source',
  time: 'time',
  subject: 'subject',
  partitionkey: 'key',
  correlationid: 'correlation-id',
  causationid: 'causation-id',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const

/** Properties of protocols that are as good as these headers. */
const PROPERTIES = { id: 'messageId', type: 'type', source: 'appId', correlationid: 'correlationId' } as const

const attributeOf: ReadonlyMap<string, string> = new Map(Object.entries(NAMES).map(([name, header]) => [header, name]))

/** Writes a message for readers that know nothing of CloudEvents. A header that has the name of an attribute is not sent. */
export function encodePlain(message: OutgoingMessage): EncodedEvent {
  const headers = honestHeaders(message).filter(([name]) => !attributeOf.has(name.toLowerCase()))
  const plain: [string, string][] = []
  const add = (name: keyof typeof NAMES, value: string | undefined): void => {
    if (value !== undefined) plain.push([NAMES[name], value])
  }
  add('id', message.id)
  add('type', message.type)
  add('source', message.source)
  add('time', message.time)
  add('subject', message.subject)
  add('partitionkey', message.key)
  add('correlationid', message.correlationId)
  add('causationid', message.causationId)
  add('traceparent', message.traceparent)
  add('tracestate', message.tracestate)
  const properties = { appId: message.source }
  return { attributes: [], plain, headers, contentType: contentTypeOf(message), body: message.data, properties }
}

/**
 * The attributes of a message that came without those of CloudEvents: found if its id, its type and its source all stand under the
 * plain names. Anything less may mean something else, and is for `.from()` to say.
 */
export function readPlain({
  attributes,
  headers,
  properties,
}: Arrival): Pick<Arrival, 'attributes' | 'headers'> | undefined {
  if (['id', 'type', 'source', 'specversion'].some((name) => attributes[name] !== undefined)) return undefined
  // Without a prototype: the names are the sender's.
  const found: Record<string, string> = Object.assign(Object.create(null), attributes)
  const others: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    const attribute = attributeOf.get(name.toLowerCase())
    if (attribute === undefined) others[name] = value
    else found[attribute] ??= value
  }
  for (const [name, property] of Object.entries(PROPERTIES)) {
    const value = properties[property]
    if (value !== undefined) found[name] ??= value
  }
  const whole = [found['id'], found['type'], found['source']].every((value) => value !== undefined && value !== '')
  return whole ? { attributes: found, headers: others } : undefined
}
