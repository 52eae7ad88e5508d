import { Redis } from 'ioredis'
import type { BrokerKind, PlainClient } from './broker-place.ts'

const GROUP = 'ledger'

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
    return {
      send: async (messages) => {
        const adding = messages.map(({ attributes, body }) => {
          const fields = Object.entries(attributes).flatMap(([key, value]) => [`ce_${key}`, value])
          return client.xadd(name, '*', ...fields, 'content-type', 'application/json', 'data', body)
        })
        await Promise.all(adding)
      },
      waiting: async () => {
        const groups = (await client.call('XINFO', 'GROUPS', name)) as unknown[][]
        const group = groups.map(fieldsOf).find((each) => each.get('name') === GROUP)
        return Number(group?.get('lag')) + Number(group?.get('pending'))
      },
      close: async () => client.disconnect(),
    }
  },
}

function fieldsOf(list: readonly unknown[]): Map<unknown, unknown> {
  return new Map(
    list.flatMap((name, index) => (index % 2 === 0 ? [[name, list[index + 1]]] : [])) as [unknown, unknown][],
  )
}
