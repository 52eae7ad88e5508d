import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { redisStreams } from 'hapax/redis-streams'
import { Cluster, Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { slotOf, tagOf } from '../../src/brokers/redis-streams/cluster.ts'
import { message, publish } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'

describe('slots of a cluster', () => {
  it.for([
    ['123456789', 12_739],
    ['foo', 12_182],
    ['{foo}:a', 12_182],
    ['a{foo}b{c}', 12_182],
    ['', 0],
  ] as const)('%j is in slot %i', ([key, slot]) => {
    expect(slotOf(key)).toBe(slot)
  })

  it.for(['orders', 'a{b}c', 'a{b', 'a}b', 'a{}b', '{}', '}', '{a}}', 'ä{ö}ü'])(
    '%j and its turn share a slot',
    (key) => {
      expect(slotOf(`hapax-single:{${tagOf(key)}}["${key}"]`)).toBe(slotOf(key))
    },
  )

  it('a keyPrefix is refused: it would change the slot', () => {
    for (const options of [{ keyPrefix: 'shop:' }, { redisOptions: { keyPrefix: 'shop:' } }]) {
      const client = new Cluster(['redis://localhost:1'], { lazyConnect: true, ...options })
      expect(() => redisStreams({ client })).toThrow('expected client to be a cluster without keyPrefix')
    }
  })
})

it('a sentinel that stays silent is left, and its connection closed', async () => {
  const links = new Set<Socket>()
  let asked = 0
  const silent = createServer((socket) => {
    asked += 1
    links.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => links.delete(socket))
    socket.resume()
  }).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => {
    for (const link of links) link.destroy()
    silent.close()
  })
  const { port } = silent.address() as AddressInfo
  const client = new Redis({ sentinels: [{ host: '127.0.0.1', port }], name: 'orders', lazyConnect: true })
  const destination = redisStreams({ client, timeoutMs: 300 }).stream('orders')
  expect(await publish(destination, [message('1')])).toMatchObject([{ status: 'unavailable' }])
  await until(() => asked > 0 && links.size === 0, 'its connections to be closed')
  await destination.close()
})
