import { isHapaxError } from 'hapax'
import { type RedisClient, redisStreams } from 'hapax/redis-streams'
import { Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import { describe, expect, it, vi } from 'vitest'
import { listen, message, publish, redisPlace } from '../support/redis-place.ts'
import { requireServer } from '../support/servers.ts'

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 50_000, interval: 10 })
}

interface Given extends AsyncDisposable {
  readonly client: RedisClient
  /** Whether the user's own client still works. */
  works(): Promise<unknown>
}

const clients: Record<string, (url: string) => Promise<Given>> = {
  ioredis: async (url) => {
    const client = new Redis(url)
    return given(
      client,
      () => client.ping(),
      () => client.disconnect(),
    )
  },
  'ioredis with other settings': async (url) => {
    const client = new Redis(url, {
      keyPrefix: 'shop:',
      commandTimeout: 100,
      replyMapping: 'resp3',
      stringNumbers: true,
      enableAutoPipelining: true,
    })
    return given(
      client,
      () => client.ping(),
      () => client.disconnect(),
    )
  },
  'ioredis that has not connected': async (url) => {
    const client = new Redis(url, { lazyConnect: true })
    return given(
      client,
      async () => client.status,
      () => client.disconnect(),
    )
  },
  'node-redis': async (url) => {
    const client = await createClient({ url })
      .on('error', () => {})
      .connect()
    return given(
      client,
      () => client.ping(),
      () => client.destroy(),
    )
  },
  'node-redis with other settings': async (url) => {
    const { hostname, port } = new URL(url)
    const client = createClient({
      socket: { host: hostname, port: Number(port), socketTimeout: 200 },
      RESP: 3,
      pingInterval: 50,
    })
    return given(
      client,
      async () => client.isOpen,
      () => {},
    )
  },
}

function given(client: RedisClient, works: () => Promise<unknown>, end: () => void): Given {
  client.on('error', () => {})
  return { client, works, [Symbol.asyncDispose]: async () => end() }
}

describe.concurrent('a client of the user', () => {
  it.for(Object.keys(clients))('is the model of those that hapax makes: %s', async (name) => {
    await using place = await redisPlace()
    await using own = await (clients[name] as (url: string) => Promise<Given>)(place.proxy.url)
    const redis = redisStreams({ client: own.client, timeoutMs: 60_000 })
    const destination = redis.stream(place.stream, { trim: {} })
    const listening = await listen(redis.group('billing', { stream: place.stream, claimAfterMs: 1_000_000 }))
    const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x0d, 0x0a, 0xc3, 0x28])
    const sent = ['a', 'b'].map((id) =>
      message(id, { subject: 'größe', data: bytes, datacontenttype: 'application/x' }),
    )
    expect(await publish(destination, sent)).toEqual(['confirmed', 'confirmed'])
    await eventually(async () => expect(listening.deliveries).toHaveLength(2))
    for (const { arrival } of listening.deliveries) {
      expect(Buffer.compare(arrival.body, bytes)).toBe(0)
      expect(arrival.attributes).toMatchObject({ subject: 'größe', source: '/sender' })
      expect(arrival.contentType).toBe('application/x')
    }
    // Through a loss of all links: those of the user come back by themselves, ours are made anew.
    place.proxy.cut()
    await eventually(async () => expect(listening.deliveries).toHaveLength(4))
    expect(listening.deliveries[3]?.arrival).toMatchObject({ redelivered: true, properties: { deliveryCount: '2' } })
    for (const delivery of listening.deliveries) delivery.ack()
    await eventually(async () => expect(await publish(destination, [message('c')])).toEqual(['confirmed']))
    await eventually(async () => expect(listening.deliveries).toHaveLength(5))
    expect(listening.reports).toHaveLength(1)
    await listening.reader.close()
    await destination.close()
    await eventually(async () => own.works())
  })

  it('has every link of hapax closed at the end, and no other', async () => {
    await using place = await redisPlace()
    const redis = redisStreams({ url: place.proxy.url })
    const destination = redis.stream(place.stream)
    const listening = await listen(redis.group('billing', { stream: place.stream }))
    await publish(destination, [message('a')])
    expect(place.proxy.size).toBe(3)
    await listening.reader.close()
    await destination.close()
    await eventually(async () => expect(place.proxy.size).toBe(0))
  })

  it('is refused when it is none, or one for a cluster or Sentinel of node-redis', () => {
    const refused = (client: unknown): string => {
      try {
        redisStreams({ client: client as RedisClient })
      } catch (error) {
        if (isHapaxError(error, 'invalid-option')) return error.message
        throw error
      }
      return 'taken'
    }
    const what =
      'expected client to be made by new Redis() or new Cluster() of ioredis or iovalkey, or by createClient() of redis, got'
    const sentinel = createSentinel({ name: 'shop', sentinelRootNodes: [] })
    for (const client of [{}, null, 7, createCluster({ rootNodes: [] }), sentinel])
      expect(refused(client)).toContain(what)
  })
})

