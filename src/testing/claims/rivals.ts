import assert from 'node:assert/strict'
import { HapaxError, Permanent } from '../../base/index.ts'
import type { ClaimHttpOptions, ClaimStore, StoreClaims } from '../../contracts/index.ts'
import { altered } from '../altered.ts'
import { gate } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { assertRetryAfter, Shop, told } from './shop.ts'
import { type ClaimWorld, Provider, without } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** The same store for a process that dies when it has claimed something. */
function crashing(store: ClaimStore): ClaimStore {
  const claim: StoreClaims['claim'] = async (...args) => {
    const claimed = await store.claims.claim(...args)
    if (claimed.some(({ kind }) => kind === 'ours')) throw new HapaxError('store-unavailable', 'no answer')
    return claimed
  }
  return altered(store, { claims: { claim } })
}

/** How many of each there are. */
function counted(all: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries([...Map.groupBy(all, (each) => each)].map(([each, { length }]) => [each, length]))
}

const twins: readonly Case[] = [
  {
    name: '500 copies at once: one runs, and the others get its response if they may wait, or are told to come again',
    run: async (world) => {
      const { passed, open } = gate()
      const shop = new Shop(world, () => passed, { waitMs: 30_000 })
      const waiting = Array.from({ length: 500 }, () => told(shop.post('one')))
      await until(() => shop.calls.length === 1)
      open()
      const first = '201 {"order":"one"}'
      assert.deepEqual(counted(await Promise.all(waiting)), { [first]: 1, [`${first} again`]: 499 })
      const again = gate()
      const hasty = new Shop(world, () => again.passed, { hapax: world.hapax(), scope: 'hasty' })
      const copies = Array.from({ length: 500 }, () => hasty.post('one'))
      const refused = await Promise.all(copies.slice(1))
      for (const each of refused) assertRetryAfter(each)
      assert.deepEqual(counted(await Promise.all(refused.map(told))), { '409 in-progress': 499 })
      again.open()
      assert.equal(await told(copies[0] as Promise<Response>), first)
      assert.deepEqual([shop.calls.length, hasty.calls.length], [1, 1])
    },
  },
  {
    name: 'copies in two processes: one runs; the other process waits for its response, or says that it is under way',
    run: async (world) => {
      const { passed, open } = gate()
      const shop = new Shop(world, () => passed)
      const patient = new Shop(world, () => assert.fail('it ran twice'), { hapax: await world.rival(), waitMs: 30_000 })
      const hasty = new Shop(world, () => assert.fail('it ran twice'), { hapax: await world.rival() })
      const first = shop.post('one')
      await until(() => shop.calls.length === 1)
      const waits = patient.post('one')
      const refused = await hasty.post('one')
      assertRetryAfter(refused)
      assert.equal(await told(refused), '409 in-progress')
      assert.equal(await told(hasty.post('two')), '422 key-reused')
      open()
      assert.equal(await told(first), '201 {"order":"one"}')
      assert.equal(await told(waits), '201 {"order":"one"} again')
    },
  },
  {
    name: 'B3 B4: a process that has lost its lease sends nothing of its own, and its response is not kept',
    run: async (world) => {
      const { passed, open } = gate()
      // As if the process were stopped for longer than its lease.
      const hapax = world.hapax({ store: without(world.store, 'renew') })
      const ordering = async (): Promise<string> => {
        await passed
        return 'slow'
      }
      const slow = new Shop(world, ordering, { hapax, leaseMs: 200 })
      const pending = slow.post('one')
      await until(() => slow.calls.length === 1)
      const rival = new Shop(world, () => 'rival', { hapax: await world.rival() })
      await until(async () => (await told(rival.post('one'))).startsWith('201 {"order":"rival"}'))
      open()
      assert.equal(await told(pending), '409 in-progress')
      assert.equal(await told(slow.post('one')), '201 {"order":"rival"} again')
    },
  },
]

