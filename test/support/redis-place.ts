import { type HapaxError, isHapaxError } from 'hapax'
import type { Redis } from 'ioredis'
import type { LinkTap } from '../../src/conformance/brokers/link-proxy.ts'
import { fieldTable, redisPlace as placeAt, type RedisPlace } from '../../src/conformance/brokers/redis-streams.ts'
import type { Delivery, Destination, Reader, Subscription } from '../../src/contracts/broker.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import { promised } from '../../src/testing/promised.ts'
import { requireServer } from './servers.ts'

export { groupInfo, type RedisPlace } from '../../src/conformance/brokers/redis-streams.ts'

/** A stream of a test's own, on the shared server unless another one is named; `tap` sees what goes through the proxy. */
export function redisPlace(server: string = requireServer('redis'), tap?: () => LinkTap): Promise<RedisPlace> {
  return placeAt(server, 'orders', tap)
}

/** The names under which a group is read. */
export async function consumersOf(
  plain: Redis,
  stream: string,
  group: string,
): Promise<readonly { readonly name: string; readonly pending: number }[]> {
  const consumers = (await plain.xinfo('CONSUMERS', stream, group)) as unknown[][]
  return consumers.map((each) => fieldTable(each) as unknown as { name: string; pending: number })
}

/** A reader, with its deliveries and events. */
export interface Listening extends AsyncDisposable {
  readonly reader: Reader
  readonly deliveries: Delivery[]
  readonly reports: HapaxError[]
}

export async function listen(
  subscription: Subscription,
  messages = 100,
  each: (delivery: Delivery) => void = () => {},
): Promise<Listening> {
  const deliveries: Delivery[] = []
  const reports: HapaxError[] = []
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages, bytes: 1e9 },
    receive: (more) => {
      deliveries.push(...more)
      more.forEach(each)
    },
    report: (error) => reports.push(error),
  })
  return { reader, deliveries, reports, [Symbol.asyncDispose]: () => reader.close() }
}

/** The ids of the entries that were delivered, in their order. */
export function entryIds({ deliveries }: Listening): readonly (string | undefined)[] {
  return deliveries.map(({ arrival }) => arrival.properties['entryId'])
}

/** Messages to publish. */
export function messages(count: number, prefix = 'm'): readonly OutgoingMessage[] {
  return Array.from({ length: count }, (_, at) => message(`${prefix}${at}`))
}

export function message(id: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const data = Buffer.from(JSON.stringify({ id }))
  return { id, source: '/sender', type: 'ping', datacontenttype: 'application/json', data, ...more }
}

/** Publishes; returns the statuses of the confirmations. */
export async function publish(destination: Destination, sent: readonly OutgoingMessage[]): Promise<readonly string[]> {
  const answers = await Promise.all(promised(destination, sent))
  return answers.map((answer) =>
    answer.status === 'confirmed' ? 'confirmed' : `${answer.status} ${codeOf(answer.error)}`,
  )
}

function codeOf(error: Error): string {
  return isHapaxError(error) ? error.code : error.message
}
