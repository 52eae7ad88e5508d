import { chmod } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { redisStreams } from 'hapax/redis-streams'
import { Redis } from 'ioredis'
import { describe, expect, it, vi } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import type { Destination } from '../../src/contracts/broker.ts'
import {
  noPrivateServer,
  type PrivateServer,
  type PrivateServerOptions,
  privateServer,
} from '../support/private-server.ts'
import { entryIds, listen, message, messages, publish } from '../support/redis-place.ts'

const cannot = noPrivateServer('redis')

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 40_000, interval: 20 })
}

/** A server of the test's own, and a plain client that comes back by itself. */
async function withServer(
  use: (server: PrivateServer, plain: Redis) => Promise<void>,
  options?: PrivateServerOptions,
): Promise<void> {
  await using server = await privateServer('redis', options)
  const plain = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 50, protocol: 2 })
  plain.on('error', () => {})
  try {
    await use(server, plain)
  } finally {
    plain.disconnect()
  }
}

async function scriptsRun(plain: Redis): Promise<number> {
  return Number(/cmdstat_eval:calls=(\d+)/.exec(await plain.info('commandstats'))?.[1] ?? 0)
}

async function sendUntilConfirmed(destination: Destination, id: string): Promise<void> {
  await eventually(async () => expect(await publish(destination, [message(id)])).toEqual(['confirmed']))
}

