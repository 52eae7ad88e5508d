import { Cluster } from 'ioredis'
import type { BrokerKind, BrokerPlace } from './broker-place.ts'
import { GROUP, plainClient } from './redis-streams.ts'

/** Streams of a Redis Cluster whose masters have a replica each. */
export const redisClusterKind: BrokerKind = {
  async destination(place) {
    const { redisStreams } = await import('hapax/redis-streams')
    const options = { client: clusterAt(place), timeoutMs: 4_000 }
    return redisStreams(options).stream(place.name, { waitReplicas: 1 })
  },

  async subscription(place) {
    const { redisStreams } = await import('hapax/redis-streams')
    const { name, single, abandonedMs } = place
    const redis = redisStreams({ client: clusterAt(place), timeoutMs: 4_000 })
    return redis.group(GROUP, { stream: name, claimAfterMs: abandonedMs, single })
  },

  async connect(place) {
    const cluster = clusterAt(place, { clusterRetryStrategy: () => null })
    await cluster.connect()
    return plainClient(cluster, place)
  },
}

function clusterAt({ url, others = [] }: BrokerPlace, options: object = {}): Cluster {
  const cluster = new Cluster([url, ...others], { lazyConnect: true, ...options })
  cluster.on('error', () => {})
  return cluster
}
