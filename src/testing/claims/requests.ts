import assert from 'node:assert/strict'
import { HapaxError, RetryAfter } from '../../base/index.ts'
import type { ClaimStore, StoreClaims } from '../../contracts/index.ts'
import { altered } from '../altered.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { assertRetryAfter, type Ordering, type Posted, Shop, type ShopOptions, told } from './shop.ts'
import { type ClaimWorld, Provider, without } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** The rules of the draft for a second request, after one with the key `k`, the user `ann` and the body `one`. */
const rules: readonly (readonly [what: string, body: string, posted: Posted, expected: string])[] = [
  ['the same request', 'one', {}, '201 {"order":"one"} again'],
  ['the key in quotes', 'one', { key: '"k"' }, '201 {"order":"one"} again'],
  ['another key', 'one', { key: 'K' }, '201 {"order":"one"}'],
  ['another body', 'two', {}, '422 key-reused'],
  ['another query', 'one', { path: '/orders?urgent=1' }, '422 key-reused'],
  ['another user', 'two', { user: 'bob' }, '201 {"order":"two"}'],
  ['another method', 'two', { method: 'PUT' }, '201 {"order":"two"}'],
  ['another path', 'two', { path: '/refunds' }, '201 {"order":"two"}'],
  ['no key', 'one', { key: '' }, '400 missing-key'],
  ['a key that does not end', 'one', { key: '"k' }, '400 invalid-key'],
  ['two keys', 'one', { key: 'k, k' }, '400 invalid-key'],
  ['a key that is too long', 'one', { key: 'k'.repeat(256) }, '400 invalid-key'],
  ['no user', 'one', { user: '' }, '401 missing-principal'],
  ['a body that is too large', 'x'.repeat(2_000), {}, '413 too-large'],
  ['a compressed body', 'one', { headers: { 'content-encoding': 'gzip' } }, '415 unsupported-encoding'],
  ['a GET, which is no order', '', { method: 'GET' }, '405 method-not-allowed'],
]

const table: readonly Case[] = rules.map(([what, body, posted, expected]) => ({
  name: `the rules of the draft: ${what} → ${expected}`,
  run: async (world) => {
    const shop = new Shop(world, () => {}, { maxBodyBytes: 1_000 })
    assert.equal(await told(shop.post('one')), '201 {"order":"one"}')
    const runs = expected.startsWith('201') && !expected.endsWith('again')
    assert.equal(await told(shop.post(body, posted)), expected)
    assert.equal(shop.calls.length, runs ? 2 : 1)
    assert.equal((await shop.hapax.failed.list()).length, 0)
  },
}))

const responses: readonly Case[] = [
  {
    name: 'a response is sent again with its status, its body and the headers that may be, by any process',
    run: async (world) => {
      const headers = {
        'content-type': 'image/png',
        location: '/orders/1',
        'set-cookie': 'a=b',
        'x-count': '1',
        'x-other': '2',
      }
      const bytes = Uint8Array.from({ length: 256 }, (_, at) => at)
      const options = { headers: ['x-count'] }
      const shop = new Shop(world, () => new Response(bytes, { status: 201, headers }), options)
      const first = await shop.post('one')
      assert.equal(first.headers.get('set-cookie'), 'a=b')
      const rival = new Shop(world, () => assert.fail('it was called again'), {
        ...options,
        hapax: await world.rival(),
      })
      for (const again of [await shop.post('one'), await rival.post('one')]) {
        assert.equal(again.status, 201)
        assert.equal(again.headers.get('idempotent-replayed'), 'true')
        const sent = ['content-type', 'location', 'x-count', 'x-other', 'set-cookie'].map((name) =>
          again.headers.get(name),
        )
        assert.deepEqual(sent, ['image/png', '/orders/1', '1', null, null])
        assert.ok(Buffer.from(await again.arrayBuffer()).equals(bytes))
      }
    },
  },
  {
    name: 'a response without a body is sent again as one',
    run: async (world) => {
      const shop = new Shop(world, () => new Response(null, { status: 204 }))
      assert.equal(await told(shop.post('one')), '204 ')
      assert.equal(await told(shop.post('one')), '204  again')
    },
  },
  {
    name: 'after keepMs the key is free again',
    run: async (world) => {
      const shop = new Shop(world, () => {}, { keepMs: 500 })
      await shop.post('one')
      await until(async () => (await told(shop.post('two'))) === '201 {"order":"two"}')
    },
  },
]

