import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import type { Claimed, ClaimStore, Lease } from 'hapax/contracts'
import { memoryBroker } from 'hapax/memory-broker'
import { type IoredisClient, type IoredisCluster, redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { createClient, createClientPool, createSentinel } from 'redis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { messageKey } from '../../src/message/index.ts'
import { CLAIM_STORED } from '../../src/stores/redis/scripts.ts'
import { stored } from '../../src/testing/claims/world.ts'
import { promised } from '../../src/testing/promised.ts'
import { until } from '../../src/testing/wait.ts'
import { noPrivateServer, privateServer } from '../support/private-server.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const Ping = defineMessage<{ readonly n: number }>('ping')
const ping = (id: string) => ({ id, source: '/sender', type: 'ping', data: { n: 1 } })
const NEVER = { attempts: 1 } as const

/** Adds a span to the times of claims and lines under a prefix; see lua.ts. */
const SET_BACK = `
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then
    for _, at in ipairs({ 47, 71, 85 }) do
      local ms = tonumber(redis.call('GETRANGE', key, at, at + 13))
      if ms and ms > 1e12 then redis.call('SETRANGE', key, at, string.format('%014.0f', ms + ARGV[2])) end
    end
  elseif kind == 'zset' then
    for _, entry in ipairs(redis.call('ZRANGE', key, 1e12, '+inf', 'BYSCORE')) do redis.call('ZINCRBY', key, ARGV[2], entry) end
  end
end`

/** A hapax with one consumer. */
function consumer(store: ClaimStore, handler: () => unknown = () => {}, options = {}) {
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  return { hapax, sms: hapax.leased('sms', options).on(Ping, handler) }
}

describe('a store on Redis', () => {
  let plain: Redis
  beforeAll(() => {
    plain = new Redis(requireServer('redis'))
  })
  afterAll(() => plain?.disconnect())

  it('after its clock went back, everything waits at most for its requested delay', async () => {
    const prefix = freshPrefix()
    const store = redis({ client: plain, prefix })
    const claim = async (id: string, leaseMs: number) => {
      const [claimed] = await store.claims.claim('sms', [stored(id)], { token: randomUUID(), leaseMs, alone: true })
      return claimed as Claimed
    }
    const held = async (id: string, leaseMs: number): Promise<Lease> => {
      const claimed = await claim(id, leaseMs)
      if (claimed.kind !== 'ours') throw new Error(`expected ${id} to be ours, got ${claimed.kind}`)
      return claimed.lease
    }
    const error = { name: 'Error', message: 'later' }
    const about = { attempts: 1, error, entry: '{}' }
    const renewed = await held('renewed', 200)
    expect(await store.claims.renew([renewed], 2_000)).toEqual(new Set([renewed.seq]))
    await held('leased', 2_000)
    expect(await store.claims.release(await held('delayed', 2_000), { ...about, delayMs: 2_000 })).toBe(true)
    const failure = { ...about, message: stored('failed'), reason: 'permanent', retentionMs: 'forever' } as const
    expect(await store.claims.fail('sms', await held('failed', 2_000), failure)).toBe(true)
    const [failed] = await store.failed.list({ limit: 1 })
    expect(await store.failed.retry(failed?.seq as string, { actor: 'ada', action: 'retry' })).toBe(true)
    // Simulates a clock that went back by an hour: all timestamps lie in the future.
    await plain.eval(SET_BACK, 0, prefix, 3_600_000)
    const delayed = await claim('delayed', 2_000)
    expect(delayed.kind === 'waiting' && delayed.leftMs).toBeLessThanOrEqual(2_000)
    for (const id of ['leased', 'renewed']) expect((await claim(id, 2_000)).kind).toBe('busy')
    for (const id of ['leased', 'renewed', 'delayed']) {
      await expect.poll(async () => (await claim(id, 60_000)).kind, { timeout: 10_000 }).toBe('ours')
      expect((await claim(id, 60_000)).kind).toBe('busy')
    }
    // A starting worker scans the whole line; running ones do so periodically.
    const other = redis({ client: plain, prefix })
    const { claims } = await other.claims.claimStored('sms', { token: randomUUID(), leaseMs: 60_000, limit: 10 })
    expect(claims.map(({ message }) => message.id)).toEqual(['failed'])
  })

  /** What is left of the time of each message, shortest first; all that belongs to one has the same. */
  async function lifetimes(prefix: string): Promise<readonly number[]> {
    const keys = await plain.keys(`${prefix}*`)
    const names = new Set(keys.flatMap((key) => /^(.*\{[0-9a-f]{16}:.*\})/.exec(key)?.[1] ?? []))
    const times = [...names].map(async (name) => {
      const own = keys.filter((key) => key.startsWith(name)).sort()
      const [claim, more = claim] = await Promise.all(own.map((key) => plain.pexpiretime(key)))
      expect(more).toBe(claim)
      return plain.pttl(name)
    })
    return (await Promise.all(times)).sort((a, b) => a - b)
  }

  it('ten failures are stored, however many there were, and a field that somebody wrote hinders nobody', async () => {
    const prefix = freshPrefix()
    const retry = { attempts: 30, minDelayMs: 0, maxDelayMs: 0 }
    const { hapax, sms } = consumer(redis({ client: plain, prefix }), () => Promise.reject(new Error('no')), { retry })
    for (let attempts = 1; attempts <= 25; attempts++) await sms.handle(ping('a'))
    const [more = ''] = await plain.keys(`${prefix}*:more`)
    const lines = (await plain.hget(more, 'hi'))?.split('\n')
    expect([lines?.length, await plain.hget(more, 'hn')]).toEqual([10, '25'])
    for (const garbage of ['', 'null', '[]\n[]', 'x'.repeat(10_000)]) {
      await plain.hset(more, 'hi', garbage, 'hn', garbage)
      expect((await hapax.explain('a', '/sender')).at(-1)).toMatchObject({ where: 'claim', failures: 0, history: [] })
      await sms.handle(ping('a'))
      expect((await hapax.explain('a', '/sender')).at(-1)).toMatchObject({ failures: 1, history: [{ message: 'no' }] })
    }
  })

  it('B1 B2: a claim has no time to live before it is done, whatever becomes of it', async () => {
    const prefix = freshPrefix()
    const store = redis({ client: plain, prefix })
    const entered = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const slow = createHapax({ store, logger: silentLogger })
      .leased('sms')
      .on(Ping, async (_, ctx) => {
        await ctx.note({ to: '+41' })
        entered.resolve()
        await go.promise
      })
    const handled = slow.handle(ping('a'))
    await entered.promise
    expect(await lifetimes(prefix)).toEqual([-1])
    go.resolve()
    await handled
    const [left] = await lifetimes(prefix)
    expect(left).toBeGreaterThan(29 * 86_400_000)

    const released = consumer(store, () => Promise.reject(new Error('no')), { retry: { minDelayMs: 60_000 } })
    await released.sms.handle(ping('b'))
    const failing = consumer(store, () => Promise.reject(new Error('no')), { retry: NEVER, retentionMs: 86_400_000 })
    await failing.sms.handle(ping('c'))
    expect((await lifetimes(prefix)).filter((ms) => ms === -1)).toHaveLength(2)
    // Dealt with by a person, it is a receipt like any other.
    const [row] = await failing.hapax.failed.list()
    await failing.hapax.failed.discard(row?.seq as string)
    const times = await lifetimes(prefix)
    expect(times[0]).toBe(-1)
    expect(times[1]).toBeGreaterThan(80_000_000)
    expect(times[1]).toBeLessThanOrEqual(86_400_000)
    const forever = consumer(store, () => {}, { retentionMs: 'forever' })
    await forever.sms.handle(ping('d'))
    expect((await lifetimes(prefix)).filter((ms) => ms === -1)).toHaveLength(2)
  })

  it('B13: a message of which only half is there, because a cluster moves it, waits for the rest: no call seems unmade', async () => {
    const prefix = freshPrefix()
    let calls = 0
    const waiting = (timeoutMs: number, leaseMs = 30_000) => {
      const store = redis({ client: plain, prefix, timeoutMs })
      const hapax = createHapax({ store, source: '/test', logger: silentLogger })
      return hapax.leased('sms', { leaseMs, retry: { minDelayMs: 0, maxDelayMs: 0 } }).on(Ping, async (_, ctx) => {
        await ctx.effect('send', async () => {
          calls += 1
        })
        if (ctx.attempt === 1) throw new Error('the next step fails')
      })
    }
    const sms = waiting(60_000)
    await expect(sms.handle(ping('a'))).resolves.toMatchObject({ status: 'rolled-back' })
    const [half] = (await plain.keys(`${prefix}*`)).filter((key) => key.endsWith(':more'))
    await plain.rename(half as string, `${prefix}elsewhere`)
    const meanwhile = await waiting(300, 300)
      .handle(ping('a'))
      .catch((error: unknown) => ({ status: 'rejected', error }))
    expect(meanwhile).toMatchObject({ error: { code: 'store-unavailable' } })
    await plain.rename(`${prefix}elsewhere`, half as string)
    await until(async () => (await sms.handle(ping('a')).catch(() => undefined))?.status === 'processed')
    expect(calls).toBe(1)
  })

  describe('a message without its journal', () => {
    /** Deletes the hash beside the claim of a message, as an eviction would. */
    const deleteHalf = async (prefix: string, id: string): Promise<void> => {
      const own = messageKey('/sender', id)
      const [half = ''] = await plain.keys(`${prefix}*${own}}:more`)
      expect(await plain.del(half)).toBe(1)
    }
    const options = (): { token: string; leaseMs: number } => ({ token: randomUUID(), leaseMs: 30_000 })

    it('does not block others that are retried or settled with it', async () => {
      const prefix = freshPrefix()
      const store = redis({ client: plain, prefix, timeoutMs: 1_000 })
      const { hapax, sms } = consumer(store, () => Promise.reject(new Error('no')), { retry: NEVER })
      for (const id of ['a', 'b', 'c']) await sms.handle(ping(id))
      for (const { seq } of await hapax.failed.list()) await hapax.failed.retry(seq)
      await deleteHalf(prefix, 'b')
      const { claims } = await store.claims.claimStored('sms', { ...options(), limit: 9 })
      expect(claims.map(({ message }) => message.id).sort()).toEqual(['a', 'c'])
      await deleteHalf(prefix, 'a')
      const settled = await store.claims.settle(
        claims.map(({ lease }) => lease),
        60_000,
      )
      const whole = claims.find(({ message }) => message.id === 'c')
      expect(settled).toEqual(new Set([whole?.lease.seq]))
    })

    it('does not block others that are claimed with it, and is reported as torn', async () => {
      const prefix = freshPrefix()
      const store = redis({ client: plain, prefix, timeoutMs: 1_000 })
      const messages = ['a', 'b', 'c'].map((id) => stored(id))
      const claimed = () => store.claims.claim('sms', messages, { ...options(), alone: false })
      const error = { name: 'Error', message: 'no' }
      for (const each of await claimed()) {
        if (each.kind !== 'ours') throw new Error(`expected ours, got ${each.kind}`)
        await store.claims.release(each.lease, { attempts: 1, delayMs: 0, error, forgetMs: 60_000 })
      }
      await deleteHalf(prefix, 'b')
      expect((await claimed()).map(({ kind }) => kind)).toEqual(['ours', 'torn', 'ours'])
    })
  })

  it('F9: a database that is not there is an error, and nothing is written to another one', async () => {
    const prefix = freshPrefix()
    const url = new URL(requireServer('redis'))
    url.pathname = '/9999'
    const own = new Redis(url.href)
    own.on('error', () => {})
    try {
      for (const way of [{ url: url.href }, { client: own }]) {
        const store = redis({ ...way, prefix, timeoutMs: 10_000 })
        const { hapax, sms } = consumer(store)
        for (let time = 0; time < 2; time++) {
          await expect(sms.handle(ping('a'))).rejects.toThrow(
            /DB index is out of range|in database 9999, as it was told, but it is in 0/,
          )
        }
        await hapax.close()
      }
      expect(await plain.keys(`${prefix}*`)).toEqual([])
    } finally {
      own.disconnect()
    }
    url.pathname = '/first'
    expect(() => redis({ url: url.href })).toThrow('one whose path is the number of a database, as /0, got')
  })

  it('says why it does not get to Redis', async () => {
    await plain.call('ACL', 'SETUSER', 'hapax-test', 'on', '>secret', '~*', '+@all')
    const url = new URL(requireServer('redis'))
    url.username = 'hapax-test'
    url.password = 'wrong'
    const ways = [
      ['redis://127.0.0.1:1', /Redis is not there: .*ECONNREFUSED.*is the server running, and is the port right/],
      [url.href, /Redis answered: WRONGPASS/],
    ] as const
    for (const [to, why] of ways) {
      const { hapax, sms } = consumer(redis({ url: to, prefix: freshPrefix(), timeoutMs: 5_000 }))
      await expect(sms.handle(ping('a'))).rejects.toThrow(why)
      await hapax.close()
    }
    await plain.call('ACL', 'DELUSER', 'hapax-test')
  })

  it('is reported as closed after it was closed, also if it was never used', async () => {
    for (const use of [(store: ReturnType<typeof redis>) => store.admin.status(), async () => {}]) {
      const store = redis({ url: requireServer('redis'), prefix: freshPrefix() })
      await use(store)
      await store.close()
      await expect(store.admin.status()).rejects.toMatchObject({ code: 'closed' })
    }
  })

  it('works in the database that its URL names', async () => {
    const prefix = freshPrefix()
    const url = new URL(requireServer('redis'))
    url.pathname = '/3'
    const { hapax, sms } = consumer(redis({ url: url.href, prefix }))
    expect(await sms.handle(ping('a'))).toMatchObject({ status: 'processed' })
    await hapax.close()
    expect(await plain.keys(`${prefix}*`)).toEqual([])
    const there = new Redis(url.href)
    expect(await there.keys(`${prefix}*`)).not.toEqual([])
    there.disconnect()
  })

  it('what is in the failed store is listed, although whoever put it there died before it was', async () => {
    const prefix = freshPrefix()
    // Dies between the claim and the list.
    const mortal = redis({ client: refusing(plain, (command) => command === 'ZADD'), prefix, timeoutMs: 6_000 })
    const dying = consumer(mortal, () => Promise.reject(new Error('no')), { retry: NEVER })
    await expect(dying.sms.handle(ping('a'))).rejects.toMatchObject({ code: 'store-unavailable' })
    const { sms, hapax } = consumer(redis({ client: plain, prefix }))
    expect(await hapax.failed.count()).toBe(0)
    // Not acknowledged, so it comes again.
    expect((await sms.handle(ping('a'))).status).toBe('duplicate')
    expect((await hapax.failed.list()).map(({ message }) => message.id)).toEqual(['a'])
  })

  it.for(['before it stands in the line', 'before it is out of the list'])(
    'a retry whose process died %s is not lost',
    async (when) => {
      const prefix = freshPrefix()
      const failing = consumer(redis({ client: plain, prefix }), () => Promise.reject(new Error('no')), {
        retry: NEVER,
      })
      await failing.sms.handle(ping('a'))
      const [row] = await failing.hapax.failed.list()
      const dies = (command: string, words: readonly string[]): boolean =>
        when === 'before it is out of the list'
          ? command === 'ZREM'
          : command === 'EVAL' &&
            words[0]?.includes("'ZADD', KEYS[1], now +") === true &&
            /\{line:/.test(words[2] ?? '')
      const dying = redis({ client: byText(refusing(plain, dies)), prefix, timeoutMs: 6_000 })
      const retried = dying.failed.retry(row?.seq as string, { actor: 'ann', action: 'retry' })
      await expect(retried).rejects.toMatchObject({ code: 'store-unavailable' })
      const calls: string[] = []
      const { hapax, sms } = consumer(redis({ client: plain, prefix }), () => calls.push('called'))
      // Whoever looks at the list brings it where it belongs.
      expect(await hapax.failed.list()).toEqual([])
      const worker = hapax.worker({ consume: [sms], pollMs: 20 })
      await worker.start()
      await worker.drain()
      await worker.stop()
      expect(calls).toEqual(['called'])
      expect((await hapax.status()).consumers).toMatchObject([{ waiting: 0, failed: 0 }])
    },
  )

  it('E8: a link that is lost between two answers leaves nothing behind that ends the process', async () => {
    const prefix = freshPrefix()
    const { hapax, sms } = consumer(redis({ client: plain, prefix }), () => Promise.reject(new Error('no')), {
      retry: NEVER,
    })
    await sms.handleMany([ping('a'), ping('b')])
    await hapax.failed.retryAll({ consumer: 'sms' })
    await plain.script('LOAD', CLAIM_STORED.text)
    const uncaught = uncaughtErrors()
    const client = plain.duplicate({ retryStrategy: null, enableOfflineQueue: false })
    await once(client, 'ready')
    const answered = Promise.withResolvers<void>()
    let claims = 0
    // Not really a cluster, but asked as one: one call for each message.
    const losing: IoredisCluster = {
      isCluster: true,
      nodes: () => [client],
      call: async (command, ...words) => {
        const nth = words[0] === CLAIM_STORED.sha ? ++claims : 0
        if (nth === 2) await answered.promise
        if (nth === 2) client.disconnect()
        return client.call(command, ...words).finally(() => nth === 1 && answered.resolve())
      },
    }
    const store = redis({ client: losing, prefix, timeoutMs: 3_000 })
    const claimed = store.claims.claimStored('sms', { token: crypto.randomUUID(), leaseMs: 1_000, limit: 10 })
    await expect(claimed).rejects.toMatchObject({ code: 'store-unavailable' })
    // As long as anything takes that was asked for after the first answer.
    await expect(store.ready()).rejects.toMatchObject({ code: 'store-unavailable' })
    expect(uncaught).toEqual([])
  })

  it('E8: a client of node-redis without a listener of its own does not end the process', async () => {
    await using proxy = await LinkProxy.open(requireServer('redis'))
    const client = createClient({ url: proxy.url })
    onTestFinished(() => client.destroy())
    const { sms } = consumer(redis({ client, prefix: freshPrefix() }))
    const uncaught = uncaughtErrors()
    await client.connect()
    proxy.cut()
    expect((await sms.handle(ping('a'))).status).toBe('processed')
    expect(uncaught).toEqual([])
  })

  it('A25 H7: it answers in time that Redis is away, and goes on when it is back', async () => {
    await using proxy = await LinkProxy.open(requireServer('redis'))
    const store = redis({ url: proxy.url, prefix: freshPrefix(), timeoutMs: 6_000 })
    const { sms, hapax } = consumer(store)
    expect((await sms.handle(ping('a'))).status).toBe('processed')
    await proxy.refuse()
    await expect(sms.handle(ping('b'))).rejects.toMatchObject({ code: 'store-unavailable' })
    await proxy.accept()
    await until(async () => (await sms.handle(ping('b')).catch(() => undefined))?.status === 'processed')
    // Half-open: nobody says that the link is dead.
    proxy.freeze()
    await expect(sms.handle(ping('c'))).rejects.toMatchObject({ code: 'store-unavailable' })
    proxy.thaw()
    await until(async () => (await sms.handle(ping('c')).catch(() => undefined))?.status === 'processed')
    // A link that is cut in between is not noticed.
    proxy.cut()
    expect((await sms.handle(ping('d'))).status).toBe('processed')
    await hapax.close()
    await until(() => proxy.size === 0)
  })

  it('feeds a consumer from a queue: failed attempts come again when they are due, and nothing is handled twice', async () => {
    const broker = memoryBroker()
    const topic = broker.topic('sms')
    const queue = broker.queue('sms', { topic: 'sms' })
    const store = redis({ client: plain, prefix: freshPrefix() })
    const calls: string[] = []
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const sms = hapax
      .leased('sms', { retry: { attempts: 3, minDelayMs: 20, maxDelayMs: 50 } })
      .on(Ping, async (_, ctx) => {
        calls.push(`${ctx.message.id} ${ctx.attempt}`)
        await ctx.effect('send', async () => {})
        if (ctx.message.id === 'bad') throw new Error('no')
        if (ctx.message.id === 'late' && ctx.attempt === 1) throw new Error('not yet')
      })
    const worker = hapax.worker({ consume: [sms.from(queue)], pollMs: 20 })
    await worker.start()
    const ids = ['a', 'bad', 'late', 'a', 'b']
    const sent = ids.map((id) => ({ id, source: '/sender', type: 'ping', data: Buffer.from('{"n":1}') }))
    await Promise.all(promised(topic, sent))
    await until(() => calls.filter((call) => call.startsWith('bad')).length === 3)
    await worker.drain()
    expect([...calls].sort()).toEqual(['a 1', 'b 1', 'bad 1', 'bad 2', 'bad 3', 'late 1', 'late 2'])
    const [row] = await hapax.failed.list()
    expect([row?.message.id, row?.attempts]).toEqual(['bad', 3])
    await worker.stop()
    await hapax.close()
  })

  it('H11: a worker that is stopped lets go of what its handlers cannot finish, without an attempt', async () => {
    const broker = memoryBroker()
    const queue = broker.queue('sms', { topic: 'sms' })
    const attempts: number[] = []
    const store = redis({ client: plain, prefix: freshPrefix() })
    const start = async (handler: (signal: AbortSignal) => unknown) => {
      const hapax = createHapax({ store, source: '/test', logger: silentLogger })
      const sms = hapax.leased('sms').on(Ping, (_, ctx) => {
        attempts.push(ctx.attempt)
        return handler(ctx.signal)
      })
      const worker = hapax.worker({ consume: [sms.from(queue)] })
      await worker.start()
      return worker
    }
    let stopped: AbortSignal | undefined
    const first = await start((signal) => {
      stopped = signal
      return new Promise(() => {})
    })
    const message = { id: 'a', source: '/sender', type: 'ping', data: Buffer.from('{"n":1}') }
    await Promise.all(promised(broker.topic('sms'), [message]))
    await until(() => attempts.length === 1)
    await first.stop({ deadlineMs: 10 })
    expect(stopped?.aborted).toBe(true)
    const second = await start(() => {})
    await until(() => attempts.length === 2)
    await second.stop()
    expect(attempts).toEqual([1, 1])
  })

  it.each([
    [{}, 'expected options of redis to be url or client'],
    [{ url: 'http://x' }, 'expected url to be a redis:// or rediss:// URL'],
    [{ url: 'redis://x', prefix: 'a{b}' }, 'expected prefix to be'],
    [{ url: 'redis://x', timeoutMs: 0 }, 'expected timeoutMs to be a positive integer, got 0'],
    [{ client: {} }, 'expected client to be a client or a cluster of ioredis, iovalkey or redis'],
    [{ client: createClientPool() }, 'expected client to be'],
    [{ client: createSentinel({ name: 'x', sentinelRootNodes: [{ host: 'x', port: 1 }] }) }, 'expected client to be'],
    [{ url: 'redis://x', other: 1 }, 'expected options of redis to be an object with'],
  ])('refuses %o', (options, message) => {
    expect(() => redis(options as never)).toThrow(message)
  })
})

const noServer = noPrivateServer('redis')

describe.skipIf(noServer !== undefined)('a Redis of its own', () => {
  const levels = async (args: readonly string[]) => {
    await using server = await privateServer('redis', { args })
    const { hapax } = consumer(redis({ url: server.url }))
    const findings = await hapax.doctor()
    await hapax.close()
    return Object.fromEntries(findings.map(({ check, level, message }) => [check, `${level}: ${message}`]))
  }

  it('B18: doctor is content with one that loses nothing, and refuses one that evicts', async () => {
    const good = await levels([])
    for (const check of ['role', 'version', 'eviction', 'persistence', 'fail-over', 'memory', 'failed']) {
      expect(good[check]).toMatch(/^ok: /)
    }
    expect(good['version']).toMatch(/^ok: (Redis|Valkey) \d+\.\d+/)
    const evicting = await levels(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'])
    expect(evicting['eviction']).toMatch(/^error: maxmemory-policy is allkeys-lru/)
  })

  it('B18: doctor warns of what is lost without an append-only file, with a lazy one, and at fail-over', async () => {
    expect((await levels(['--appendonly', 'no']))['persistence']).toMatch(/^warning: there is no append-only file/)
    expect((await levels(['--appendfsync', 'everysec']))['persistence']).toMatch(/^warning: appendfsync is everysec/)
    const secretive = await levels(['--rename-command', 'CONFIG', ''])
    expect(secretive['persistence']).toMatch(/^warning: the server does not reveal appendfsync/)
    await using primary = await privateServer('redis')
    const { port } = new URL(primary.url)
    await using replica = await privateServer('redis', { args: ['--replicaof', '127.0.0.1', port] })
    const { hapax } = consumer(redis({ url: primary.url }))
    await until(async () =>
      (await hapax.doctor()).some(({ check, level }) => check === 'fail-over' && level === 'warning'),
    )
    await hapax.close()
    const wrong = consumer(redis({ url: replica.url })).hapax
    expect((await wrong.doctor())[0]).toMatchObject({
      check: 'role',
      level: 'error',
      advice: 'Connect to the primary.',
    })
    await wrong.close()
  })

  it('B19: a server that has forgotten the scripts gets them again', async () => {
    // Not the shared one: others count the commands that they need there.
    await using server = await privateServer('redis')
    const client = new Redis(server.url)
    const { sms, hapax } = consumer(redis({ client, prefix: freshPrefix() }), () => client.script('FLUSH'))
    expect((await sms.handleMany(['a', 'b', 'c'].map(ping))).map(({ status }) => status)).toEqual(
      Array.from({ length: 3 }, () => 'processed'),
    )
    await client.script('FLUSH')
    expect((await sms.handle(ping('a'))).status).toBe('duplicate')
    await client.script('FLUSH')
    expect(await hapax.explain('a')).toHaveLength(1)
    client.disconnect()
  })

  it('I9: when its memory is full nothing is taken, and nothing is acknowledged', async () => {
    await using server = await privateServer('redis')
    const calls: string[] = []
    const { sms, hapax } = consumer(redis({ url: server.url, timeoutMs: 6_000 }), () => calls.push('called'))
    const client = new Redis(server.url)
    await client.config('SET', 'maxmemory', '1')
    await expect(sms.handle(ping('a'))).rejects.toMatchObject({ code: 'store-unavailable' })
    expect(calls).toEqual([])
    await client.config('SET', 'maxmemory', '0')
    expect((await sms.handle(ping('a'))).status).toBe('processed')
    client.disconnect()
    await hapax.close()
  })

  it('a Redis that is killed and started again knows what it had answered (appendfsync always)', async () => {
    await using server = await privateServer('redis')
    const store = redis({ url: server.url, timeoutMs: 30_000 })
    const sent: string[] = []
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const sms = hapax.leased('sms').on(Ping, async (_, ctx) => {
      await ctx.effect('send', async () => sent.push(ctx.message.id))
      if (ctx.attempt === 1 && ctx.message.id === 'again') throw new Error('the next step failed')
    })
    const ids = ['again', ...Array.from({ length: 50 }, (_, at) => `m${at}`)]
    await sms.handleMany(ids.map(ping))
    await server.kill()
    await server.start()
    const outcomes = await sms.handleMany(ids.slice(1).map(ping))
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['duplicate']))
    await until(async () => (await sms.handle(ping('again'))).status === 'processed')
    expect(sent).toHaveLength(51)
    await hapax.close()
  })

  it.for(['is killed', 'stops answering'])(
    'A25: a Redis that %s during a call: handle ends once the lease has run out, and the call is not made again',
    async (how) => {
      await using server = await privateServer('redis')
      const store = redis({ url: server.url, timeoutMs: 4_000 })
      let calls = 0
      const hapax = createHapax({ store, source: '/test', logger: silentLogger })
      const sms = hapax.leased('sms', { leaseMs: 4_000 }).on(Ping, async (_, ctx) => {
        const call = async (): Promise<void> => {
          calls += 1
          await (how === 'is killed' ? server.kill() : server.pause())
        }
        // The handler does not get past it either.
        await ctx.effect('send', call).catch(() => {})
      })
      const outcome = await sms.handle(ping('a'))
      expect([outcome.status, outcome.ack]).toEqual(['rolled-back', false])
      expect(outcome.error).toMatchObject({ code: 'store-unavailable' })
      expect(outcome.error?.message).toMatch(/^the outcome of 'send' could not be written down: Redis /)
      await (how === 'is killed' ? server.start() : server.resume())
      // What a Redis that had stopped finds in its links it still does: then it was written down.
      const ends = how === 'is killed' ? ['held'] : ['held', 'processed']
      await until(async () => ends.includes((await sms.handle(ping('a')).catch(() => undefined))?.status ?? ''))
      expect(calls).toBe(1)
      await hapax.close()
    },
  )

  it('B11 B12: a Redis that is paused does not make two owners', async () => {
    await using server = await privateServer('redis')
    const calls: string[] = []
    const make = () =>
      consumer(redis({ url: server.url, timeoutMs: 10_000 }), () => calls.push('called'), { leaseMs: 200 })
    const [one, two] = [make(), make()]
    await one.sms.handle(ping('warm'))
    await two.sms.handle(ping('up'))
    calls.length = 0
    await server.pause()
    const both = Promise.all([one.sms.handle(ping('a')), two.sms.handle(ping('a'))])
    await server.resume()
    const statuses = (await both).map(({ status }) => status)
    expect(calls).toEqual(['called'])
    expect(statuses).toContain('processed')
    await one.hapax.close()
    await two.hapax.close()
  })
})

/** A client that refuses some commands. */
function refusing(
  client: IoredisClient,
  refused: (command: string, words: readonly string[]) => boolean,
): IoredisClient {
  return {
    call: (command, ...words) =>
      refused(command, words) ? Promise.reject(new Error('ERR refused')) : client.call(command, ...words),
  }
}

/** A client that never knows a script by its name. */
function byText(client: IoredisClient): IoredisClient {
  return {
    call: (command, ...words) =>
      command === 'EVALSHA'
        ? Promise.reject(new Error('NOSCRIPT No matching script.'))
        : client.call(command, ...words),
  }
}
