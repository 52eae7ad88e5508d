import {
  expected,
  flag,
  nameText,
  noOthers,
  oneOf,
  positiveInteger,
  refuseUnsetUrl,
  spanMs,
  systemClock,
  text,
  wholeNumber,
} from '../../base/index.ts'
import type { Encode } from '../../contracts/index.ts'
import type { EventFormat } from '../../message/index.ts'
import { declareOption, encoderOption } from '../kit/index.ts'
import { clientsLike, clientsOf, type RedisClient } from './client.ts'
import type { RedisStreamsDestination } from './destination.ts'
import type { LinkOptions } from './link.ts'
import type { Declare } from './reading/group.ts'
import type { RedisStreamsSubscription } from './subscription.ts'
import { BODY } from './wire.ts'

/** Where Redis is: a URL, or your own client. */
export interface RedisStreamsOptions {
  /** `redis://…` or `rediss://…`; needs the package ioredis. Undefined, as a missing environment variable is, is refused. */
  readonly url?: string | undefined
  /**
   * A client of `ioredis`, `iovalkey` or `redis`, or a cluster of one of the first two. hapax creates others with its settings and does not use
   * it itself.
   */
  readonly client?: RedisClient
  /** How long Redis may take to reply. After that the link is given up and another one is opened. @default 10_000 */
  readonly timeoutMs?: number
}

/** How a stream is written. */
export interface RedisStreamOptions {
  /**
   * How messages are written: as CloudEvents; as plain JSON, for readers that know nothing of CloudEvents; or by a function of yours.
   * @default 'cloudevents'
   */
  readonly encode?: Encode
  /** CloudEvents: attributes as separate fields, or everything as one JSON text. @default 'binary' */
  readonly format?: EventFormat
  /** How many replicas must have a message before it counts as sent. @default 0 */
  readonly waitReplicas?: number
  /** Larger messages are refused, and so are those above the limit of Redis (`proto-max-bulk-len`). @default 512 MiB */
  readonly maxBytes?: number
  /** Removes entries that every group has finished, from time to time after sending. @default nothing is removed */
  readonly trim?: RedisTrimOptions
}

/** Which finished entries to keep. */
export interface RedisTrimOptions {
  /** Younger entries are kept. @default 0 */
  readonly keepMs?: number
  /** At least about this many entries are kept. @default 0 */
  readonly keepEntries?: number
}

/** How a group is read. */
export interface RedisGroupOptions {
  /** The key of the stream. */
  readonly stream: string
  /** Where a new group begins: with everything in the stream, or with what comes from now on. @default 'beginning' */
  readonly from?: 'beginning' | 'now'
  /** A reader that is silent for this long is presumed dead, and others take over its entries. @default 60_000 */
  readonly claimAfterMs?: number
  /** Whether hapax creates the group (and the stream), requires that it exists, or assumes it. @default 'assert' */
  readonly declare?: Declare
  /**
   * One reader at a time, in the order of the stream, so that a consumer can have `order`. Every reader of the group has to set
   * it. The others stand by, and take over when the active one closes, or after `claimAfterMs` when it dies. @default false
   */
  readonly single?: boolean
  /** The field with the body. The body of an entry without it is a JSON object of all its fields. @default 'data' */
  readonly body?: string
  /** Only the beginning of larger entries is read, and they go to the failed store. @default 32 MiB */
  readonly maxBytes?: number
}

/** Checks the options of `redisStreams()`. */
export function linkOptions(options: RedisStreamsOptions): Omit<LinkOptions, 'stream' | 'detour'> {
  noOthers('options of redisStreams', options, ['url', 'client', 'timeoutMs'])
  refuseUnsetUrl(options, options.client)
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 10_000)
  return { clients: clientsFrom(options), timeoutMs, clock: systemClock }
}

function clientsFrom({ url, client }: RedisStreamsOptions): LinkOptions['clients'] {
  if ((url === undefined) === (client === undefined)) expected('options', 'url or client', 'both or neither')
  if (client !== undefined) return clientsLike(client)
  return clientsOf(url)
}

const MAX_BYTES = 512 * 1024 * 1024

/** Checks the options of a stream. */
export function streamSettings(
  key: string,
  options: RedisStreamOptions,
): Omit<ConstructorParameters<typeof RedisStreamsDestination>[0], 'links'> {
  noOthers('options of stream', options, ['encode', 'format', 'waitReplicas', 'maxBytes', 'trim'])
  const { waitReplicas, maxBytes, trim } = options
  return {
    stream: nameText('key', key, 1024),
    encoder: encoderOption(options),
    waitReplicas: waitReplicas === undefined ? 0 : positiveInteger('waitReplicas', waitReplicas, 1),
    maxBytes: Math.min(MAX_BYTES, positiveInteger('maxBytes', maxBytes, MAX_BYTES)),
    trim: trim === undefined ? undefined : trimSettings(trim),
  }
}

function trimSettings(trim: RedisTrimOptions): { keepMs: number; keepEntries: number } {
  noOthers('trim', trim, ['keepMs', 'keepEntries'])
  return {
    keepMs: trim.keepMs === undefined ? 0 : spanMs('trim.keepMs', trim.keepMs),
    keepEntries: wholeNumber('trim.keepEntries', trim.keepEntries, 0),
  }
}

/** Checks the options of a group. */
export function groupSettings(
  name: string,
  options: RedisGroupOptions,
): Omit<ConstructorParameters<typeof RedisStreamsSubscription>[0], 'links' | 'clock' | 'timeoutMs'> {
  noOthers('options of group', options, ['stream', 'from', 'claimAfterMs', 'declare', 'single', 'body', 'maxBytes'])
  return {
    group: nameText('name', name),
    stream: nameText('stream', options.stream, 1024),
    from: oneOf('from', ['beginning', 'now'], options.from, 'beginning'),
    claimAfterMs: positiveInteger('claimAfterMs', options.claimAfterMs, 60_000),
    declare: declareOption(options.declare),
    single: flag('single', options.single, false),
    body: options.body === undefined ? BODY : text('body', options.body),
    maxBytes: positiveInteger('maxBytes', options.maxBytes, 32 * 1024 * 1024),
  }
}