/** Which responses are kept: the policy, what the handler does, and what the first two requests get. */
const kept: readonly (readonly [ShopOptions['store'], () => unknown, readonly [string, string], number])[] = [
  ['no-5xx', () => new Response('no', { status: 404 }), ['404 no', '404 no again'], 1],
  ['no-5xx', () => new Response('down', { status: 503 }), ['503 down', '503 down'], 2],
  ['2xx', () => new Response('no', { status: 404 }), ['404 no', '404 no'], 2],
  ['all', () => new Response('down', { status: 503 }), ['503 down', '503 down again'], 1],
  [(response) => response.status === 418, () => new Response('tea', { status: 418 }), ['418 tea', '418 tea again'], 1],
  ['all', () => Promise.reject(new Response('thrown', { status: 402 })), ['402 thrown', '402 thrown'], 2],
  ['all', () => Promise.reject(new Error('no')), ['500 handler-failed', '500 handler-failed'], 2],
  ['all', () => new Response('x'.repeat(2_000)), ['500 response-not-storable', '500 response-not-storable'], 2],
  ['all', () => Reflect.construct(Response, ['ok', { status: 200 }]), ['200 ok', '200 ok again'], 1],
]

const policies: readonly Case[] = kept.map(([store, ordering, expected, calls], at) => ({
  name: `the policy ${typeof store === 'string' ? store : 'of the application'} (${at + 1}): ${expected.join(', then ')}`,
  run: async (world) => {
    const shop = new Shop(world, ordering, { ...(store && { store }), maxResponseBytes: 1_000 })
    assert.deepEqual([await told(shop.post('one')), await told(shop.post('one'))], expected)
    assert.equal(shop.calls.length, calls)
    assert.equal((await shop.hapax.failed.list()).length, 0)
  },
}))

const attempts: readonly Case[] = [
  {
    name: 'B7 B21: what failed goes on with the next request: calls that were made are not made again, and the history is kept',
    run: async (world) => {
      const provider = new Provider()
      const shop = new Shop(world, async (ctx) => {
        const charged = await ctx.effect('charge', (key) => provider.send(key))
        await ctx.note({ attempt: ctx.attempt })
        if (ctx.attempt < 3) throw new Error('the next step fails')
        return [ctx.key, ctx.principal, ctx.fence, charged.sent].join()
      })
      for (let time = 0; time < 2; time++) {
        const failed = await shop.post('one')
        assertRetryAfter(failed)
        assert.equal(await told(failed), '500 handler-failed')
      }
      const traces = await shop.hapax.explain('k')
      const claim = traces.find(({ where }) => where === 'claim')
      assert.ok(claim?.where === 'claim')
      assert.deepEqual([claim.consumer, claim.attempts, claim.failures], ['http:orders', 2, 2])
      assert.equal(await told(shop.post('one')), '201 {"order":"k,ann,3,1"}')
      assert.equal(await told(shop.post('one')), '201 {"order":"k,ann,3,1"} again')
      assert.equal(provider.keys.length, 1)
    },
  },
  {
    name: 'F7: another payload under the key of a request that failed is refused, because calls were made for the first one',
    run: async (world) => {
      const shop = new Shop(world, (ctx, _, body) => {
        if (ctx.attempt === 1) throw new Error('no')
        return body
      })
      assert.equal(await told(shop.post('one')), '500 handler-failed')
      assert.equal(await told(shop.post('two')), '422 key-reused')
      assert.equal(await told(shop.post('one')), '201 {"order":"one"}')
      assert.deepEqual(shop.calls, ['one', 'one'])
    },
  },
  {
    name: 'B6: a handler that asks for a delay gets it: until then the client is told how long to wait',
    run: async (world) => {
      const shop = new Shop(world, () => Promise.reject(new RetryAfter(90_000)))
      assert.equal(await told(shop.post('one')), '500 handler-failed')
      const early = await shop.post('one')
      const seconds = Number(early.headers.get('retry-after'))
      assert.ok(seconds > 60 && seconds <= 90, `Retry-After: ${seconds}`)
      assert.equal(await told(early), '409 in-progress')
      assert.equal(shop.calls.length, 1)
    },
  },
  {
    name: 'B10: a handler that takes too long has failed; the next request goes on',
    run: async (world) => {
      const shop = new Shop(world, (ctx) => (ctx.attempt === 1 ? new Promise(() => {}) : 'done'), {
        maxDurationMs: 100,
      })
      assert.equal(await told(shop.post('one')), '500 handler-failed')
      await until(async () => (await told(shop.post('one'))) === '201 {"order":"done"}')
    },
  },
]

