import { type Cluster, Redis } from 'ioredis'
import type { BrokerKind, BrokerPlace, PlainClient } from './broker-place.ts'

export const GROUP = 'ledger'

export const redisStreamsKind: BrokerKind = {
  async destination({ url, name }) {
    const { redisStreams } = await import('hapax/redis-streams')
    return redisStreams({ url }).stream(name)
  },

  async subscription({ url, name, single, abandonedMs }) {
    const { redisStreams } = await import('hapax/redis-streams')
    return redisStreams({ url }).group(GROUP, { stream: name, claimAfterMs: abandonedMs, single })
  },

  async connect({ url, name }): Promise<PlainClient> {
    const client = new Redis(url, { lazyConnect: true, connectTimeout: 5_000, retryStrategy: () => null })
    client.on('error', () => {})
    await client.connect()
    return plainClient(client, { name })
  },
}

/** What a rig asks of the server, or of the cluster, that has the stream. */
export function plainClient(client: Redis | Cluster, { name }: Pick<BrokerPlace, 'name'>): PlainClient {
  return {
    send: async (messages) => {
      const adding = messages.map(({ attributes, body }) => {
        const fields = Object.entries(attributes).flatMap(([key, value]) => [`ce_${key}`, value])
        return client.xadd(name, '*', ...fields, 'content-type', 'application/json', 'data', body)
      })
      await Promise.all(adding)
    },
    waiting: async () => {
      const groups = (await client.xinfo('GROUPS', name)) as unknown[][]
      const group = groups.map(fieldsOf).find((each) => each.get('name') === GROUP)
      // Not its lag, which is wrong after a replica has taken over.
      const unread = await client.xrange(name, `(${group?.get('last-delivered-id')}`, '+')
      return unread.length + Number(group?.get('pending'))
    },
    close: async () => client.disconnect(),
  }
}

function fieldsOf(list: readonly unknown[]): Map<unknown, unknown> {
  return new Map(
    list.flatMap((name, index) => (index % 2 === 0 ? [[name, list[index + 1]]] : [])) as [unknown, unknown][],
  )
}
