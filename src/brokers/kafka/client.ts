import { loadClient } from '../../base/index.ts'

/** A record as the producer takes it. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly key?: Buffer
  readonly value: Buffer
  readonly headers: Map<Buffer, Buffer>
}

/** A batch of records as it was fetched. */
export interface KafkaBatch {
  readonly firstOffset: bigint
  readonly lastOffsetDelta: number
  readonly partitionLeaderEpoch: number
  readonly attributes: number
  readonly firstTimestamp: bigint
  readonly producerId: bigint
  readonly records: readonly {
    readonly offsetDelta: number
    readonly timestampDelta: bigint
    readonly key: Buffer | null
    readonly value: Buffer | null
    readonly headers: readonly (readonly [Buffer | null, Buffer | null])[]
  }[]
}

/** The response to a fetch, for one partition. */
export interface KafkaFetched {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly highWatermark: bigint
  readonly abortedTransactions: readonly { readonly producerId: bigint; readonly firstOffset: bigint }[] | null
  readonly records?: readonly KafkaBatch[] | null
}

/** The response to a fetch. */
export interface KafkaFetchResponse {
  readonly responses: readonly { readonly topicId: string; readonly partitions: readonly KafkaFetched[] }[]
}

/** Where a broker is. */
export interface KafkaBroker {
  readonly host: string
  readonly port: number
}

/** What a client knows of the cluster. A topic may be absent, and a partition may have no leader. */
export interface KafkaMetadata {
  readonly brokers: ReadonlyMap<number, KafkaBroker>
  readonly topics: ReadonlyMap<
    string,
    | {
        readonly id: string
        readonly partitionsCount: number
        readonly partitions: readonly ({ readonly leader: number } | undefined)[]
      }
    | undefined
  >
}

/** The links of a client, by address. */
export interface KafkaConnections extends Iterable<readonly [string, KafkaConnection]> {
  get(broker: KafkaBroker): Promise<KafkaConnection>
  getFirstAvailable(brokers: KafkaBroker[]): Promise<KafkaConnection>
}

/** A link to one broker. */
export interface KafkaConnection {
  readonly socket?: { destroy(): unknown } | undefined
}

/** What every client of `@platformatic/kafka` has, as far as hapax needs it. */
export interface KafkaClient {
  readonly connections: KafkaConnections
  metadata(options: { topics: string[] }): Promise<KafkaMetadata>
  clearMetadata(): void
  close(): Promise<void>
  on(event: string, listener: (payload: never) => void): unknown
}

/** The subset of a `Producer`. */
export interface KafkaProducer extends KafkaClient {
  send(options: { messages: KafkaRecord[]; idempotent: true; acks: -1 }): Promise<unknown>
}

/** An offset to commit: everything before it is finished. */
export interface KafkaOffset {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly leaderEpoch: number
}

/** A member of a group. */
export interface KafkaMember extends KafkaClient {
  readonly topics: { track(topic: string): boolean }
  joinGroup(options: object): Promise<unknown>
  commit(options: { offsets: KafkaOffset[] }): Promise<void>
}

/** The subset of a `Consumer`: hapax joins the group, fetches and commits by itself. */
export interface KafkaConsumer extends KafkaMember {
  listCommittedOffsets(options: { topics: { topic: string; partitions: number[] }[] }): Promise<KafkaOffsets>
  listOffsets(options: {
    topics: string[]
    partitions: Record<string, number[]>
    timestamp: bigint
  }): Promise<KafkaOffsets>
  fetch(options: {
    node: number
    topics: { topicId: string; partitions: KafkaFetchPartition[] }[]
    minBytes: number
    maxBytes: number
    maxWaitTime: number
    isolationLevel: 1
  }): Promise<KafkaFetchResponse>
}

/** Offsets by topic and partition; -1 where there is none. */
export type KafkaOffsets = ReadonlyMap<string, readonly (bigint | undefined)[]>

/** What a fetch asks of one partition. */
export interface KafkaFetchPartition {
  partition: number
  fetchOffset: bigint
  partitionMaxBytes: number
  currentLeaderEpoch: number
  lastFetchedEpoch: number
}

/** The subset of an `Admin`. */
export interface KafkaAdmin extends KafkaClient {
  describeConfigs(options: {
    resources: { resourceType: 2; resourceName: string; configurationKeys: string[] }[]
  }): Promise<{ resourceName: string; configs: { name: string; value?: string | null | undefined }[] }[]>
}

/** Credentials: the options of `@platformatic/kafka` with the same names. */
export interface KafkaSasl {
  readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'OAUTHBEARER' | 'GSSAPI'
  readonly username?: string | (() => string | Promise<string>)
  readonly password?: string | (() => string | Promise<string>)
  readonly token?: string | (() => string | Promise<string>)
}

/** What hapax sets on every client. */
export interface KafkaClientSettings {
  clientId: string
  bootstrapBrokers: string[]
  connectTimeout: number
  requestTimeout: number
  retries: number
  retryDelay: number
  metadataMaxAge: number
  autocreateTopics: false
  tls?: object
  sasl?: KafkaSasl
}

/** What hapax sets on a producer. */
export interface KafkaProducerSettings extends KafkaClientSettings {
  idempotent: true
  acks: -1
  producerId: bigint
  producerEpoch: number
  timeout: number
}

/** What hapax sets on a consumer. */
export interface KafkaConsumerSettings extends KafkaClientSettings {
  groupId: string
  autocommit: false
  sessionTimeout: number
  rebalanceTimeout: number
  heartbeatInterval: number
}

/** Creates clients. hapax closes those that it asked for. */
export interface KafkaClients {
  producer(settings: KafkaProducerSettings): KafkaProducer
  consumer(settings: KafkaConsumerSettings): KafkaConsumer
  admin(settings: KafkaClientSettings): KafkaAdmin
}

/** Clients of the package that the application has installed. */
export async function platformaticKafka(): Promise<KafkaClients> {
  const load = () => import('@platformatic/kafka')
  const { Producer, Consumer, Admin } = await loadClient('kafka()', ['@platformatic/kafka'], load)
  return {
    producer: (settings) => new Producer(settings),
    consumer: (settings) => new Consumer(settings),
    admin: (settings) => new Admin(settings),
  }
}
