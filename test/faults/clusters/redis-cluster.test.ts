import { randomBytes } from 'node:crypto'
import type { Confirmation } from 'hapax/contracts'
import { redisStreams } from 'hapax/redis-streams'
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../src/testing/wait.ts'
import { type ReplicatedRedisCluster, replicatedRedisCluster } from '../../support/clusters/redis-cluster.ts'
import { leasedStory } from './leased-story.ts'
import { brokerStories, noStory } from './stories.ts'

describe.skipIf(noStory('redis-streams'))('a Redis Cluster with replicas', () => {
  let servers: ReplicatedRedisCluster
  beforeAll(async () => {
    servers = await replicatedRedisCluster()
  })
  afterAll(() => servers?.[Symbol.asyncDispose]())

  brokerStories(() => ({ broker: 'redis-cluster', urls: servers.urls, cluster: servers }), { single: true })

  it.for([
    { waitReplicas: undefined, confirmed: 'lost with a master that is cut off' },
    { waitReplicas: 1, confirmed: 'safe from that' },
  ])(
    'what is confirmed with waitReplicas $waitReplicas is $confirmed',
    { timeout: 300_000 },
    async ({ waitReplicas }) => {
      const cluster = new Cluster([...servers.urls], { lazyConnect: true })
      const name = `wait-${randomBytes(5).toString('hex')}`
      const destination = redisStreams({ client: cluster, timeoutMs: 5_000 }).stream(
        name,
        waitReplicas ? { waitReplicas } : {},
      )
      try {
        await until(async () => (await send(destination, 'before')).status === 'confirmed', 'it is confirmed')
        // By itself it notices after 2 s that it is alone, which is not long on a busy machine.
        await servers.trust(name, 60_000)
        const lost = await (await servers.find(name)).lose('split')
        const { status } = await send(destination, 'meanwhile')
        await lost.replaced?.()
        await lost.restore()
        const there = async (): Promise<string[]> =>
          (await cluster.xrange(name, '-', '+')).map(([, fields]) => fields[fields.indexOf('ce_id') + 1] ?? '')
        await until(async () => (await there()).includes('before'), 'the stream to be there')
        expect([status, (await there()).includes('meanwhile')]).toEqual([
          waitReplicas ? 'unavailable' : 'confirmed',
          false,
        ])
      } finally {
        await destination.close()
        cluster.disconnect()
      }
    },
  )

  leasedStory(() => ({ client: new Cluster([...servers.urls], { lazyConnect: true }), cluster: servers }))
})

function send(destination: ReturnType<ReturnType<typeof redisStreams>['stream']>, id: string): Promise<Confirmation> {
  return new Promise((resolve) => {
    const message = { id, source: '/shop', type: 'order.placed', data: Buffer.from('{}') }
    destination.publish([message as never], new AbortController().signal, (_, confirmation) => resolve(confirmation))
  })
}
