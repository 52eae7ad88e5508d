import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { type RedisClient, redis } from 'hapax/redis'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { noPrivateServer } from '../support/private-server.ts'
import { type RedisClusterServers, redisCluster } from '../support/redis-cluster.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { SlotMove } from '../support/slot-move.ts'

const Ping = defineMessage<object>('ping')

describe.skipIf(noPrivateServer('redis'))('while the slot of a message is moved', () => {
  let servers: RedisClusterServers
  let cluster: Cluster

  beforeAll(async () => {
    servers = await redisCluster()
    cluster = new Cluster([...servers.nodes])
  })

  afterAll(async () => {
    cluster?.disconnect()
    await servers?.[Symbol.asyncDispose]()
  })

  /** A consumer of one message, whose handler makes a call; it does `work` before, with the key of its claim. */
  function open(work: (key: string) => Promise<unknown>, { attempts = 3, client = cluster as RedisClient } = {}) {
    const prefix = freshPrefix()
    const hapax = createHapax({ store: redis({ client, prefix }), source: '/test', logger: silentLogger })
    onTestFinished(() => hapax.close())
    const calls: string[] = []
    // The slot depends on it.
    const id = randomUUID()
    const sms = hapax.leased('sms', { retry: { attempts, minDelayMs: 1, maxDelayMs: 1 } })
    sms.on(Ping, async (_, ctx) => {
      await work(await claimOf(prefix))
      await ctx.effect('send', async () => calls.push('send'))
      await ctx.effect('confirm', async () => calls.push('confirm'))
    })
    const handle = async (): Promise<string> =>
      (await sms.handle({ id, source: '/sender', type: 'ping', data: {} })).status
    return { hapax, sms, prefix, id, handle, calls, claim: () => claimOf(prefix) }
  }

  async function claimOf(prefix: string): Promise<string> {
    const keys = await Promise.all(cluster.nodes('master').map((node) => node.keys(`${prefix}*`)))
    return keys.flat().find((key) => /\{[0-9a-f]{16}:[^}]*\}$/.test(key)) ?? ''
  }

  it.for(['ioredis', 'redis'])('calls are made once, through %s', async (name) => {
    const other = createCluster({
      rootNodes: servers.nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` })),
    })
    await other.connect()
    onTestFinished(() => other.destroy())
    let moving: Promise<void> | undefined
    const begin = async (key: string): Promise<void> => {
      const move = await SlotMove.begin(servers, key)
      moving = move.untilRefused().then(() => move.carryAll())
      onTestFinished(async () => {
        await move.end()
        await move[Symbol.asyncDispose]()
      })
    }
    const { handle, calls } = open(begin, { client: name === 'redis' ? (other as RedisClient) : cluster })
    expect(await handle()).toBe('processed')
    await moving
    // The slot is still on its way.
    expect(await handle()).toBe('duplicate')
    expect(calls).toEqual(['send', 'confirm'])
  })

  it.for([
    { attempts: 3, first: 'rolled-back' },
    { attempts: 1, first: 'failed' },
  ])('a message that fails is not torn ($first)', async ({ attempts, first }) => {
    let move: SlotMove | undefined
    const { hapax, id, handle, calls } = open(
      async (key) => {
        if (move !== undefined) return
        move = await SlotMove.begin(servers, key)
        throw new Error('not yet')
      },
      { attempts },
    )
    const handling = handle()
    await until(() => move !== undefined, 'the handler')
    await move?.untilRefused()
    await move?.carryAll()
    expect(await handling).toBe(first)
    await move?.end()
    await move?.[Symbol.asyncDispose]()
    if (first === 'failed') expect(await hapax.failed.list()).toMatchObject([{ message: { id } }])
    else {
      await until(async () => (await handle()) === 'processed', 'the second attempt')
      expect(calls).toEqual(['send', 'confirm'])
    }
  })

  it('a failed message stays on the list when half of it has been moved', async () => {
    const { hapax, handle, claim } = open(
      async () => {
        throw new Error('never')
      },
      { attempts: 1 },
    )
    expect(await handle()).toBe('failed')
    await using move = await SlotMove.begin(servers, await claim())
    await move.carry(await claim())
    await hapax.failed.list()
    await move.carryAll()
    await move.end()
    expect(await hapax.failed.list()).toHaveLength(1)
  })
  it('a retry whose process died is not lost when half of its message has been moved', async () => {
    const { hapax, sms, handle, claim, prefix } = open(
      async () => {
        throw new Error('never')
      },
      { attempts: 1 },
    )
    expect(await handle()).toBe('failed')
    const [failed, moving] = [`${prefix}{failed}`, `${prefix}{failed}:moving`]
    const [entry = ''] = await cluster.zrange(failed, '0', '-1')
    const [message] = await hapax.failed.list()
    await hapax.failed.retry(message?.seq ?? '')
    // As if the process had died before the message stood in its line, a while ago.
    const line = `${prefix}{line:${entry.slice(0, 16)}}`
    expect(await cluster.zrem(line, entry)).toBe(1)
    await cluster.zadd(failed, 1, entry)
    await cluster.zadd(moving, 1, entry)
    await using move = await SlotMove.begin(servers, await claim())
    await move.carry(await claim())
    const worker = hapax.worker({ consume: [sms], pollMs: 20 })
    await worker.start()
    await until(async () => (await cluster.zscore(moving, entry)) !== '1', 'the worker to look at it')
    await worker.stop()
    expect(await cluster.zrange(moving, '0', '-1')).toEqual([entry])
    expect(await cluster.zrange(failed, '0', '-1')).toEqual([entry])
    await move.carryAll()
    await move.end()
    expect(await hapax.failed.list()).toEqual([])
    expect(await cluster.zrange(line, '0', '-1')).toEqual([entry])
  })

  /** A shop whose first answer is 503, so that its request is released; `expiries` are those of its keys while the next one is handled. */
  async function released() {
    const prefix = freshPrefix()
    const hapax = createHapax({ store: redis({ client: cluster, prefix }), logger: silentLogger })
    onTestFinished(() => hapax.close())
    const expiries: number[][] = []
    const handler = hapax.http('orders', { principal: () => 'ann' }).handler(async () => {
      const claim = await claimOf(prefix)
      expiries.push(await Promise.all([cluster.pexpiretime(claim), cluster.pexpiretime(`${claim}:more`)]))
      return new Response(null, { status: expiries.length === 1 ? 503 : 201 })
    })
    const key = randomUUID()
    const post = async (): Promise<number> => {
      const headers = { 'idempotency-key': key }
      return (await handler(new Request('http://shop.test/', { method: 'POST', headers, body: '{}' }))).status
    }
    expect(await post()).toBe(503)
    return { post, expiries, claim: await claimOf(prefix) }
  }

  it('a released request expires as a whole when the old master refuses it', async () => {
    const { post, expiries, claim } = await released()
    const before = await cluster.pexpiretime(claim)
    expect(before).toBeGreaterThan(0)
    await using move = await SlotMove.begin(servers, claim)
    await move.carry(`${claim}:more`)
    const posting = post()
    await move.untilRefused()
    expect(await move.expiryAtSource(claim)).toBe(before)
    await move.carryAll()
    expect(await posting).toBe(201)
    await move.end()
    expect(expiries.at(-1)).toEqual([-1, -1])
  })

  it('a released request is not claimed where half of it is missing', async () => {
    const { post, expiries, claim } = await released()
    await using move = await SlotMove.begin(servers, claim)
    await move.carry(claim)
    const posting = post()
    await move.untilTorn()
    await move.carryAll()
    expect(await posting).toBe(201)
    await move.end()
    expect(expiries.at(-1)).toEqual([-1, -1])
  })
})
