import {
  callback,
  expected,
  flag,
  noOthers,
  object,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  shownUrl,
  spanMs,
  text,
} from '../../base/index.ts'
import type { Encode } from '../../contracts/index.ts'
import type { EventFormat, OutgoingMessage } from '../../message/index.ts'
import { type DeclareOption, declareOption, type Encoder, encoderOption } from '../kit/index.ts'

/** The part of a `NatsConnection` that identifies one. */
export interface NatsConnectionLike {
  publish(subject: string, payload?: Uint8Array): void
  flush(): Promise<void>
  isClosed(): boolean
  status(): AsyncIterable<{ readonly type: string }>
}

/** Options of either kind of connection. */
interface Common {
  /** A link that has been silent for this long is given up, and so is a pull request that the server forgot. @default 20_000 */
  readonly heartbeatMs?: number
  /**
   * How long connecting, each request about streams and consumers, and the confirmation of a message may take. A link that does not confirm
   * in time is given up. @default 10_000
   */
  readonly timeoutMs?: number
}

/** Links that hapax opens and closes itself: one for each destination and each reader. */
export interface NatsUrlOptions extends Common {
  /** `nats://host:4222`, `tls://…`, with `user:password@` or `token@` if need be; several of one cluster as a list. */
  readonly url: string | readonly string[] | undefined
  /** Other options of the client's `connect`: `tls`, `authenticator`, `inboxPrefix` and so on. @default none */
  readonly client?: Readonly<Record<string, unknown>>
}

/** Your own connection. hapax never closes it; it has to reconnect by itself. */
export interface NatsConnectionOptions extends Common {
  readonly connection: NatsConnectionLike
}

export type NatsOptions = NatsUrlOptions | NatsConnectionOptions

/**
 * What hapax does about a stream or a consumer before it uses it. `assert`: creates it if it does not exist, else compares it.
 * `check`: only compares it. `none`: nothing. An existing one is never changed.
 */
export type Declare = DeclareOption

/** Settings of a stream to send to. Options that are left out are not compared. */
export interface NatsStreamOptions {
  /** The subjects that the stream captures. @default one subject with everything below the stream's name in lower case: `shop.>` for SHOP */
  readonly subjects?: readonly string[]
  /** The subject of a message. @default its type below the stream's name in lower case: `shop.order.placed` */
  readonly subject?: (message: OutgoingMessage) => string
  /**
   * How messages are written: as CloudEvents; as plain JSON, for readers that know nothing of CloudEvents; or by a function of yours.
   * @default 'cloudevents'
   */
  readonly encode?: Encode
  /** CloudEvents: attributes as headers beside the body, or the whole message as one JSON text. @default 'binary' */
  readonly format?: EventFormat
  /** @default 'assert' */
  readonly declare?: Declare
  /** @default 'file' */
  readonly storage?: 'file' | 'memory'
  /** On how many servers of a cluster each message is kept. @default 1 */
  readonly replicas?: number
  /** For how long messages are kept, read or not. @default for ever */
  readonly maxAgeMs?: number
  /** How many bytes the stream may hold. A full stream refuses messages. @default no limit */
  readonly maxBytes?: number
  /** For how long the server recognises a message that it got before, and drops it. @default 120_000, or maxAgeMs if that is less */
  readonly duplicateWindowMs?: number
}

/** Settings of a durable pull consumer to read from. Options that are left out are not compared. */
export interface NatsConsumerOptions {
  /** The stream that it reads. */
  readonly stream: string
  /** The subjects that it reads. @default all subjects of the stream */
  readonly filter?: string
  /** Where a new consumer begins: with everything in the stream, or with what comes from now on. @default 'all' */
  readonly deliver?: 'all' | 'new'
  /** After this time without a sign of life from the reader, the server delivers a message to another one. @default 30_000 */
  readonly ackWaitMs?: number
  /** How often the server delivers a message before it goes to the failed store. @default no limit */
  readonly maxDeliver?: number
  /** One message at a time for all readers together, so that the messages of a key stay in order; slow. @default false */
  readonly single?: boolean
  /** @default 'assert' */
  readonly declare?: Declare
}

/** Options of links, with every default filled in. */
export interface LinkSettings {
  readonly heartbeatMs: number
  readonly timeoutMs: number
  readonly origin:
    | { readonly urls: readonly string[]; readonly client: object }
    | { readonly given: NatsConnectionLike }
}

/** A stream, as it was asked for. */
export interface StreamPlan extends Omit<NatsStreamOptions, 'encode' | 'format' | 'declare' | 'subjects'> {
  readonly name: string
  /** What the default subjects begin with: the name in lower case. */
  readonly prefix: string
  readonly subjects: readonly string[] | undefined
  readonly encoder: Encoder
  readonly declare: Declare
}

/** A consumer, as it was asked for. */
export interface ConsumerPlan extends Omit<NatsConsumerOptions, 'single' | 'declare' | 'deliver'> {
  readonly name: string
  readonly deliver: 'all' | 'new'
  readonly single: boolean
  readonly declare: Declare
}