/** A store whose method works, but loses its answer once. */
function losing(store: ClaimStore, name: 'claim' | 'settle'): ClaimStore {
  const { claims } = store
  let lost = false
  const once = async <T>(work: Promise<T>): Promise<T> => {
    const done = await work
    if (lost) return done
    lost = true
    throw new HapaxError('store-unavailable', 'no answer')
  }
  const claim: StoreClaims['claim'] = (...args) => once(claims.claim(...args))
  const settle: StoreClaims['settle'] = (...args) => once(claims.settle(...args))
  return altered(store, { claims: name === 'claim' ? { claim } : { settle } })
}

const outages: readonly Case[] = [
  {
    name: 'A25: while the store is away a request gets 503 and is not run',
    run: async (world) => {
      const hapax = world.hapax({ store: without(world.store, 'claim') })
      const shop = new Shop(world, () => {}, { hapax })
      const refused = await shop.post('one')
      assertRetryAfter(refused)
      assert.equal(await told(refused), '503 database-unavailable')
      assert.equal(shop.calls.length, 0)
    },
  },
  {
    name: 'A25: the store goes away before a call: 503, the call is not made, and no attempt is used up',
    run: async (world) => {
      const begin = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
      const provider = new Provider()
      const order: Ordering = async (ctx) =>
        `${(await ctx.effect('charge', (key) => provider.send(key))).sent} ${ctx.attempt}`
      const away = new Shop(world, order, {
        hapax: world.hapax({ store: altered(world.store, { journal: { begin } }) }),
      })
      assert.equal(await told(away.post('one')), '503 database-unavailable')
      assert.equal(provider.keys.length, 0)
      const shop = new Shop(world, order)
      await until(async () => (await told(shop.post('one'))) === '201 {"order":"1 1"}')
    },
  },
  {
    name: 'B7: the response was not written: 503, and after the lease the next request goes on, without the calls that were made',
    run: async (world) => {
      const provider = new Provider()
      const order: Ordering = (ctx) => ctx.effect('charge', (key) => provider.send(key))
      const options = { leaseMs: 200 }
      const hapax = world.hapax({ store: without(world.store, 'settle', 'renew') })
      const away = new Shop(world, order, { ...options, hapax })
      const unknown = await away.post('one')
      assertRetryAfter(unknown)
      assert.equal(await told(unknown), '503 outcome-unknown')
      const shop = new Shop(world, order, options)
      await until(async () => (await told(shop.post('one'))) === '201 {"order":{"sent":1}}')
      assert.equal(await told(away.post('one')), '201 {"order":{"sent":1}} again')
      assert.equal(provider.keys.length, 1)
    },
  },
  {
    name: 'A1: the response was written and the answer was lost: 503, and the next request gets it',
    run: async (world) => {
      const shop = new Shop(world, () => {}, { hapax: world.hapax({ store: losing(world.store, 'settle') }) })
      assert.equal(await told(shop.post('one')), '503 outcome-unknown')
      assert.equal(await told(shop.post('one')), '201 {"order":"one"} again')
      assert.equal(shop.calls.length, 1)
    },
  },
  {
    name: 'B17: a claim whose answer was lost runs out, and the next request takes it over',
    run: async (world) => {
      const hapax = world.hapax({ store: losing(world.store, 'claim') })
      const shop = new Shop(world, () => {}, { hapax, leaseMs: 200 })
      assert.equal(await told(shop.post('one')), '503 database-unavailable')
      await until(async () => (await told(shop.post('one'))) === '201 {"order":"one"}')
      assert.equal(shop.calls.length, 1)
    },
  },
]

/** What `hapax.http` promises, on a store that has only claims. */
export const requests: readonly Case[] = [...table, ...responses, ...policies, ...attempts, ...outages]