const people: readonly Case[] = [
  {
    name: 'B8: a call of unknown outcome holds the request for a person; once it is settled, the next request goes on',
    run: async (world) => {
      let calls = 0
      const shop = new Shop(world, (ctx) =>
        ctx.effect('charge', async () => {
          calls += 1
          throw new Error('reset')
        }),
      )
      assert.equal(await told(shop.post('one')), '500 unknown-effect')
      assert.equal(await told(shop.post('one')), '409 needs-a-person')
      assert.equal(await told(shop.post('two')), '422 key-reused')
      const [held, ...others] = await shop.hapax.failed.list()
      assert.ok(held !== undefined && others.length === 0)
      assert.deepEqual([held.consumer, held.reason, held.message.id], ['http:orders', 'unknown-effect', 'k'])
      await shop.hapax.failed.settle(held.seq, { effect: 'charge', as: 'done', result: 'by hand' })
      assert.equal(await told(shop.post('one')), '201 {"order":"by hand"}')
      assert.equal(await told(shop.post('one')), '201 {"order":"by hand"} again')
      assert.equal(calls, 1)
      await shop.drain()
      assert.deepEqual([calls, shop.calls.length], [1, 2])
    },
  },
  {
    name: 'a worker goes on with what a person retried: the request is rebuilt without credentials, and the client gets the response',
    run: async (world) => {
      const seen: string[] = []
      const shop = new Shop(world, (ctx, request, body) => {
        const { headers, method, url } = request
        const named = ['content-type', 'authorization', 'idempotency-key', 'x-user'].map((name) => headers.get(name))
        seen.push([method, url, body, ...named, ctx.key, ctx.principal].join(' '))
        if (ctx.fence === 1) throw new Permanent('no')
        return 'late'
      })
      const posted = { path: '/orders?urgent=1', headers: { authorization: 'Bearer secret' } }
      const first = await told(shop.post('one', posted))
      assert.equal(first, '500 handler-failed')
      const [failed] = await shop.hapax.failed.list({ reason: 'permanent' })
      assert.ok(failed !== undefined)
      assert.ok(!JSON.stringify(failed).includes('secret'))
      await shop.hapax.failed.retry(failed.seq)
      await shop.drain()
      const rest = 'POST http://shop.test/orders?urgent=1 one text/plain'
      assert.deepEqual(seen, [`${rest} Bearer secret k ann k ann`, `${rest}  k  k ann`])
      assert.equal(await told(shop.post('one', posted)), '201 {"order":"late"} again')
      assert.deepEqual(await shop.hapax.failed.list(), [])
    },
  },
  {
    name: 'what a person has discarded is not run again',
    run: async (world) => {
      const shop = new Shop(world, () => Promise.reject(new Permanent('no')))
      await shop.post('one')
      const [failed] = await shop.hapax.failed.list()
      await shop.hapax.failed.discard(failed?.seq ?? '')
      assert.equal(await told(shop.post('one')), '409 needs-a-person')
      assert.equal(shop.calls.length, 1)
    },
  },
  {
    name: 'C2: a request whose process crashed three times in a row is kept for a person',
    run: async (world) => {
      const shop = new Shop(world, () => {})
      const doomed = new Shop(world, () => {}, { hapax: world.hapax({ store: crashing(world.store) }), leaseMs: 100 })
      for (let time = 0; time < 3; time++) {
        await until(async () => (await told(doomed.post('one'))) === '503 database-unavailable')
      }
      await until(async () => (await told(shop.post('one'))) === '500 handler-failed')
      assert.equal(await told(shop.post('one')), '409 needs-a-person')
      const [failed] = await shop.hapax.failed.list()
      assert.equal(failed?.reason, 'crash-loop')
      assert.equal(shop.calls.length, 0)
    },
  },
  {
    name: 'a request is found by its key while it runs and afterwards, and its scope is listed',
    run: async (world) => {
      const { passed, open } = gate()
      const provider = new Provider()
      const shop = new Shop(world, async (ctx) => {
        await ctx.effect('charge', (key) => provider.send(key))
        await passed
      })
      const places = async (): Promise<readonly string[]> =>
        (await shop.hapax.explain('k')).map(({ where }) => where).sort()
      const first = shop.post('one')
      await until(async () => (await places()).join() === 'claim,effect,receipt')
      open()
      await first
      await until(async () => (await places()).join() === 'effect,receipt')
      const { consumers } = await shop.hapax.status()
      assert.deepEqual(consumers, [{ consumer: 'http:orders', types: [], waiting: 0, failed: 0 }])
    },
  },
]

const refusals: readonly Case[] = [
  {
    name: 'K18: what cannot work is refused when the scope is made',
    run: async (world) => {
      const hapax = world.hapax()
      const refused = (options: object, what: RegExp): void =>
        assert.throws(() => hapax.http('orders', options as ClaimHttpOptions), {
          code: 'invalid-option',
          message: what,
        })
      const principal = 'none'
      refused({ principal, mode: 'transaction' }, /^expected mode to be 'leased', because redis has no transactions/)
      refused({ principal, require: false }, /^expected require to be true on redis/)
      refused({ principal, isolation: 'serializable' }, /isolation/)
      refused({ principal, leaseMs: 1 }, /^expected leaseMs to be at least 100/)
      refused({}, /^expected principal to be/)
      const orders = hapax.http('orders', { principal, mode: 'leased' })
      assert.throws(() => hapax.http('orders', { principal }), { code: 'duplicate-handler' })
      assert.throws(() => hapax.leased('http:orders'), { code: 'duplicate-handler' })
      orders.handler(() => new Response())
      assert.throws(() => orders.handler(() => new Response()), { code: 'duplicate-handler' })
      await assert.rejects(
        orders.handle(new Request('http://shop.test'), () => new Response()),
        { code: 'invalid-option' },
      )
      const other = world.hapax().http('orders', { principal })
      assert.throws(() => hapax.worker({ consume: [other] }), { code: 'invalid-option' })
    },
  },
]

/** Requests that several processes, or people, have to do with. */
export const rivals: readonly Case[] = [...twins, ...people, ...refusals]
