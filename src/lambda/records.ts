import { fieldOf, HapaxError } from '../base/index.ts'
import { type Arrival, isStructured, parseJson, readPlain, sha256, sortHeaders } from '../message/index.ts'

/** The part of an `SQSEvent` that hapax reads. */
export interface SqsEvent {
  readonly Records: readonly SqsRecord[]
}

/** The part of an `SQSRecord` that hapax reads. */
export interface SqsRecord {
  readonly messageId: string
  readonly body: string
  readonly attributes: {
    readonly ApproximateReceiveCount: string
    readonly SentTimestamp: string
    readonly MessageGroupId?: string | undefined
    readonly MessageDeduplicationId?: string | undefined
    readonly SequenceNumber?: string | undefined
  }
  readonly messageAttributes: Readonly<Record<string, SqsAttribute>>
  readonly eventSourceARN: string
}

/** An attribute of a message. Binary values are base64. */
export interface SqsAttribute {
  readonly stringValue?: string | undefined
  readonly binaryValue?: string | undefined
  readonly dataType: string
}

/** Which records SQS delivers again. */
export interface SqsBatchResponse {
  readonly batchItemFailures: { readonly itemIdentifier: string }[]
}

/** The part of the context of a Lambda function that hapax uses. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number
}

/** What stands around the body of a message. */
export type Envelope = 'none' | 'sns' | 'eventbridge'

/** Turns a record into an arrival, so that it is read as the messages of brokers are. */
export function arrivalOf(record: SqsRecord, envelope: Envelope): Arrival {
  const properties = propertiesOf(record)
  try {
    const { body, named, contentType, more } = unwrapped(record, envelope)
    const arrival = {
      body: Buffer.from(body),
      contentType: contentType ?? contentTypeOf(named, body),
      ...sortHeaders(named, SORTING),
      properties: { ...properties, ...more },
      redelivered: Number(attributesOf(record).ApproximateReceiveCount) > 1,
      refused: undefined,
    }
    return isStructured(arrival.contentType) || readPlain(arrival) !== undefined ? arrival : identified(arrival, record)
  } catch (cause) {
    const what = `expected the body to be an envelope of ${envelope}`
    return {
      body: Buffer.from(String(record.body)),
      contentType: undefined,
      attributes: {},
      headers: {},
      properties,
      redelivered: false,
      refused: new HapaxError('undecodable', what, { cause }),
    }
  }
}

/** What the queue knows of a message that does not say by itself who it is. */
function identified(arrival: Arrival, record: SqsRecord): Arrival {
  const { snsMessageId, topicArn, messageId = '', queueArn = '', messageGroupId } = arrival.properties
  const own = ownDeduplicationId(record) ?? snsMessageId ?? messageId
  const attributes: Record<string, string> = Object.assign(Object.create(null), {
    id: own,
    source: topicArn ?? queueArn,
    ...(messageGroupId !== undefined && queueArn.endsWith('.fifo') && { partitionkey: messageGroupId }),
    ...arrival.attributes,
  })
  return { ...arrival, attributes }
}

/**
 * An id that SQS made of the body is the same for two messages that happen to be alike, and says nothing. One of the sender's own may be used
 * once for each group, if the queue says so.
 */
function ownDeduplicationId(record: SqsRecord): string | undefined {
  const { MessageDeduplicationId: id, MessageGroupId: group } = attributesOf(record)
  if (id === undefined || id === sha256(record.body)) return undefined
  return group === undefined ? id : `${group}/${id}`
}

/** SQS allows neither colons nor spaces in names, so that attributes of CloudEvents come with either prefix. */
const SORTING = { prefixes: ['ce-', 'ce_', 'cloudevents_'], drop: (name: string) => name === 'content-type' }

type Named = readonly (readonly [name: string, value: unknown])[]

interface Unwrapped {
  readonly body: string
  readonly named: Named
  readonly contentType?: string
  readonly more?: Readonly<Record<string, string>>
}

function unwrapped({ body, messageAttributes }: SqsRecord, envelope: Envelope): Unwrapped {
  if (envelope === 'sns') return ofSns(parseJson(body))
  if (envelope === 'eventbridge') return ofEventBridge(parseJson(body))
  return { body, named: Object.entries(messageAttributes ?? {}).map(([name, value]) => [name, attributeValue(value)]) }
}

function attributeValue({ dataType, stringValue, binaryValue }: SqsAttribute): unknown {
  return dataType?.startsWith('Binary') && binaryValue !== undefined ? Buffer.from(binaryValue, 'base64') : stringValue
}

/** A notification of SNS, as it is delivered without raw message delivery. */
function ofSns(notification: unknown): Unwrapped {
  const attributes = fieldOf(notification, 'MessageAttributes')
  const named = Object.entries(typeof attributes === 'object' && attributes !== null ? attributes : {}).map(
    ([name, value]) => [name, snsValue(value)] as const,
  )
  const more = { snsMessageId: textOf(notification, 'MessageId'), topicArn: textOf(notification, 'TopicArn') }
  return { body: textOf(notification, 'Message'), named, more }
}

function snsValue(attribute: unknown): unknown {
  const value = fieldOf(attribute, 'Value')
  return fieldOf(attribute, 'Type') === 'Binary' && typeof value === 'string' ? Buffer.from(value, 'base64') : value
}

/** An event of EventBridge: its detail is the data. */
function ofEventBridge(event: unknown): Unwrapped {
  const body = JSON.stringify(fieldOf(event, 'detail') ?? null)
  const named = [
    ['ce-id', textOf(event, 'id')],
    ['ce-type', textOf(event, 'detail-type')],
    ['ce-source', textOf(event, 'source')],
    ['ce-time', textOf(event, 'time')],
  ] as const
  return { body, named, contentType: 'application/json' }
}

function textOf(value: unknown, name: string): string {
  const text = fieldOf(value, name)
  if (typeof text === 'string') return text
  throw new TypeError(`the field ${name} is missing`)
}

/** A whole CloudEvent in the body need not be announced: SQS has no content type of its own. */
function contentTypeOf(named: Named, body: string): string | undefined {
  const given = named.find(([name]) => name.toLowerCase() === 'content-type')?.[1]
  if (typeof given === 'string') return given
  return isEvent(body) ? 'application/cloudevents+json' : undefined
}

function isEvent(body: string): boolean {
  if (!body.includes('"specversion"')) return false
  try {
    return typeof fieldOf(parseJson(body), 'specversion') === 'string'
  } catch {
    return false
  }
}

function propertiesOf(record: SqsRecord): Record<string, string> {
  const attributes = attributesOf(record)
  const properties = {
    messageId: record.messageId,
    queueArn: record.eventSourceARN,
    sentTimestamp: attributes.SentTimestamp,
    receiveCount: attributes.ApproximateReceiveCount,
    messageGroupId: attributes.MessageGroupId,
    deduplicationId: attributes.MessageDeduplicationId,
    sequenceNumber: attributes.SequenceNumber,
  }
  return Object.fromEntries(
    Object.entries(properties).filter((each): each is [string, string] => typeof each[1] === 'string'),
  )
}

/** What SQS says of a record. One that was made by hand may lack it, and must not keep its neighbours from being taken. */
export function attributesOf({ attributes }: SqsRecord): Partial<SqsRecord['attributes']> {
  return attributes ?? {}
}
