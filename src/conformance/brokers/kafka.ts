import { kafka } from '../../brokers/kafka/index.ts'
import type { Destination } from '../../contracts/index.ts'
import type { BrokerHarness, RawMessage, TestBroker } from '../../testing/index.ts'
import { onlyOnce } from '../only-once.ts'
import { KafkaProxy } from './kafka-proxy.ts'
import { fresh, PlainKafka, type TakenRecord } from './plain-kafka.ts'

/**
 * Settings under which losses are noticed soon, but not when the machine stalls for some seconds. With the mock, a rebalance
 * takes nearly as long as a session.
 */
export const HASTY = { sessionTimeoutMs: 6_000, commitIntervalMs: 20 } as const

/** A topic of a test's own, plain clients, and the brokers through a proxy. */
export interface KafkaPlace extends AsyncDisposable {
  readonly topic: string
  readonly plain: PlainKafka
  readonly proxy: KafkaProxy
}

/** A fresh topic, whose name begins with `prefix`. */
export async function kafkaPlace(url: string, prefix = 'topic'): Promise<KafkaPlace> {
  const topic = fresh(prefix)
  const plain = await PlainKafka.open(url)
  try {
    await plain.createTopic(topic)
    const proxy = await KafkaProxy.open(await plain.brokers())
    return { topic, plain, proxy, [Symbol.asyncDispose]: onlyOnce(() => closed(topic, plain, proxy)) }
  } catch (error) {
    await plain.close()
    throw error
  }
}

async function closed(topic: string, plain: PlainKafka, proxy: KafkaProxy): Promise<void> {
  await proxy[Symbol.asyncDispose]()
  // The server of this test may be gone.
  await plain.deleteTopics(topic, untouchedOf(topic)).catch(() => {})
  await plain.close()
}

function untouchedOf(topic: string): string {
  return `${topic}-untouched`
}

const LARGEST = 1_000_000

const cannot = {
  unroutable: 'a topic takes every message',
  sharing: 'members share partitions, not messages',
  'links hold messages': 'a member keeps its partitions as long as its session lives, whatever links it uses',
  'single acks': 'an offset is committed when everything before it is finished',
} as const

/** Which reader has a key is not settled when both have joined: the brokers move partitions a little later. */
const cannotByBrokers = { 'single reader': 'partitions move some time after a member has joined' } as const

/** The conformance harness of Kafka on a cluster: a topic for each case. */
export function kafkaHarness(
  open: () => Promise<KafkaPlace>,
  { name = 'kafka', protocol = 'classic' }: KafkaHarnessOptions = {},
): BrokerHarness {
  return {
    name,
    cannot: protocol === 'classic' ? cannot : { ...cannot, ...cannotByBrokers },
    open: async () => testBroker(await open(), protocol),
  }
}

interface KafkaHarnessOptions {
  readonly name?: string
  /** Of the groups. @default 'classic' */
  readonly protocol?: Protocol
}

type Protocol = 'classic' | 'consumer'

function testBroker(place: KafkaPlace, protocol: Protocol): TestBroker {
  const { topic, plain, proxy } = place
  const groups = new Set<string>()
  const groupId = (group: string): string => `${topic}-${group}`
  return {
    largestBytes: LARGEST,
    destination: (options = {}): Destination =>
      kafka({ url: proxy.url }).topic(topic, { ...options, maxMessageBytes: LARGEST, publishTimeoutMs: 10_000 }),
    // The messages of a key are in one partition, which has a single reader in any case.
    subscription: async (group) => {
      if (!groups.has(group)) await plain.beginNow(topic, groupId(group))
      groups.add(group)
      return kafka({ url: proxy.url }).group(groupId(group), { topic, protocol, ...HASTY })
    },
    untouched: async () => {
      const fresh = await plain.createTopic(untouchedOf(topic))
      const [sender, reader] = [kafka({ url: proxy.url }), kafka({ url: proxy.url })]
      const subscription = reader.group(groupId('untouched'), { topic: fresh, protocol, ...HASTY })
      return { destination: sender.topic(fresh), subscription }
    },
    send: (message) => plain.send(topic, recordOf(message)),
    receive: async (group, count) => (await plain.take(topic, groupId(group), count)).map(rawOf),
    waiting: (group) => plain.lag(topic, groupId(group)),
    cut: async () => proxy.cut(),
    away: () => proxy.refuse(),
    back: () => proxy.accept(),
    freeze: async () => proxy.freeze(),
    thaw: async () => proxy.thaw(),
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
