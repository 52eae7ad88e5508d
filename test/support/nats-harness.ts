import { headers, type MsgHdrs } from '@nats-io/transport-node'
import { nats } from 'hapax/nats'
import type { BrokerHarness, PlaceTimes, RawMessage, TestBroker } from 'hapax/testing'
import { type NatsPlace, natsPlace, waitingIn } from './nats-place.ts'

export const natsHarness: BrokerHarness = {
  name: 'nats',
  cannot: {},
  open: async (times) => testBroker(await natsPlace(), times),
}

async function testBroker(place: NatsPlace, { silenceMs, returnMs }: PlaceTimes): Promise<TestBroker> {
  const { stream, prefix, manager, plain, connection, proxy } = place
  const js = nats({ url: proxy.url, heartbeatMs: silenceMs, timeoutMs: 15_000 })
  await manager.streams.add({ name: stream, subjects: [`${prefix}.>`] })
  const groups = new Set<string>()
  return {
    largestBytes: connection.info?.max_payload ?? 0,
    destination: ({ unroutable = false, format = 'binary' } = {}) =>
      js.stream(stream, { format, ...(unroutable ? { subject: () => `nowhere.${prefix}` } : {}) }),
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
      void (await plain.publish(`${prefix}.plain`, message.body, { headers: headersOf(message) })),
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

function headersOf({ attributes = {}, headers: others = {}, contentType }: RawMessage): MsgHdrs {
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
