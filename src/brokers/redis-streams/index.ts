import type { Destination, Subscription } from '../../contracts/index.ts'
import { RedisStreamsDestination } from './destination.ts'
import { Detour } from './detour.ts'
import {
  groupSettings,
  linkOptions,
  type RedisGroupOptions,
  type RedisStreamOptions,
  type RedisStreamsOptions,
  streamSettings,
} from './options.ts'
import { RedisStreamsSubscription } from './subscription.ts'

export type { IoredisClient, NodeRedisClient, RedisClient, Word as RedisWord } from './client.ts'
export type { IoredisCluster } from './cluster.ts'
export type { RedisGroupOptions, RedisStreamOptions, RedisStreamsOptions, RedisTrimOptions } from './options.ts'

/** Streams of one Redis server, or of a cluster. */
export interface RedisStreams {
  /** A destination for a relay: the stream of this key. */
  stream(key: string, options?: RedisStreamOptions): Destination
  /** A subscription for a consumer. The same name is the same group, whose readers share the entries. */
  group(name: string, options: RedisGroupOptions): Subscription
}

/** Streams of Redis 7.0 or newer, or of Valkey. */
export function redisStreams(options: RedisStreamsOptions): RedisStreams {
  const links = linkOptions(options)
  const { timeoutMs, clock } = links
  const linksTo = (stream: string) => ({ ...links, stream, detour: new Detour(clock) })
  return {
    stream: (key, given = {}) => {
      return new RedisStreamsDestination({ ...streamSettings(key, given), links: linksTo(key) })
    },
    group: (name, given) => {
      const settings = { ...groupSettings(name, given), timeoutMs, clock }
      return new RedisStreamsSubscription({ ...settings, links: linksTo(settings.stream) })
    },
  }
}
