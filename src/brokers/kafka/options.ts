import {
  describe,
  expected,
  loadClient,
  nameText,
  noOthers,
  object,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  shownUrl,
  spanMs,
} from '../../base/index.ts'
import type { Encode } from '../../contracts/index.ts'
import type { EventFormat } from '../../message/index.ts'
import { encoderOption } from '../kit/index.ts'
import {
  type KafkaClientSettings,
  type KafkaClients,
  type KafkaConsumer,
  type KafkaMember,
  type KafkaSasl,
  platformaticKafka,
} from './client.ts'
import type { TopicSettings } from './destination.ts'
import { forgetLostCoordinators } from './link.ts'
import { ConsumerMember, type ConsumerMemberSettings } from './reading/consumer-member.ts'
import { boundBatches } from './reading/decompression.ts'
import type { GroupSettings } from './subscription.ts'

/** Where the brokers are, and how to log in. */
export interface KafkaOptions {
  /** Some of the brokers, `kafka://one:9092,two:9092`; the others are discovered from them. Or `brokers`. */
  readonly url?: string | undefined
  /** Some of the brokers, `['one:9092', 'two:9092']`. */
  readonly brokers?: readonly string[]
  /** The client id that the brokers log. @default 'hapax' */
  readonly clientId?: string
  /** TLS with the defaults of Node.js, or with these options of `tls.connect`. @default no TLS */
  readonly tls?: boolean | object
  readonly sasl?: KafkaSasl
  /** @default 5_000 */
  readonly connectTimeoutMs?: number
  /** Creates the clients where these options are not enough: `{ producer: (settings) => new Producer({ ...settings, … }), … }`. */
  readonly clients?: KafkaClients
}

/** Settings of a topic that a relay sends to. */
export interface KafkaTopicOptions {
  /**
   * How messages are written: as CloudEvents; as plain JSON, for readers that know nothing of CloudEvents; or by a function of yours.
   * @default 'cloudevents'
   */
  readonly encode?: Encode
  /** CloudEvents: attributes as headers beside the value, or all of it as one JSON text. @default 'binary' */
  readonly format?: EventFormat
  /** Larger messages are refused without being sent. @default 16 MiB */
  readonly maxMessageBytes?: number
  /** How long a send may take, including the client's own retries. After that the messages are sent again. @default 20_000 */
  readonly publishTimeoutMs?: number
}

/** Settings of a group that a consumer reads as. */
export interface KafkaGroupOptions {
  readonly topic?: string
  /** Several topics, read by the same members. */
  readonly topics?: readonly string[]
  /** Where to begin in partitions for which the group has committed no offset. @default 'earliest' */
  readonly from?: 'earliest' | 'latest'
  /**
   * How the group shares its partitions: `classic`, in which a member assigns them and all of them stop for it; or `consumer`, in which the
   * brokers do (Kafka 4 or later). All members of a group use the same one.
   * @default 'classic'
   */
  readonly protocol?: 'classic' | 'consumer'
  /** A member that is silent for this long is presumed dead, and its partitions go to others. @default 20_000 */
  readonly sessionTimeoutMs?: number
  /** How often offsets are committed. Also on close, before a rebalance and when many are due. @default 1_000 */
  readonly commitIntervalMs?: number
  /**
   * A batch that would be larger than this after decompression is not read. One message in the failed store stands for it.
   * @default 64 MiB
   */
  readonly maxBatchBytes?: number
  /** For how long a message may be redelivered; receipts have to be kept that long. @default `retention.ms` of the topics, where it can be read */
  readonly horizonMs?: number
}

const OPTIONS = ['url', 'brokers', 'clientId', 'tls', 'sasl', 'connectTimeoutMs', 'clients'] as const
const TOPIC_OPTIONS = ['encode', 'format', 'maxMessageBytes', 'publishTimeoutMs'] as const
const GROUP_OPTIONS = [
  'topic',
  'topics',
  'from',
  'protocol',
  'sessionTimeoutMs',
  'commitIntervalMs',
  'maxBatchBytes',
  'horizonMs',
] as const

