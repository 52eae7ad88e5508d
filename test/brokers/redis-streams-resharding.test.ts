import { randomBytes } from 'node:crypto'
import { memory } from 'hapax/memory'
import { redisStreams } from 'hapax/redis-streams'
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Shop } from '../../src/testing/broker/shop.ts'
import { numbered, publishAgain, publishAll } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { noPrivateServer } from '../support/private-server.ts'
import { type RedisClusterServers, redisCluster } from '../support/redis-cluster.ts'
import { listen } from '../support/redis-place.ts'
import { SlotMove } from '../support/slot-move.ts'

describe.skipIf(noPrivateServer('redis'))('while the slot of a stream is moved', () => {
  let servers: RedisClusterServers
  let cluster: Cluster
  const fresh = (): string => `orders-${randomBytes(4).toString('hex')}`

  beforeAll(async () => {
    // The slots go to a server that has none yet, as when a cluster grows.
    servers = await redisCluster({ empty: 1 })
    cluster = new Cluster([...servers.nodes])
  })

  afterAll(async () => {
    cluster?.disconnect()
    await servers?.[Symbol.asyncDispose]()
  })

  /** An application that relays to a stream, and consumes it. */
  async function openShop(stream: string, single: boolean): Promise<Shop> {
    const redis = redisStreams({ client: cluster })
    const shop = new Shop({ rows: memory() })
    onTestFinished(() => shop.close())
    const billing = shop.consumer(single ? { order: 'wait' } : {})
    const group = redis.group('billing', { stream, single })
    await shop.work({ relay: redis.stream(stream), consume: [billing.from(group)] })
    return shop
  }

  it.for([{ single: false }, { single: true }])('messages flow (single: $single)', async ({ single }) => {
    const stream = fresh()
    const shop = await openShop(stream, single)
    const sent: string[] = []
    const flow = async (phase: string): Promise<void> => {
      const ids = numbered(50, phase)
      sent.push(...ids)
      for (const id of ids) await shop.publish([id], { key: 'one' })
      await shop.untilEffects(ids)
    }
    await flow('before')
    await using move = await SlotMove.begin(servers, stream)
    await flow('announced')
    await Promise.all([flow('moving'), move.carryAll()])
    expect(await move.left()).toEqual([])
    await flow('moved')
    await Promise.all([flow('ending'), move.end()])
    await flow('after')
    if (single) expect(shop.effects).toEqual(sent)
    else shop.assertEffects(sent)
    // What a server sends elsewhere it has not done: no message is there twice.
    expect(await cluster.xlen(stream)).toBe(sent.length)
  })

  it('whole batches are sent, and a reader that requires its group begins', async () => {
    const stream = fresh()
    const redis = redisStreams({ client: cluster })
    const destination = redis.stream(stream, { trim: { keepEntries: 1_000 } })
    onTestFinished(() => destination.close())
    await cluster.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM')
    await using move = await SlotMove.begin(servers, stream)
    await move.carryAll()
    await publishAgain(destination, numbered(10))
    await publishAll(destination, numbered(10, 'more'))
    const group = redis.group('billing', { stream, declare: 'check' })
    await expect(listen(group)).rejects.toMatchObject({ code: 'broker-unavailable' })
    await using listening = await listen(group)
    await until(() => listening.deliveries.length === 20, 'all of them')
    await move.end()
    await publishAgain(destination, numbered(20, 'after'))
    await until(() => listening.deliveries.length === 40, 'the others')
  })

  it('a stream whose turn was moved first is not begun anew in the other place', async () => {
    const stream = fresh()
    const redis = redisStreams({ client: cluster })
    const destination = redis.stream(stream)
    onTestFinished(() => destination.close())
    await using listening = await listen(redis.group('billing', { stream, single: true }))
    await publishAgain(destination, ['before'])
    await until(() => listening.deliveries.length === 1, 'the first one')
    await using move = await SlotMove.begin(servers, stream)
    await move.carry(`hapax-single:{${stream}}${JSON.stringify([stream, 'billing'])}`)
    await publishAgain(destination, ['meanwhile'])
    await until(() => listening.reports.length > 2, 'the reader to have looked for its turn again and again')
    // Redis would refuse to move the stream to where there is another one.
    await move.carryAll()
    const ids = (): readonly unknown[] => listening.deliveries.map(({ arrival }) => arrival.attributes['id'])
    await until(() => ids().includes('meanwhile'), 'what was sent meanwhile')
    await move.end()
  })
})
