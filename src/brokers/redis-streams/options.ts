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
import type { EventFormat } from '../../message/index.ts'
import { declareOption, formatOption } from '../kit/index.ts'
import { clientsLike, clientsOf, type RedisClient } from './client.ts'
import type { RedisStreamsDestination } from './destination.ts'
import type { LinkOptions } from './link.ts'
import type { Declare } from './reading/group.ts'
import type { RedisStreamsSubscription } from './subscription.ts'
import { BODY } from './wire.ts'

/** Where Redis is: a URL, or a client of your own. */
export interface RedisStreamsOptions {
  /** `redis://…` or `rediss://…`; needs the package ioredis. Undefined, as a missing environment variable is, is refused. */
  readonly url?: string | undefined
  /** A client of `ioredis`, `iovalkey` or `redis`. hapax makes others with its settings, and leaves it alone. */
  readonly client?: RedisClient
  /** How long Redis may take to answer; after that the link is given up, and another one is made. @default 10_000 */
  readonly timeoutMs?: number
}

/** How a stream is written. */
export interface RedisStreamOptions {
  /** How messages are written: attributes as fields of their own, or all as one JSON. @default 'binary' */
  readonly format?: EventFormat
  /** So many replicas must have a message before it counts as sent. @default 0 */
  readonly waitReplicas?: number
  /** Larger messages are refused, as are those that Redis does not take (`proto-max-bulk-len`). @default 512 MiB */
  readonly maxBytes?: number
  /** Removes what every group has finished, now and then after sending. @default nothing is removed */
  readonly trim?: RedisTrimOptions
}

/** What to keep of that which every group has finished. */
export interface RedisTrimOptions {
  /** What is younger is kept. @default 0 */
  readonly keepMs?: number
  /** About so many entries are kept. @default 0 */
  readonly keepEntries?: number
}

/** How a group is read. */
export interface RedisGroupOptions {
  /** The key of the stream. */
  readonly stream: string
  /** Where a new group begins: with what is in the stream, or with what comes from now on. @default 'beginning' */
  readonly from?: 'beginning' | 'now'
  /** What a reader leaves untouched for so long is taken over by others: it has died. @default 60_000 */
  readonly claimAfterMs?: number
  /** Whether hapax makes the group (and the stream), insists that it is there, or assumes it. @default 'assert' */
  readonly declare?: Declare
  /**
   * One reader at a time, in the order of the stream, so that a consumer can have `order`. Every reader of the group has to
   * say so. The others stand by, and go on when the first one closes, or after `claimAfterMs` when it dies. @default false
   */
  readonly single?: boolean
  /** The field that is the body. An entry without it has all its fields, as JSON, for a body. @default 'data' */
  readonly body?: string
  /** Of larger entries only the beginning is read; they go to the failed store. @default 32 MiB */
  readonly maxBytes?: number
}

/** Checks where Redis is. */
export function linkOptions(options: RedisStreamsOptions): LinkOptions {
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

/** Checks what is said of a stream. */
export function streamSettings(
  key: string,
  options: RedisStreamOptions,
): Omit<ConstructorParameters<typeof RedisStreamsDestination>[0], 'links'> {
  noOthers('options of stream', options, ['format', 'waitReplicas', 'maxBytes', 'trim'])
  const { format, waitReplicas, maxBytes, trim } = options
  return {
    stream: nameText('key', key, 1024),
    format: formatOption(format),
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

/** Checks what is said of a group. */
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