/** What all clients have in common, and how they are created. */
interface Base {
  readonly settings: Pick<KafkaClientSettings, 'clientId' | 'bootstrapBrokers' | 'connectTimeout' | 'tls' | 'sasl'>
  clients(): Promise<KafkaClients>
}

/** Checks the options of `kafka()`. */
export function baseSettings(options: KafkaOptions): Base {
  noOthers('options of kafka', options, OPTIONS)
  refuseUnsetUrl(options, options.brokers)
  const clients = async (): Promise<KafkaClients> => options.clients ?? (await platformaticKafka())
  return { settings: clientSettings(options), clients }
}

function clientSettings(options: KafkaOptions): Base['settings'] {
  const { url, brokers, clientId, tls, sasl, connectTimeoutMs, clients } = options
  if ((url === undefined) === (brokers === undefined)) {
    expected('options of kafka', 'an object with either url or brokers', url === undefined ? 'neither' : 'both')
  }
  if (tls !== undefined && typeof tls !== 'boolean') object('tls', tls, 'true, false or options of tls.connect')
  if (sasl !== undefined && typeof sasl?.mechanism !== 'string') expected('sasl', 'an object with a mechanism', sasl)
  for (const name of ['producer', 'consumer', 'admin'] as const) {
    if (clients !== undefined && typeof clients?.[name] !== 'function') {
      expected('clients', 'functions producer, consumer and admin', clients)
    }
  }
  return {
    clientId: clientId === undefined ? 'hapax' : nameText('clientId', clientId),
    bootstrapBrokers: brokers === undefined ? brokersOf(url) : checkBrokers(brokers),
    connectTimeout: positiveInteger('connectTimeoutMs', connectTimeoutMs, 5_000),
    ...(tls === undefined || tls === false ? {} : { tls: tls === true ? {} : tls }),
    ...(sasl === undefined ? {} : { sasl }),
  }
}

