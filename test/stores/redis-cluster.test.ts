import { createHapax, defineMessage, silentLogger } from 'hapax'
import { type RedisClient, redis } from 'hapax/redis'
import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redisHarness } from '../../src/conformance/stores/redis.ts'
import { runLeaseCases } from '../support/lease-suite.ts'
import { noPrivateServer } from '../support/private-server.ts'
import { type RedisClusterServers, redisCluster } from '../support/redis-cluster.ts'
import { freshPrefix } from '../support/redis-stores.ts'

const left = noPrivateServer('redis')

if (left !== undefined) it('keeps on a cluster what a lease store promises', (context) => context.skip(left))
else {
  let servers: RedisClusterServers
  let ofIoredis: Cluster
  let ofNodeRedis: Awaited<ReturnType<typeof connected>>

  const connected = (nodes: RedisClusterServers['nodes']) => createCluster({ rootNodes: nodes.map(asNode) }).connect()

  beforeAll(async () => {
    servers = await redisCluster()
    ofIoredis = new Cluster([...servers.nodes])
    ofNodeRedis = await connected(servers.nodes)
  })

  afterAll(async () => {
    ofIoredis?.disconnect()
    ofNodeRedis?.destroy()
    await servers?.[Symbol.asyncDispose]()
  })

  describe('F12 B19: on three masters through ioredis', () => {
    runLeaseCases(redisHarness(() => ofIoredis))
  })

  describe('F12 B19: on three masters through redis', () => {
    runLeaseCases(redisHarness(() => ofNodeRedis as RedisClient))
  })

  it('spreads messages over the masters, each with all it has in one place', async () => {
    const prefix = freshPrefix()
    const hapax = createHapax({ store: redis({ client: ofIoredis, prefix }), source: '/test', logger: silentLogger })
    const sms = hapax.leased('sms').on(defineMessage('ping'), async (_, ctx) => {
      await ctx.effect('send', async () => 'sent')
      await ctx.note({ to: '+41' })
    })
    const messages = Array.from({ length: 300 }, (_, at) => ({
      id: `m${at}`,
      source: '/sender',
      type: 'ping',
      data: {},
    }))
    const outcomes = await sms.handleMany(messages)
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['processed']))
    const counts = await Promise.all(
      servers.nodes.map(async ({ host, port }) => {
        const client = new Redis(port, host)
        const keys = await client.keys(`${prefix}*`)
        client.disconnect()
        return new Set(keys.flatMap((key) => key.match(/\{[0-9a-f]{16}:.*\}/) ?? [])).size
      }),
    )
    // A message that was on two of them would be counted twice.
    expect(counts.reduce((sum, each) => sum + each)).toBe(300)
    expect(Math.min(...counts)).toBeGreaterThan(50)
  })

  it('doctor looks at every master, and notices a client that knows only one of them', async () => {
    const [node] = servers.nodes
    const one = new Redis(node?.port as number, node?.host as string)
    const [role] = await createHapax({ store: redis({ client: one }), logger: silentLogger }).doctor()
    expect(role).toMatchObject({ check: 'role', level: 'error', advice: expect.stringContaining('clusters') })
    await one.config('SET', 'maxmemory-policy', 'volatile-ttl')
    try {
      for (const client of [ofIoredis, ofNodeRedis as RedisClient]) {
        const hapax = createHapax({ store: redis({ client }), logger: silentLogger })
        const findings = await hapax.doctor()
        expect(findings.find(({ check }) => check === 'eviction')).toMatchObject({ level: 'error' })
        expect(findings.find(({ check }) => check === 'persistence')).toMatchObject({ level: 'ok' })
      }
    } finally {
      await one.config('SET', 'maxmemory-policy', 'noeviction')
      one.disconnect()
    }
  })
}

function asNode({ host, port }: { readonly host: string; readonly port: number }): { url: string } {
  return { url: `redis://${host}:${port}` }
}
