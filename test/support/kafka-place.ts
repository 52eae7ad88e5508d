import { randomBytes } from 'node:crypto'
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import type { Destination, Subscription } from 'hapax'
import { kafka } from 'hapax/kafka'
import type { BrokerHarness, RawMessage, TestBroker } from 'hapax/testing'
import { KafkaProxy } from './kafka-proxy.ts'
import { requireServer } from './servers.ts'

/** Short, because the mock lets a rebalance take as long as a session. */
const SESSION_MS = 3_000
const LARGEST = 1_000_000

export const kafkaHarness: BrokerHarness = {
  name: 'kafka (protocol mock)',
  cannot: {
    unroutable: 'a topic takes every message',
    sharing: 'members share partitions, not messages',
    'links hold messages': 'a member keeps its partitions as long as its session lives, whatever links it uses',
    'single acks': 'an offset is committed when everything before it is finished',
  },
  open: () => KafkaPlace.open(requireServer('kafka')),
}

/** A name that nobody else has. */
export function fresh(name: string): string {
  return `${name}-${randomBytes(6).toString('hex')}`
}

/** Plain clients of a broker. */
export class PlainKafka {
  readonly bootstrapBrokers: string[]
  readonly #admin: Admin
  readonly #producer: Producer

  constructor(url: string) {
    this.bootstrapBrokers = [new URL(url).host]
    const options = { clientId: 'plain', bootstrapBrokers: this.bootstrapBrokers }
    this.#admin = new Admin({ ...options })
    this.#producer = new Producer({ ...options })
  }

  /** The mock makes topics when it is asked for their metadata. */
  async createTopic(name = fresh('topic')): Promise<string> {
    await this.#admin.metadata({ topics: [name], autocreateTopics: true })
    return name
  }

  async send(topic: string, { value, key, headers = {}, partition }: PlainRecord): Promise<void> {
    const record = { topic, value, headers: new Map(Object.entries(headers).map(([k, v]) => [bytes(k), bytes(v)])) }
    const more = {
      ...(key === undefined ? {} : { key: bytes(key) }),
      ...(partition === undefined ? {} : { partition }),
    }
    await this.#producer.send({ messages: [{ ...record, ...more }], acks: -1 })
  }

  /** Joins the group, takes so many records and commits them. */
  async take(topic: string, groupId: string, count: number): Promise<readonly TakenRecord[]> {
    const consumer = this.#consumer(groupId)
    const begin = { mode: 'committed', fallbackMode: 'earliest' } as const
    const stream = await consumer.consume({ topics: [topic], autocommit: false, ...begin })
    const taken: TakenRecord[] = []
    for await (const record of stream) {
      taken.push(record)
      await record.commit()
      if (taken.length >= count) break
    }
    await consumer.close(true)
    return taken
  }

  /** A group that nobody is a member of begins here and now. */
  async beginNow(topic: string, groupId: string): Promise<void> {
    const ends = await this.ends(topic)
    const offsets = ends.map((offset, partition) => ({ topic, partition, offset, leaderEpoch: -1 }))
    const consumer = this.#consumer(groupId)
    consumer.generationId = -1
    consumer.memberId = ''
    await consumer.commit({ offsets: offsets.filter(({ offset }) => offset > 0n) })
    await consumer.close()
  }

  /** How many records of the topic the group has not committed. */
  async lag(topic: string, groupId: string): Promise<number> {
    const [ends, committed] = await Promise.all([this.ends(topic), this.committed(topic, groupId)])
    return ends.reduce((sum, end, partition) => sum + Number(end - (committed[partition] ?? 0n)), 0)
  }

  /** The offsets that come next, by partition. */
  async ends(topic: string): Promise<readonly bigint[]> {
    const consumer = this.#consumer('none')
    const ends = (await consumer.listOffsets({ topics: [topic], timestamp: -1n })).get(topic) ?? []
    await consumer.close()
    return ends
  }

  /** What the group has committed, by partition; undefined where it has not. */
  async committed(topic: string, groupId: string): Promise<readonly (bigint | undefined)[]> {
    const consumer = this.#consumer(groupId)
    const { partitionsCount = 0 } = (await consumer.metadata({ topics: [topic] })).topics.get(topic) ?? {}
    const partitions = Array.from({ length: partitionsCount }, (_, partition) => partition)
    const offsets = (await consumer.listCommittedOffsets({ topics: [{ topic, partitions }] })).get(topic) ?? []
    await consumer.close()
    return partitions.map((partition) => {
      const offset = offsets[partition]
      return offset === undefined || offset < 0n ? undefined : offset
    })
  }