describe('settings', () => {
  const url = 'redis://127.0.0.1:1'
  const redis = redisStreams({ url })
  const wrong: [expected: string, make: () => unknown][] = [
    ['expected options to be url or client', () => redisStreams({})],
    ['expected options to be url or client', () => redisStreams({ url, client: new Redis({ lazyConnect: true }) })],
    [
      'expected url to be like redis://host:6379 or rediss://host:6379/0',
      () => redisStreams({ url: 'http://user:secret@x' }),
    ],
    ['expected timeoutMs to be a positive integer', () => redisStreams({ url, timeoutMs: 0 })],
    ['expected key to be a non-empty', () => redis.stream('')],
    ["expected format to be 'binary' or 'structured'", () => redis.stream('a', { format: 'xml' as never })],
    ['expected waitReplicas to be a positive integer', () => redis.stream('a', { waitReplicas: -1 })],
    ['expected maxBytes to be a positive integer', () => redis.stream('a', { maxBytes: 1.5 })],
    ['expected trim.keepMs to be', () => redis.stream('a', { trim: { keepMs: -1 } })],
    ['expected trim.keepEntries to be', () => redis.stream('a', { trim: { keepEntries: -1 } })],
    ['expected trim to be an object with the options', () => redis.stream('a', { trim: { maxLength: 1 } as never })],
    ['expected options of group to be an object', () => redis.group('a', { stream: 'b', exclusive: true } as never)],
    ['expected stream to be a non-empty', () => redis.group('a', {} as never)],
    ["expected from to be 'beginning' or 'now'", () => redis.group('a', { stream: 'b', from: '$' as never })],
    ['expected claimAfterMs to be a positive integer', () => redis.group('a', { stream: 'b', claimAfterMs: 0 })],
    [
      "expected declare to be 'assert' or 'check' or 'none'",
      () => redis.group('a', { stream: 'b', declare: 'x' as never }),
    ],
    ['expected single to be true or false', () => redis.group('a', { stream: 'b', single: 1 as never })],
    ['expected body to be a non-empty', () => redis.group('a', { stream: 'b', body: '' })],
  ]

  it.for(wrong)('are refused in one sentence: %s', ([expected, make]) => {
    expect(make).toThrow(expected)
    expect(make).not.toThrow('secret')
  })

  it('name the place in words, the same for each of its URLs', () => {
    const named = redisStreams({ url: 'redis://user:secret@example.com' })
    expect(named.stream('orders').name).toBe('redis stream orders')
    expect(named.group('billing', { stream: 'orders' }).name).toBe('redis stream orders, group billing')
  })

  it('that Redis does not accept are told: a wrong password', async () => {
    const { port } = new URL(requireServer('redis'))
    const locked = redisStreams({ url: `redis://nobody:wrong@127.0.0.1:${port}` })
    await expect(listen(locked.group('billing', { stream: 'orders' }))).rejects.toMatchObject({
      code: 'broker-refused',
    })
    const destination = locked.stream('orders')
    expect(await publish(destination, [message('a')])).toEqual(['unavailable broker-refused'])
    await destination.close()
  })
})