describe.skipIf(cannot !== undefined)(`a server of one's own${cannot === undefined ? '' : `: ${cannot}`}`, () => {
  it('a server that becomes a replica is away, and its stream is not gone', async () => {
    await withServer(async (server, plain) => {
      const redis = redisStreams({ url: server.url, timeoutMs: 2_000 })
      await using listening = await listen(redis.group('billing', { stream: 'orders' }))
      await eventually(async () => expect(await plain.client('LIST')).toMatch(/flags=b .*cmd=xreadgroup/))
      await plain.replicaof('127.0.0.1', 1)
      await eventually(async () => expect(listening.reports.length).toBeGreaterThan(0))
      expect(listening.reports.filter(({ code }) => code === 'topology-mismatch')).toEqual([])
    })
  })

  it('D11: keeps everything that was confirmed when it is killed, with appendfsync always', async () => {
    await withServer(async (server) => {
      const redis = redisStreams({ url: server.url, timeoutMs: 2_000 })
      const destination = redis.stream('orders')
      // Acked, because after each kill all that is not finished is read again, before what was on its way.
      const group = redis.group('billing', { stream: 'orders' })
      const listening = await listen(group, 1_000_000, (delivery) => delivery.ack())
      const confirmed = new Set<string>()
      let going = true
      const send = async (sender: number): Promise<void> => {
        for (let at = 0; going; at++) {
          const batch = messages(20, `${sender}-${at}-`)
          const [statuses] = await Promise.all([publish(destination, batch), delay(1)])
          for (const [index, status] of statuses.entries())
            if (status === 'confirmed') confirmed.add(batch[index]?.id as string)
        }
      }
      const sending = [send(1), send(2)]
      for (let kill = 1; kill <= 4; kill++) {
        const before = confirmed.size
        await eventually(async () => expect(confirmed.size).toBeGreaterThan(before + 200))
        if (kill === 3) await server.stop()
        else await server.kill()
        await server.start()
      }
      going = false
      await Promise.all(sending)
      await eventually(async () => {
        const seen = new Set(listening.deliveries.map(({ arrival }) => arrival.attributes['id']))
        expect([...confirmed].filter((id) => !seen.has(id))).toEqual([])
      })
      expect(listening.reports.length).toBeGreaterThan(0)
      await listening.reader.close()
      await destination.close()
    })
  })

  it('D30: is full: messages wait, and go when there is memory again; readers read and ack meanwhile', async () => {
    await withServer(async (server, plain) => {
      const redis = redisStreams({ url: server.url })
      const destination = redis.stream('orders', { trim: {} })
      expect(await publish(destination, messages(3))).toEqual(Array(3).fill('confirmed'))
      await plain.config('SET', 'maxmemory', '1')
      expect(await publish(destination, messages(3, 'full'))).toEqual(Array(3).fill('unavailable broker-blocked'))
      expect(await publish(destination, messages(1, 'full'))).toEqual(['unavailable broker-blocked'])
      expect(await plain.xlen('orders')).toBe(3)
      await plain.config('SET', 'maxmemory', '0')
      expect(await publish(destination, messages(3, 'more'))).toEqual(Array(3).fill('confirmed'))
      await using listening = await listen(redis.group('billing', { stream: 'orders', claimAfterMs: 300 }))
      // A reader that stood still may claim its own entries, and get them twice.
      const seen = (): number => new Set(entryIds(listening)).size
      await eventually(async () => expect(seen()).toBe(6))
      await plain.config('SET', 'maxmemory', '1')
      for (const delivery of listening.deliveries) delivery.ack()
      await eventually(async () => expect((await plain.xpending('orders', 'billing'))[0]).toBe(0))
      await plain.config('SET', 'maxmemory', '0')
      await sendUntilConfirmed(destination, 'last')
      await eventually(async () => expect(seen()).toBe(7))
      await destination.close()
    })
  })

  it('E2: becomes full in the middle of a batch: all of it is in the stream, or nothing', async () => {
    await withServer(async (server, plain) => {
      const destination = redisStreams({ url: server.url }).stream('orders')
      await sendUntilConfirmed(destination, 'first')
      const used = Number(/used_memory:(\d+)/.exec(await plain.info('memory'))?.[1])
      await plain.config('SET', 'maxmemory', `${used + 1_000_000}`)
      const batch = messages(100).map((each) => ({ ...each, key: 'one', data: Buffer.alloc(20_000) }))
      expect(await publish(destination, batch)).toEqual(batch.map(() => 'unavailable broker-blocked'))
      expect(await plain.xlen('orders')).toBe(1)
      await plain.config('SET', 'maxmemory', '0')
      expect(await publish(destination, batch)).toEqual(batch.map(() => 'confirmed'))
      const ids = (await plain.xrange('orders', '-', '+')).map(([, fields]) => fields[fields.indexOf('ce_id') + 1])
      expect(ids).toEqual(['first', ...batch.map(({ id }) => id)])
      await destination.close()
    })
  })

  it('D30: cannot write to its disk (MISCONF): messages wait', async () => {
    await withServer(async (server, plain) => {
      const destination = redisStreams({ url: server.url }).stream('orders')
      await sendUntilConfirmed(destination, 'first')
      await plain.config('SET', 'save', '3600 1')
      await chmod(server.directory, 0o555)
      await plain.call('BGSAVE')
      await eventually(async () => expect(await plain.info('persistence')).toContain('rdb_last_bgsave_status:err'))
      expect(await publish(destination, messages(2))).toEqual(Array(2).fill('unavailable broker-blocked'))
      await chmod(server.directory, 0o755)
      await plain.call('BGSAVE')
      await sendUntilConfirmed(destination, 'last')
      await destination.close()
    })
  })

  it('loads its data: senders and readers wait, and neither hangs', async () => {
    await withServer(
      async (server) => {
        const redis = redisStreams({ url: server.url, timeoutMs: 30_000 })
        const destination = redis.stream('orders')
        expect(await publish(destination, messages(200))).toEqual(Array(200).fill('confirmed'))
        await server.kill()
        // At least once nobody answers, however slow this process is while the server loads.
        const answers = new Set<string>(await publish(destination, messages(1)))
        const started = server.start()
        await eventually(async () => {
          for (const status of await publish(destination, messages(1))) answers.add(status)
          expect([...answers]).toContain('confirmed')
        })
        expect([...answers]).toEqual(expect.arrayContaining(['unavailable broker-unavailable']))
        await started
        await using listening = await listen(redis.group('billing', { stream: 'orders' }), 1_000)
        await eventually(async () => expect(listening.deliveries.length).toBeGreaterThanOrEqual(201))
        await destination.close()
      },
      // Microseconds per command that is read back.
      { args: ['--key-load-delay', '20000'] },
    )
  })

  it('H7: is busy with a script: messages wait', async () => {
    await withServer(
      async (server, plain) => {
        const destination = redisStreams({ url: server.url }).stream('orders')
        await sendUntilConfirmed(destination, 'first')
        const spinning = plain.call('EVAL', 'while true do end', '0').catch(() => {})
        await eventually(async () => {
          expect(await publish(destination, messages(2))).toEqual(Array(2).fill('unavailable broker-unavailable'))
        })
        const killer = new Redis(server.url, { enableReadyCheck: false })
        await killer.call('SCRIPT', 'KILL')
        await spinning
        killer.disconnect()
        await sendUntilConfirmed(destination, 'last')
        await destination.close()
      },
      { args: ['--busy-reply-threshold', '50'] },
    )
  })

  it('A23: became a replica: messages wait for a primary, which is looked for anew', async () => {
    await withServer(async (server, plain) => {
      await using proxy = await LinkProxy.open(server.url)
      const destination = redisStreams({ url: proxy.url }).stream('orders')
      await sendUntilConfirmed(destination, 'first')
      const listening = await listen(redisStreams({ url: server.url }).group('billing', { stream: 'orders' }))
      await plain.call('REPLICAOF', '127.0.0.1', '1')
      expect(await publish(destination, messages(2))).toEqual(Array(2).fill('unavailable broker-unavailable'))
      await eventually(async () => expect(proxy.size).toBe(0))
      await eventually(async () => expect(listening.reports.length).toBeGreaterThan(0))
      await plain.call('REPLICAOF', 'NO', 'ONE')
      await sendUntilConfirmed(destination, 'last')
      const ids = () => listening.deliveries.map(({ arrival }) => arrival.attributes['id'])
      await eventually(async () => expect(ids()).toContain('last'))
      await listening.reader.close()
      await destination.close()
    })
  })

  it('A23: waits for replicas where it is asked to, and does not confirm without them', async () => {
    await withServer(async (primary) => {
      await withServer(async (replica, plain) => {
        const { port } = new URL(primary.url)
        const destination = redisStreams({ url: primary.url, timeoutMs: 5_000 }).stream('orders', { waitReplicas: 1 })
        expect(await publish(destination, messages(2))).toEqual(Array(2).fill('unavailable broker-unavailable'))
        await plain.call('REPLICAOF', '127.0.0.1', port)
        await sendUntilConfirmed(destination, 'replicated')
        expect(JSON.stringify(await plain.xrange('orders', '-', '+'))).toContain('replicated')
        await replica.pause()
        expect(await publish(destination, [message('a')])).toEqual(['unavailable broker-unavailable'])
        await replica.resume()
        await sendUntilConfirmed(destination, 'again')
        await destination.close()
      })
    })
  })

  it('D14: takes no text of that size: the message is refused, its neighbours are confirmed', async () => {
    await withServer(
      async (server, plain) => {
        const destination = redisStreams({ url: server.url }).stream('orders')
        const large = message('large', { data: Buffer.alloc(1024 * 1024 + 1) })
        const sent = [message('a'), large, message('b')]
        expect(await publish(destination, sent)).toEqual(['confirmed', 'refused too-large', 'confirmed'])
        expect(await plain.xlen('orders')).toBe(2)
        await destination.close()
      },
      { args: ['--proto-max-bulk-len', '1mb'] },
    )
  })

  it('D14 E2: nothing of a key passes a message of it that was refused', async () => {
    await withServer(async (server, plain) => {
      const destination = redisStreams({ url: server.url }).stream('orders', { maxBytes: 10_000 })
      const keyed = (id: string, key: string, bytes = 10) => message(id, { key, data: Buffer.alloc(bytes) })
      const sent = [keyed('a1', 'a'), keyed('a2', 'a', 20_000), keyed('b1', 'b'), keyed('a3', 'a'), message('c')]
      expect(await publish(destination, sent)).toEqual([
        'confirmed',
        'refused too-large',
        'confirmed',
        'unavailable broker-refused',
        'confirmed',
      ])
      expect(await plain.xlen('orders')).toBe(3)
      await destination.close()
    })
  })

  it('D14 D30: what waits behind a refused message of its key does not make the relay say that Redis is away', async () => {
    await withServer(async (server, plain) => {
      const Placed = defineMessage<{ readonly pad: string }>('placed', { key: () => 'k' })
      const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
      const destination = redisStreams({ url: server.url }).stream('orders', { maxBytes: 10_000 })
      const downs: Error[] = []
      hapax.events.on('relay-down', ({ error }) => downs.push(error))
      const drafts = [20_000, 10].map((bytes) => Placed.of({ pad: 'x'.repeat(bytes) }))
      await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
      const worker = hapax.worker({ relay: destination, pollMs: 20 })
      await worker.start()
      await eventually(async () => expect(await hapax.failed.count({ origin: 'outbox' })).toBe(1))
      await worker.drain()
      await hapax.close()
      await destination.close()
      expect(downs).toEqual([])
      expect(await plain.xlen('orders')).toBe(0)
    })
  })

  it('A22: warns of settings that lose messages, once', async () => {
    await withServer(
      async (server) => {
        const listening = await listen(redisStreams({ url: server.url }).group('billing', { stream: 'orders' }))
        expect(listening.reports.map(({ message }) => message)).toEqual([
          expect.stringContaining('appendonly'),
          expect.stringContaining('noeviction'),
        ])
        await listening.reader.close()
      },
      { args: ['--appendonly', 'no', '--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'] },
    )
  })

  it('does not tell its settings: nothing is said of them, and nothing else is forbidden', async () => {
    await withServer(async (server, plain) => {
      await plain.call(
        'ACL',
        'SETUSER',
        'shop',
        'on',
        '>pw',
        '~*',
        '+@all',
        '-config',
        '-client|list',
        '-client|kill',
        '-client|unblock',
      )
      const url = server.url.replace('redis://', 'redis://shop:pw@')
      const redis = redisStreams({ url, timeoutMs: 10_000 })
      const destination = redis.stream('orders', { trim: {} })
      const listening = await listen(redis.group('billing', { stream: 'orders' }))
      expect(await publish(destination, messages(2))).toEqual(['confirmed', 'confirmed'])
      await eventually(async () => expect(listening.deliveries).toHaveLength(2))
      await listening.reader.close()
      expect(listening.reports).toEqual([])
      await destination.close()
    })
  })

  it('permits only what the page lists, which is enough', async () => {
    await withServer(async (server, plain) => {
      const permit = async (user: string, commands: string): Promise<string> => {
        const rules = commands.split(' ').map((command) => `+${command}`)
        await plain.call('ACL', 'SETUSER', user, 'on', '>pw', '~*', '-@all', ...rules)
        return server.url.replace('redis://', `redis://${user}:pw@`)
      }
      const sender = await permit('sender', 'ping xadd multi exec wait eval exists xinfo xlen xpending xtrim time')
      const reading = 'ping xreadgroup xack xautoclaim xclaim xpending xrange xinfo xgroup eval client|id'
      const reader = await permit('reader', `${reading} client|unblock`)
      const alone = await permit('alone', `${reading} client|unblock xread get set del pexpire`)
      const destination = redisStreams({ url: sender }).stream('orders', { trim: {} })
      for (const [group, url, single] of [
        ['billing', reader, false],
        ['stock', alone, true],
      ] as const) {
        const listening = await listen(
          redisStreams({ url }).group(group, { stream: 'orders', claimAfterMs: 3_000, single }),
        )
        const count = listening.deliveries.length
        expect(await publish(destination, messages(3))).toEqual(Array(3).fill('confirmed'))
        await eventually(async () => expect(listening.deliveries.length).toBeGreaterThanOrEqual(count + 3))
        listening.deliveries[0]?.ack()
        // Everything that is done now and then has been done, several times.
        const before = await scriptsRun(plain)
        await eventually(async () => expect(await scriptsRun(plain)).toBeGreaterThan(before + 8))
        await listening.reader.close()
        expect(listening.reports).toEqual([])
        expect((await plain.xpending('orders', group))[0]).toBe(new Set(entryIds(listening)).size - 1)
      }
      await destination.close()
    })
  })

  it('does not permit to trim: that is told before anything is sent', async () => {
    await withServer(async (server, plain) => {
      await plain.call('ACL', 'SETUSER', 'shop', 'on', '>pw', '~*', '+@all', '-eval')
      const url = server.url.replace('redis://', 'redis://shop:pw@')
      const destination = redisStreams({ url }).stream('orders', { trim: {} })
      expect(await publish(destination, messages(1))).toEqual(['unavailable broker-refused'])
      await destination.close()
    })
  })
})