/** Credentials in the URL are refused: they belong in `sasl`, which also names the mechanism. */
function brokersOf(url: string | undefined): string[] {
  const hosts = typeof url === 'string' ? /^kafka:\/\/([^/?#@]+)\/?$/i.exec(url)?.[1] : undefined
  if (hosts === undefined) expected('url', 'like kafka://one:9092,two:9092', shownWrong(url))
  return checkBrokers(hosts.split(','))
}

function shownWrong(url: unknown): string {
  if (typeof url !== 'string') return describe(url)
  return url.includes('@') ? `${shownUrl(url)}, with a user: that belongs into sasl` : shownUrl(url)
}

function checkBrokers(brokers: readonly string[]): string[] {
  const what = "a list like ['one:9092', 'two:9092']"
  if (!Array.isArray(brokers) || brokers.length === 0) expected('brokers', what, brokers)
  const wrong = brokers.find(
    (each) => typeof each !== 'string' || !BROKER.test(each) || !URL.canParse(`kafka://${each}`),
  )
  if (wrong !== undefined) expected('brokers', what, wrong)
  return [...brokers]
}

/** A host name or address, and an optional port. */
const BROKER = /^(\[[0-9a-f:.]+\]|[^\s:/@[\]]+)(:\d{1,5})?$/i

/** Checks the options of a topic. */
export function topicSettings(
  name: string,
  options: KafkaTopicOptions,
  { settings: base, clients }: Base,
): TopicSettings {
  noOthers('options of topic', options, TOPIC_OPTIONS)
  const publishTimeoutMs = positiveInteger('publishTimeoutMs', options.publishTimeoutMs, 20_000)
  // Half of it, so that a send survives the loss of one request.
  const requestTimeout = Math.ceil(publishTimeoutMs / 2)
  return {
    at: `kafka://${base.bootstrapBrokers.join(',')}`,
    topic: nameText('topic', name, 249),
    encoder: encoderOption(options),
    maxMessageBytes: positiveInteger('maxMessageBytes', options.maxMessageBytes, 16 * 1024 * 1024),
    publishTimeoutMs,
    load: clients,
    producer: async () =>
      (await clients()).producer({
        ...base,
        ...COMMON,
        // The client treats a smaller number as no limit.
        retries: 2,
        retryDelay: 200,
        requestTimeout,
        timeout: requestTimeout,
        idempotent: true,
        acks: -1,
        // Asks for a new producer id. The default of the client is 0, which is the id of an existing producer.
        producerId: -1n,
        producerEpoch: -1,
      }),
  }
}

/** Checks the options of a group. */
export function groupSettings(
  name: string,
  options: KafkaGroupOptions,
  { settings: base, clients }: Base,
): GroupSettings {
  noOthers('options of group', options, GROUP_OPTIONS)
  const sessionTimeoutMs = positiveInteger('sessionTimeoutMs', options.sessionTimeoutMs, 20_000)
  const maxBatchBytes = positiveInteger('maxBatchBytes', options.maxBatchBytes, 64 * 1024 * 1024)
  const groupId = nameText('group', name)
  const topics = topicsOf(options)
  const protocol = oneOf('protocol', ['classic', 'consumer'], options.protocol, 'classic')
  const consumer = {
    ...base,
    ...COMMON,
    retries: 0,
    retryDelay: 200,
    groupId,
    autocommit: false,
    sessionTimeout: sessionTimeoutMs,
    rebalanceTimeout: sessionTimeoutMs,
    heartbeatInterval: Math.min(3_000, Math.ceil(sessionTimeoutMs / 6)),
  } as const
  return {
    group: groupId,
    topics,
    from: oneOf('from', ['earliest', 'latest'], options.from, 'earliest'),
    commitIntervalMs: positiveInteger('commitIntervalMs', options.commitIntervalMs, 1_000),
    horizonMs: options.horizonMs === undefined ? undefined : spanMs('horizonMs', options.horizonMs),
    clients: async () => {
      const make = await clients()
      // A join is answered when the group is complete, which may take as long as a session. The leader assigns the partitions that
      // it knows of, so its metadata must never be stale.
      const client = make.consumer({ ...consumer, metadataMaxAge: 0, requestTimeout: sessionTimeoutMs + 5_000 })
      const member =
        protocol === 'classic' ? client : await byBrokers(client, { group: groupId, topics, sessionTimeoutMs })
      const fetching = make.consumer({ ...consumer, requestTimeout: Math.max(2_000, Math.ceil(sessionTimeoutMs / 2)) })
      const library = await import('@platformatic/kafka').catch(() => ({}))
      for (const each of [client, fetching]) forgetLostCoordinators(each, library)
      boundBatches(fetching, library, maxBatchBytes)
      const admin = make.admin({ ...base, ...COMMON, retries: 0, retryDelay: 200, requestTimeout: 5_000 })
      return { member, fetching, admin }
    },
  }
}

async function byBrokers(client: KafkaConsumer, settings: ConsumerMemberSettings): Promise<KafkaMember> {
  const requests = await loadClient('kafka()', ['@platformatic/kafka'], () => import('@platformatic/kafka'))
  return new ConsumerMember(client, requests, settings)
}

/** Metadata is also refreshed after every error. */
const COMMON = { metadataMaxAge: 30_000, autocreateTopics: false } as const

function topicsOf({ topic, topics }: KafkaGroupOptions): readonly string[] {
  if ((topic === undefined) === (topics === undefined)) {
    expected('options of group', 'an object with either topic or topics', topic === undefined ? 'neither' : 'both')
  }
  const all = topic === undefined ? topics : [topic]
  if (!Array.isArray(all) || all.length === 0) expected('topics', 'a list of topics', all)
  return [...new Set(all.map((each) => nameText('topic', each, 249)))]
}
