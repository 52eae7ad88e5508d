import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Admin, Consumer, Producer } from '@platformatic/kafka'
import { loadClient } from '../../base/index.ts'
import type { KafkaBroker } from '../../brokers/kafka/index.ts'
import { kafkaVersion } from './kafka-version.ts'

type Library = typeof import('@platformatic/kafka')

/** How a batch is compressed. */
type Compression = 'gzip' | 'snappy' | 'lz4' | 'zstd'

/** A unique name. */
export function fresh(name: string): string {
  return `${name}-${randomBytes(6).toString('hex')}`
}

/** Clients of a cluster that are not hapax. */
export class PlainKafka {
  readonly bootstrapBrokers: string[]
  readonly #library: Library
  readonly #admin: Admin
  readonly #producer: Producer
  #apis: Promise<ReadonlySet<string>> | undefined

  private constructor(library: Library, bootstrapBrokers: string[]) {
    this.#library = library
    this.bootstrapBrokers = bootstrapBrokers
    const options = { clientId: 'plain', bootstrapBrokers }
    this.#admin = new library.Admin({ ...options })
    this.#producer = new library.Producer({ ...options })
  }

  /** Connects to nothing yet. */
  static async open(url: string): Promise<PlainKafka> {
    const packages = ['@platformatic/kafka'] as const
    const library = await loadClient('conformance of Kafka', packages, () => import('@platformatic/kafka'))
    return new PlainKafka(library, url.replace(/^kafka:\/\/|\/$/gi, '').split(','))
  }

  /** The brokers of the cluster, as they announce themselves. */
  async brokers(): Promise<readonly KafkaBroker[]> {
    return [...(await this.#admin.metadata({ topics: [] })).brokers.values()]
  }

  /** Whether requests of this name are understood. */
  async understands(api: string): Promise<boolean> {
    this.#apis ??= this.#admin.listApis().then((apis) => new Set(apis.map(({ name }) => name)))
    return (await this.#apis).has(api)
  }

  /** What the cluster is. */
  async server(): Promise<string> {
    const [broker] = await this.brokers()
    if (!(await this.understands('CreateTopics'))) return 'Kafka protocol mock'
    const version = broker && (await kafkaVersion(this.#library, broker))
    return version === undefined ? 'Kafka broker' : `Kafka ${version}`
  }

  /** Creates a topic, and waits until it can be used. The mock does so when it is asked for the metadata. */
  async createTopic(
    name: string = fresh('topic'),
    { partitions = 4, replicas = -1, configs = {} }: TopicShape = {},
  ): Promise<string> {
    const settings = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
    const topics = [name]
    if (await this.understands('CreateTopics')) {
      await this.#admin.createTopics({ topics, partitions, replicas, configs: settings }).catch(unlessThere)
    } else await this.#admin.metadata({ topics, autocreateTopics: true })
    await eventually(() => this.#hasLeaders(name), `the topic ${name} has leaders`)
    return name
  }

  /** Makes so many of it. */
  async addPartitions(topic: string, count: number): Promise<void> {
    await this.#admin.createPartitions({ topics: [{ name: topic, count, assignments: null as never }] })
    await eventually(() => this.#hasLeaders(topic), `the topic ${topic} has leaders`)
  }

  /** Deletes what there is of these topics. The mock keeps them. */
  async deleteTopics(...topics: string[]): Promise<void> {
    if (!(await this.understands('DeleteTopics'))) return
    for (const each of topics) await this.#admin.deleteTopics({ topics: [each] }).catch(unlessAbsent)
  }

  /** Deletes the topics and the groups whose names begin so; waits until members that did not leave are forgotten. */
  async deleteAll(prefix: string): Promise<void> {
    const named = (names: Iterable<string>): string[] => [...names].filter((name) => name.startsWith(prefix))
    if (!(await this.understands('DeleteTopics'))) return
    await this.deleteTopics(...named(await this.#admin.listTopics()))
    await eventually(async () => {
      const groups = named((await this.#admin.listGroups()).keys())
      for (const each of groups) await this.#admin.deleteGroups({ groups: [each] }).catch(() => {})
      return groups.length === 0
    }, `the groups called ${prefix}… are deleted`)
  }

  async #hasLeaders(topic: string): Promise<boolean> {
    const metadata = await this.#admin.metadata({ topics: [topic], forceUpdate: true }).catch(() => undefined)
    const { partitions = [] } = metadata?.topics.get(topic) ?? {}
    return partitions.length > 0 && partitions.every(({ leader }) => leader >= 0)
  }

  async send(topic: string, { value, key, headers = {}, partition }: PlainRecord): Promise<void> {
    const record = {
      topic,
      value: value as Buffer,
      headers: new Map(Object.entries(headers).map(([k, v]) => [bytes(k), bytes(v)])),
    }
    const more = {
      ...(key === undefined ? {} : { key: bytes(key) }),
      ...(partition === undefined ? {} : { partition }),
    }
    await this.#producer.send({ messages: [{ ...record, ...more }], acks: -1 })
  }

  /** Sends values as one batch, compressed. */
  async sendCompressed(topic: string, compression: Compression, records: readonly PlainRecord[]): Promise<void> {
    const messages = records.map(({ value, headers = {} }) => ({
      topic,
      partition: 0,
      value: value as Buffer,
      headers: new Map(Object.entries(headers).map(([k, v]) => [bytes(k), bytes(v)])),
    }))
    await this.#producer.send({ messages, acks: -1, compression })
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

  /** Makes a group without members begin at the current end. */
  async beginNow(topic: string, groupId: string): Promise<void> {
    const ends = await this.ends(topic)
    const offsets = ends.map((offset, partition) => ({ topic, partition, offset }))
    await this.commit(groupId, ...offsets.filter(({ offset }) => offset > 0n))
  }

  /** Commits for a group without members. */
  async commit(groupId: string, ...offsets: { topic: string; partition: number; offset: bigint }[]): Promise<void> {
    const consumer = this.#consumer(groupId)
    consumer.generationId = -1
    consumer.memberId = ''
    await consumer.commit({ offsets: offsets.map((each) => ({ ...each, leaderEpoch: -1 })) })
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
    const times = { sessionTimeout: 6_000, rebalanceTimeout: 6_000, heartbeatInterval: 300 }
    return new this.#library.Consumer({ clientId: 'plain', bootstrapBrokers: this.bootstrapBrokers, groupId, ...times })
  }
}

type Refusal = { readonly errors?: readonly { readonly apiId?: string }[] }

function unlessThere(error: Refusal): void {
  if (!error.errors?.some(({ apiId }) => apiId === 'TOPIC_ALREADY_EXISTS')) throw error
}

function unlessAbsent(error: Refusal): void {
  if (!error.errors?.some(({ apiId }) => apiId === 'UNKNOWN_TOPIC_OR_PARTITION')) throw error
}

interface TopicShape {
  readonly partitions?: number
  /** @default what the broker says */
  readonly replicas?: number
  readonly configs?: Readonly<Record<string, string>>
}

interface PlainRecord {
  readonly value: Buffer | null
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly partition?: number
}

export interface TakenRecord {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  readonly partition: number
}

const DEADLINE_MS = 30_000

async function eventually(holds: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + DEADLINE_MS
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not in time: ${what}`)
    await delay(10)
  }
}

function bytes(text: string): Buffer {
  return Buffer.from(text)
}
