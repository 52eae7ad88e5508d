import { randomBytes } from 'node:crypto'
import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream'
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { loadClient } from '../../base/index.ts'
import { nats } from '../../brokers/nats/index.ts'
import type { BrokerHarness, PlaceTimes, RawMessage, TestBroker } from '../../testing/index.ts'
import { onlyOnce } from '../only-once.ts'
import { ENCRYPTED, encrypted } from './encrypted.ts'
import { LinkProxy } from './link-proxy.ts'

/** A stream of a test's own, which nobody has made yet, a plain client, and the server through a proxy. */
export interface NatsPlace extends AsyncDisposable {
  readonly stream: string
  /** Below which the subjects of the stream are. */
  readonly prefix: string
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  readonly plain: JetStreamClient
  readonly proxy: LinkProxy
  /** Headers of the plain client, without any. */
  readonly headers: () => MsgHdrs
}

/** Its own limit of five seconds would take a server that stands still for a while for one that is gone. */
const PLAIN = { timeout: 30_000 } as const

/** A fresh stream, whose name begins with `prefix`. */
export async function natsPlace(url: string, prefix = 'SHOP'): Promise<NatsPlace> {
  const packages = ['@nats-io/jetstream', '@nats-io/transport-node'] as const
  const [js, transport] = await loadClient('conformance of NATS', packages, () =>
    Promise.all([import('@nats-io/jetstream'), import('@nats-io/transport-node')]),
  )
  const stream = `${prefix}_${randomBytes(8).toString('hex').toUpperCase()}`
  const connection = await transport.connect({ servers: url })
  const manager = await js.jetstreamManager(connection, PLAIN)
  const proxy = encrypted(url) ? LinkProxy.none(url) : await LinkProxy.open(url)
  return {
    stream,
    prefix: stream.toLowerCase(),
    connection,
    manager,
    plain: js.jetstream(connection, PLAIN),
    proxy,
    headers: transport.headers,
    [Symbol.asyncDispose]: onlyOnce(async () => {
      await proxy[Symbol.asyncDispose]()
      if (connection.isClosed()) return
      for await (const names of manager.streams.names()) {
        if (names.includes(stream)) await manager.streams.delete(names).catch(() => {})
      }
      await connection.close()
    }),
  }
}

/** How many messages of a consumer are not acked, delivered or not. */
export async function waitingIn({ manager, stream }: NatsPlace, consumer: string): Promise<number> {
  const { num_pending, num_ack_pending } = await manager.consumers.info(stream, consumer)
  return num_pending + num_ack_pending
}

/** The conformance harness of NATS on a server: a stream for each case. */
export function natsHarness(url: string, open: () => Promise<NatsPlace> = () => natsPlace(url)): BrokerHarness {
  return {
    name: 'nats',
    cannot: encrypted(url) ? ENCRYPTED : {},
    open: async (times) => testBroker(await open(), times),
  }
}

async function testBroker(place: NatsPlace, { silenceMs, returnMs }: PlaceTimes): Promise<TestBroker> {
  const { stream, prefix, manager, plain, connection, proxy } = place
  const js = nats({ url: proxy.url, heartbeatMs: silenceMs, timeoutMs: 15_000 })
  await manager.streams.add({ name: stream, subjects: [`${prefix}.>`] })
  const groups = new Set<string>()
  return {
    largestBytes: connection.info?.max_payload ?? 0,
    destination: ({ unroutable = false, ...options } = {}) =>
      js.stream(stream, { ...options, ...(unroutable ? { subject: () => `nowhere.${prefix}` } : {}) }),
    subscription: async (group, { single = false } = {}) => {
      if (!groups.has(group)) await manager.consumers.add(stream, config(group, single, returnMs))
      groups.add(group)
      return js.consumer(group, { stream, single })
    },
    untouched: async () => {
      const [sender, reader] = [nats({ url: proxy.url }), nats({ url: proxy.url })]
      const name = `${stream}_UNTOUCHED`
      return { destination: sender.stream(name), subscription: reader.consumer('billing', { stream: name }) }
    },
    send: async (message) =>
      void (await plain.publish(`${prefix}.plain`, message.body, { headers: headersOf(place, message) })),
    receive: (group, count) => receive(place, group, count),
    waiting: (group) => waitingIn(place, group),
    cut: async () => proxy.cut(),
    away: () => proxy.refuse(),
    back: () => proxy.accept(),
    freeze: async () => proxy.freeze(),
    thaw: async () => proxy.thaw(),
    close: async () => place[Symbol.asyncDispose](),
  }
}

/** A consumer that begins now. */
function config(
  group: string,
  single: boolean,
  ackWaitMs: number,
): Parameters<NatsPlace['manager']['consumers']['add']>[1] {
  return {
    durable_name: group,
    ack_policy: 'explicit',
    ack_wait: ackWaitMs * 1e6,
    deliver_policy: 'new',
    max_ack_pending: single ? 1 : -1,
  }
}

function headersOf(
  { headers }: NatsPlace,
  { attributes = {}, headers: others = {}, contentType }: RawMessage,
): MsgHdrs {
  const all = headers()
  for (const [name, value] of Object.entries(attributes)) all.set(`ce-${name}`, encodeURIComponent(value))
  for (const [name, value] of Object.entries(others)) all.set(name, value)
  if (contentType !== undefined) all.set('Content-Type', contentType)
  return all
}

async function receive({ plain, stream }: NatsPlace, group: string, count: number): Promise<RawMessage[]> {
  const consumer = await plain.consumers.get(stream, group)
  const received: RawMessage[] = []
  for await (const message of await consumer.fetch({ max_messages: count, expires: 30_000 })) {
    received.push(rawOf(message.headers, message.data))
    message.ack()
  }
  return received
}

function rawOf(read: MsgHdrs | undefined, body: Uint8Array): RawMessage {
  const attributes: Record<string, string> = {}
  const others: Record<string, string> = {}
  for (const [name, [value = '']] of read ?? []) {
    if (name.startsWith('ce-')) attributes[name.slice(3)] = decodeURIComponent(value)
    else others[name] = value
  }
  const { datacontenttype, ...known } = attributes
  return { body, attributes: known, headers: others, contentType: others['Content-Type'] ?? datacontenttype ?? '' }
}