  async close(): Promise<void> {
    await Promise.all([this.#admin.close(), this.#producer.close()])
  }

  #consumer(groupId: string): Consumer {
    const times = { sessionTimeout: SESSION_MS, rebalanceTimeout: SESSION_MS, heartbeatInterval: 300 }
    return new Consumer({ clientId: 'plain', bootstrapBrokers: this.bootstrapBrokers, groupId, ...times })
  }
}

interface PlainRecord {
  readonly value: Buffer
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly partition?: number
}

interface TakenRecord {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  readonly partition: number
}

function bytes(text: string): Buffer {
  return Buffer.from(text)
}

/** One topic, reached through a proxy by hapax and directly by the plain client. */
class KafkaPlace implements TestBroker {
  readonly largestBytes = LARGEST
  readonly #proxy: KafkaProxy
  readonly #plain: PlainKafka
  readonly #topic: string
  readonly #groups = new Set<string>()

  private constructor(proxy: KafkaProxy, plain: PlainKafka, topic: string) {
    this.#proxy = proxy
    this.#plain = plain
    this.#topic = topic
  }

  static async open(url: string): Promise<KafkaPlace> {
    const plain = new PlainKafka(url)
    return new KafkaPlace(await KafkaProxy.open(url), plain, await plain.createTopic())
  }

  destination({ format = 'binary' }: Parameters<TestBroker['destination']>[0] = {}): Destination {
    const options = { format, maxMessageBytes: LARGEST, publishTimeoutMs: 10_000 }
    return kafka({ url: this.#proxy.url }).topic(this.#topic, options)
  }

  async subscription(group: string): Promise<Subscription> {
    if (!this.#groups.has(group)) await this.#plain.beginNow(this.#topic, this.#group(group))
    this.#groups.add(group)
    const options = { topic: this.#topic, sessionTimeoutMs: SESSION_MS, commitIntervalMs: 20 }
    return kafka({ url: this.#proxy.url }).group(this.#group(group), options)
  }

  async send({ body, contentType, attributes = {}, headers = {}, properties = {} }: RawMessage): Promise<void> {
    const ce = Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value])
    const type = contentType === undefined ? {} : { 'content-type': contentType }
    const key = properties['key']
    await this.#plain.send(this.#topic, {
      value: Buffer.from(body),
      headers: { ...headers, ...Object.fromEntries(ce), ...type },
      ...(key === undefined ? {} : { key }),
    })
  }

  async receive(group: string, count: number): Promise<readonly RawMessage[]> {
    return (await this.#plain.take(this.#topic, this.#group(group), count)).map(rawOf)
  }

  waiting(group: string): Promise<number> {
    return this.#plain.lag(this.#topic, this.#group(group))
  }

  async cut(): Promise<void> {
    this.#proxy.links.cut()
  }

  away(): Promise<void> {
    return this.#proxy.links.refuse()
  }

  back(): Promise<void> {
    return this.#proxy.links.accept()
  }

  async freeze(): Promise<void> {
    this.#proxy.links.freeze()
  }

  async thaw(): Promise<void> {
    this.#proxy.links.thaw()
  }

  async close(): Promise<void> {
    await this.#plain.close()
    await this.#proxy[Symbol.asyncDispose]()
  }

  #group(name: string): string {
    return `${name}-${this.#topic}`
  }
}

function rawOf({ value, key, headers }: TakenRecord): RawMessage {
  const all = [...headers].map(([name, text]) => [String(name), String(text)] as const)
  const attributes = all
    .filter(([name]) => name.startsWith('ce_'))
    .map(([name, text]) => [name.slice(3), text] as const)
  const others = all.filter(([name]) => !name.startsWith('ce_') && name !== 'content-type')
  const contentType = all.find(([name]) => name === 'content-type')?.[1]
  return {
    body: value,
    ...(contentType === undefined ? {} : { contentType }),
    attributes: Object.fromEntries(attributes),
    headers: Object.fromEntries(others),
    properties: key === undefined ? {} : { key: String(key) },
  }
}
