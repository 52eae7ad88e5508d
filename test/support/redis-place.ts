import { randomUUID } from 'node:crypto'
import { type HapaxError, isHapaxError } from 'hapax'
import { Redis } from 'ioredis'
import type { Delivery, Destination, Reader, Subscription } from '../../src/contracts/broker.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import { promised } from '../../src/testing/promised.ts'
import { LinkProxy, type LinkTap } from './link-proxy.ts'
import { requireServer } from './servers.ts'

/** A stream for one test, a plain client, and the server through a proxy. */
export interface RedisPlace extends AsyncDisposable {
  readonly stream: string
  readonly plain: Redis
  readonly proxy: LinkProxy
}

/** A fresh stream; `tap` sees what goes through the proxy. */
export async function redisPlace(server: string = requireServer('redis'), tap?: () => LinkTap): Promise<RedisPlace> {
  const stream = `orders-${randomUUID()}`
  const plain = new Redis(server, { protocol: 2 })
  const proxy = await LinkProxy.open(server, tap)
  return {
    stream,
    plain,
    proxy,
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]()
      await plain.del(stream, `${stream}-untouched`).catch(() => {})
      plain.disconnect()
    },
  }
}

/** What Redis reports about a group. */
export interface GroupInfo {
  readonly name: string
  readonly consumers: number
  readonly pending: number
  readonly 'last-delivered-id': string
  readonly lag: number | null
}

export async function groupInfo(plain: Redis, stream: string, group: string): Promise<GroupInfo> {
  const groups = (await plain.xinfo('GROUPS', stream)) as unknown[][]
  const found = groups.map((each) => table(each) as unknown as GroupInfo).find(({ name }) => name === group)
  if (found === undefined) throw new Error(`expected a group ${group}`)
  return found
}

/** The names under which a group is read. */
export async function consumersOf(
  plain: Redis,
  stream: string,
  group: string,
): Promise<readonly { readonly name: string; readonly pending: number }[]> {
  const consumers = (await plain.xinfo('CONSUMERS', stream, group)) as unknown[][]
  return consumers.map((each) => table(each) as unknown as { name: string; pending: number })
}

function table(list: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at], list[2 * at + 1]]))
}

/** A reader, with its deliveries and events. */
export interface Listening extends AsyncDisposable {
  readonly reader: Reader
  readonly deliveries: Delivery[]
  readonly reports: HapaxError[]
}

export async function listen(subscription: Subscription, messages = 100): Promise<Listening> {
  const deliveries: Delivery[] = []
  const reports: HapaxError[] = []
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages, bytes: 1e9 },
    receive: (more) => deliveries.push(...more),
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
