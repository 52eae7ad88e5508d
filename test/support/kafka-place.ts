import type { Subscription } from 'hapax'
import { type Destination, type HapaxError, isHapaxError } from 'hapax'
import type { Delivery, OutgoingMessage, Reader } from 'hapax/contracts'
import { HASTY, type KafkaPlace, kafkaPlace as placeAt } from '../../src/conformance/brokers/kafka.ts'
import { promised } from '../../src/testing/promised.ts'
import { requireServer } from './servers.ts'

export { HASTY, type KafkaPlace } from '../../src/conformance/brokers/kafka.ts'
export { KafkaProxy } from '../../src/conformance/brokers/kafka-proxy.ts'
export { fresh, PlainKafka } from '../../src/conformance/brokers/plain-kafka.ts'

/**
 * For a member that stays alone in its group and never joins again: no stall ends its session. With others, the rebalances of the mock would
 * take nearly as long as that.
 */
export const PATIENT = { ...HASTY, sessionTimeoutMs: 30_000 } as const

/** On the server of the tests, or on another one. */
export function kafkaPlace(url: string = requireServer('kafka')): Promise<KafkaPlace> {
  return placeAt(url)
}

/** A reader, with its deliveries and events. */
export interface Listening extends AsyncDisposable {
  readonly reader: Reader
  readonly deliveries: Delivery[]
  readonly reports: HapaxError[]
}

export async function listen(
  subscription: Subscription,
  { messages = 100, each }: { messages?: number; each?: (delivery: Delivery) => void } = {},
): Promise<Listening> {
  const deliveries: Delivery[] = []
  const reports: HapaxError[] = []
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages, bytes: 1e9 },
    receive: (more) => {
      deliveries.push(...more)
      if (each !== undefined) more.forEach(each)
    },
    report: (error) => reports.push(error),
  })
  return { reader, deliveries, reports, [Symbol.asyncDispose]: () => reader.close() }
}

/** The ids of what was delivered, in order. */
export function idsOf(deliveries: readonly Delivery[]): readonly string[] {
  return deliveries.map(idOf)
}

function idOf({ arrival }: Delivery): string {
  return String(arrival.attributes['id'])
}

/** Messages to publish, by default all of one key. */
export function messages(count: number, more: Partial<OutgoingMessage> = { key: 'one' }): readonly OutgoingMessage[] {
  return Array.from({ length: count }, (_, at) => message(`m${at}`, more))
}

export function message(id: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const data = Buffer.from(JSON.stringify({ id }))
  return { id, source: '/sender', type: 'ping', datacontenttype: 'application/json', data, ...more }
}

/** Publishes; returns the confirmations in short: 'confirmed', or the status and the code of the error. */
export async function publish(destination: Destination, sent: readonly OutgoingMessage[]): Promise<readonly string[]> {
  const answers = await Promise.all(promised(destination, sent))
  return answers.map((answer) => {
    if (answer.status === 'confirmed') return 'confirmed'
    return `${answer.status} ${isHapaxError(answer.error) ? answer.error.code : answer.error.message}`
  })
}