/** Checks the options of `nats()` and fills in the defaults. */
export function linkSettings(options: NatsOptions): LinkSettings {
  noOthers('options of nats', options, ['url', 'client', 'connection', 'heartbeatMs', 'timeoutMs'])
  if (!('connection' in options)) refuseUnsetUrl(options)
  return {
    heartbeatMs: positiveInteger('heartbeatMs', options.heartbeatMs, 20_000),
    timeoutMs: positiveInteger('timeoutMs', options.timeoutMs, 10_000),
    origin: 'connection' in options ? given(options) : { urls: urlsOf(options.url), client: clientOf(options.client) },
  }
}

function given(options: NatsConnectionOptions): LinkSettings['origin'] {
  const { connection } = options
  if (typeof connection?.publish !== 'function' || typeof connection.status !== 'function') {
    expected('connection', 'a connection of @nats-io/transport-node', connection)
  }
  const both = ['url', 'client'].find((name) => name in options)
  if (both !== undefined) expected(both, 'absent, because a connection is given', '(not shown)')
  return { given: connection }
}

function urlsOf(url: NatsUrlOptions['url']): readonly string[] {
  const urls = typeof url === 'string' ? [url] : url
  const fine = Array.isArray(urls) && urls.length > 0 && urls.every((each) => URL.canParse(each) && SCHEME.test(each))
  if (!fine) {
    const got = Array.isArray(urls) ? urls.map(shownUrl).join(', ') : shownUrl(url)
    expected('url', 'like nats://host:4222 or tls://host:4222, or a list of such', got)
  }
  return urls
}

const SCHEME = /^(nats|tls):\/\/./

function clientOf(client: object = {}): object {
  object('client', client)
  return client
}

const STREAM = [
  'subjects',
  'subject',
  'encode',
  'format',
  'declare',
  'storage',
  'replicas',
  'maxAgeMs',
  'maxBytes',
  'duplicateWindowMs',
] as const satisfies readonly (keyof NatsStreamOptions)[]

/** Checks the options of a stream. */
export function streamPlan(name: string, options: NatsStreamOptions): StreamPlan {
  noOthers('options of stream', options, STREAM)
  const { subjects, subject, storage, replicas, maxBytes, maxAgeMs, duplicateWindowMs } = options
  if (subjects !== undefined && !(Array.isArray(subjects) && subjects.length > 0 && subjects.every(isPattern))) {
    expected('subjects', "a list of subjects such as 'shop.>'", subjects)
  }
  callback('subject', subject)
  if (storage !== undefined) oneOf('storage', ['file', 'memory'], storage, 'file')
  if (replicas !== undefined) positiveInteger('replicas', replicas, 1)
  if (maxAgeMs !== undefined) spanMs('maxAgeMs', maxAgeMs)
  if (duplicateWindowMs !== undefined) spanMs('duplicateWindowMs', duplicateWindowMs)
  if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes > 0)) {
    expected('maxBytes', 'a positive integer', maxBytes)
  }
  return {
    ...options,
    name: plainName('name', name),
    prefix: name.toLowerCase(),
    subjects,
    encoder: encoderOption(options),
    declare: declareOption(options.declare),
  }
}

const CONSUMER = [
  'stream',
  'filter',
  'deliver',
  'ackWaitMs',
  'maxDeliver',
  'single',
  'declare',
] as const satisfies readonly (keyof NatsConsumerOptions)[]

/** Checks the options of a consumer. */
export function consumerPlan(name: string, options: NatsConsumerOptions): ConsumerPlan {
  noOthers('options of consumer', options, CONSUMER)
  const { stream, filter, ackWaitMs, maxDeliver } = options
  if (filter !== undefined && !isPattern(filter)) expected('filter', "a subject such as 'shop.order.>'", filter)
  if (ackWaitMs !== undefined) positiveInteger('ackWaitMs', ackWaitMs, 30_000)
  if (maxDeliver !== undefined) positiveInteger('maxDeliver', maxDeliver, 1)
  const single = flag('single', options.single, false)
  // After the limit the server goes on with the next message, which would overtake the one it gave up.
  if (single && maxDeliver !== undefined) expected('maxDeliver', 'absent, because single keeps the order', maxDeliver)
  return {
    ...options,
    name: plainName('name', name),
    stream: plainName('stream', stream),
    deliver: oneOf('deliver', ['all', 'new'], options.deliver, 'all'),
    single,
    declare: declareOption(options.declare),
  }
}

/** What NATS allows as the name of a stream or a consumer: it becomes a part of subjects. */
function plainName(name: string, value: string): string {
  if (!/^[!-~]+$/.test(text(name, value)) || /[.*>/\\]/.test(value)) {
    expected(name, "a name of printable ASCII without spaces, '.', '*', '>', '/' and '\\'", value)
  }
  return value
}

function isPattern(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 255 && /^[!-~]+$/.test(value) && value.split('.').every(Boolean)
}
