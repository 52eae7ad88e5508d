import { createHapax, silentLogger } from 'hapax'
import type { ClaimHttpContext, HttpHandler, RequestHandler } from 'hapax/contracts'
import { type IoredisClient, redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

describe('requests on Redis', () => {
  let plain: Redis
  beforeAll(() => {
    plain = new Redis(requireServer('redis'))
  })
  afterAll(() => plain?.disconnect())

  /** A shop under a prefix of its own, and the commands that it sends. */
  function shop(handle: HttpHandler<ClaimHttpContext>) {
    const prefix = freshPrefix()
    const sent: string[] = []
    const client: IoredisClient = {
      call: (command, ...words) => {
        sent.push(command)
        return plain.call(command, ...words)
      },
    }
    const hapax = createHapax({ store: redis({ client, prefix, timeoutMs: 20_000 }), logger: silentLogger })
    const principal = (request: Request): string => request.headers.get('x-user') ?? ''
    const handler: RequestHandler = hapax.http('orders', { principal }).handler(handle)
    const post = (key: string, user = 'ann'): Promise<Response> => {
      const headers = { 'idempotency-key': key, 'x-user': user }
      return handler(new Request('http://shop.test/orders', { method: 'POST', headers, body: '{}' }))
    }
    const claims = async (): Promise<readonly string[]> =>
      (await plain.keys(`${prefix}*`)).filter((key) => /\{[0-9a-f]{16}:/.test(key)).sort()
    return { hapax, prefix, sent, post, claims }
  }

  it('a first request takes two commands and one that nobody waits for, a repetition one', async () => {
    const { sent, post } = shop(() => Response.json({ id: 1 }, { status: 201 }))
    await post('warm')
    sent.length = 0
    expect((await post('k')).status).toBe(201)
    expect(sent).toHaveLength(3)
    sent.length = 0
    expect((await post('k')).headers.get('idempotent-replayed')).toBe('true')
    expect(sent).toHaveLength(1)
  })

  it('a response lives as long as its receipt, and what was released is forgotten after the same time', async () => {
    const { post, claims } = shop((_, { key }) => new Response(null, { status: key === 'failed' ? 503 : 201 }))
    await post('k')
    const [claim = '', more = ''] = await claims()
    expect(more).toBe(`${claim}:more`)
    const ends = await plain.pexpiretime(claim)
    expect(await plain.pexpiretime(more)).toBe(ends)
    expect(ends - Date.now()).toBeGreaterThan(80_000_000)
    await post('failed')
    const times = await Promise.all((await claims()).map((key) => plain.pttl(key)))
    expect(times).toHaveLength(4)
    expect(Math.min(...times)).toBeGreaterThan(80_000_000)
  })

  it('principals are no senders: they do not crowd out those of messages, and each is found by its key', async () => {
    const { hapax, prefix, post } = shop(() => new Response())
    for (let at = 0; at < 20; at++) await post('same', `user-${at}`)
    expect(await plain.smembers(`${prefix}{known}:sources`)).toEqual([])
    await until(async () => (await hapax.explain('same')).length === 20)
    const [index = ''] = await plain.keys(`${prefix}{id:*`)
    expect(await plain.pttl(index)).toBeGreaterThan(80_000_000)
  })

  it('of requests with one key so many are found by it that nobody can fill the memory', async () => {
    const { hapax, prefix, post } = shop(() => new Response())
    await Promise.all(Array.from({ length: 120 }, (_, at) => post('same', `user-${at}`)))
    const [index = ''] = await plain.keys(`${prefix}{id:*`)
    await until(async () => (await plain.scard(index)) === 100)
    expect(await hapax.explain('same')).toHaveLength(100)
  })

  it('B19: a response that has not arrived with its claim, because a cluster moves it, is waited for', async () => {
    const { post, claims, prefix, sent } = shop(() => new Response('one'))
    await post('k')
    const [, more = ''] = await claims()
    await plain.rename(more, `${prefix}elsewhere`)
    sent.length = 0
    const waiting = post('k')
    await until(() => sent.length > 2)
    await plain.rename(`${prefix}elsewhere`, more)
    expect(await (await waiting).text()).toBe('one')
  })

  it('a text takes its own bytes, anything else a third more', async () => {
    const bytes = new Uint8Array(100_000).fill(0xff)
    const { post, claims } = shop((_, { key }) => new Response(key === 'text' ? 'x'.repeat(100_000) : bytes))
    await post('text')
    const text = Number(await plain.memory('USAGE', (await claims())[1] ?? ''))
    await plain.del(...(await claims()))
    await post('bytes')
    const binary = Number(await plain.memory('USAGE', (await claims())[1] ?? ''))
    expect(text).toBeLessThan(120_000)
    expect(binary).toBeGreaterThan(130_000)
    expect(binary).toBeLessThan(170_000)
  })
})
