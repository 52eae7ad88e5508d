import type { Destination } from 'hapax'
import { kafka } from 'hapax/kafka'
import type { BrokerHarness, RawMessage, TestBroker } from 'hapax/testing'
import { HASTY, type KafkaPlace, kafkaPlace, type TakenRecord } from './kafka-place.ts'

const LARGEST = 1_000_000

export const kafkaHarness: BrokerHarness = {
  name: 'kafka (protocol mock)',
  cannot: {
    unroutable: 'a topic takes every message',
    sharing: 'members share partitions, not messages',
    'links hold messages': 'a member keeps its partitions as long as its session lives, whatever links it uses',
    'single acks': 'an offset is committed when everything before it is finished',
  },
  open: async () => testBroker(await kafkaPlace()),
}

function testBroker(place: KafkaPlace): TestBroker {
  const { topic, plain, proxy } = place
  const groups = new Set<string>()
  const groupId = (group: string): string => `${group}-${topic}`
  return {
    largestBytes: LARGEST,
    destination: ({ format = 'binary' } = {}): Destination =>
      kafka({ url: proxy.url }).topic(topic, { format, maxMessageBytes: LARGEST, publishTimeoutMs: 10_000 }),
    // The messages of a key are in one partition, which has a single reader in any case.
    subscription: async (group) => {
      if (!groups.has(group)) await plain.beginNow(topic, groupId(group))
      groups.add(group)
      return kafka({ url: proxy.url }).group(groupId(group), { topic, ...HASTY })
    },
    untouched: async () => {
      const fresh = await plain.createTopic()
      const [sender, reader] = [kafka({ url: proxy.url }), kafka({ url: proxy.url })]
      const subscription = reader.group(groupId('untouched'), { topic: fresh, ...HASTY })
      return { destination: sender.topic(fresh), subscription }
    },
    send: (message) => plain.send(topic, recordOf(message)),
    receive: async (group, count) => (await plain.take(topic, groupId(group), count)).map(rawOf),
    waiting: (group) => plain.lag(topic, groupId(group)),
    cut: async () => proxy.links.cut(),
    away: () => proxy.links.refuse(),
    back: () => proxy.links.accept(),
    freeze: async () => proxy.links.freeze(),
    thaw: async () => proxy.links.thaw(),
    close: async () => place[Symbol.asyncDispose](),
  }
}

function recordOf({
  body,
  contentType,
  attributes = {},
  headers = {},
}: RawMessage): Parameters<KafkaPlace['plain']['send']>[1] {
  const ours = Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value])
  const type = contentType === undefined ? {} : { 'content-type': contentType }
  return { value: Buffer.from(body), headers: { ...headers, ...Object.fromEntries(ours), ...type } }
}

function rawOf({ value, key, headers }: TakenRecord): RawMessage {
  const attributes: Record<string, string> = {}
  const others: Record<string, string> = {}
  for (const [name, text] of [...headers].map((each) => each.map(String) as [string, string])) {
    if (name.startsWith('ce_')) attributes[name.slice(3)] = text
    else others[name] = text
  }
  const { 'content-type': contentType = '', ...rest } = others
  return {
    body: value,
    contentType,
    attributes,
    headers: rest,
    properties: key === undefined ? {} : { key: String(key) },
  }
}
