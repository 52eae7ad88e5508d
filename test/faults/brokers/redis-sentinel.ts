import { Redis } from 'ioredis'
import { WATCHED } from '../../support/clusters/redis-sentinel.ts'
import type { BrokerKind, BrokerPlace } from './broker-place.ts'
import { GROUP, plainClient } from './redis-streams.ts'

/** Streams of a Redis whose primary is found through sentinels. */
export const redisSentinelKind: BrokerKind = {
  async destination(place) {
    const { redisStreams } = await import('hapax/redis-streams')
    const options = { client: primaryAt(place), timeoutMs: 4_000 }
    return redisStreams(options).stream(place.name, { waitReplicas: 1 })
  },

  async subscription(place) {
    const { redisStreams } = await import('hapax/redis-streams')
    const { name, single, abandonedMs } = place
    const redis = redisStreams({ client: primaryAt(place), timeoutMs: 4_000 })
    return redis.group(GROUP, { stream: name, claimAfterMs: abandonedMs, single })
  },

  async connect(place) {
    const client = primaryAt(place, { retryStrategy: () => null })
    await client.connect()
    return plainClient(client, place)
  },
}

function primaryAt({ url, others = [] }: BrokerPlace, options: object = {}): Redis {
  const sentinels = [url, ...others].map((each) => {
    const { hostname: host, port } = new URL(each)
    return { host, port: Number(port) }
  })
  const client = new Redis({ sentinels, name: WATCHED, lazyConnect: true, ...options })
  client.on('error', () => {})
  return client
}
