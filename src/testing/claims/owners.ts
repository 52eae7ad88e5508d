import assert from 'node:assert/strict'
import type { Claimed } from '../../contracts/index.ts'
import { altered } from '../altered.ts'
import { LeapingClock } from '../clock.ts'
import { feed } from '../feed.ts'
import { assertOutcome, assertRejects, gate, ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { assertKind, type ClaimWorld, ERROR, Provider, pings, stored, without } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

export const owners: readonly Case[] = [
  {
    name: 'K13: a stop aborts a handler at its deadline, fed from a subscription',
    run: async (world) => {
      const entered = gate()
      let told = false
      const hapax = world.hapax()
      const sms = world.sms(
        ({ signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => {
              told = true
              reject(signal.reason)
            })
            entered.open()
          }),
        { hapax, concurrency: 1 },
      )
      const { subscription, acked } = feed(['a', 'b'])
      const worker = hapax.worker({ consume: [sms.from(subscription)], pollMs: 20 })
      await worker.start()
      await entered.passed
      await worker.stop({ deadlineMs: 1 })
      assert.ok(told, 'the handler was aborted before stop resolved')
      assert.deepEqual(acked, [])
      const calls: string[] = []
      const next = world.sms((ctx) => calls.push(`${ctx.message.id} ${ctx.attempt}`))
      // It was put back, and is due in a moment.
      await until(async () => (await next.handleMany(pings(['a', 'b']))).every(({ ack }) => ack))
      assert.deepEqual(calls.sort(), ['a 1', 'b 1'])
    },
  },
  {
    name: 'B2: while an owner works on a message, it is busy for others and never acknowledged',
    run: async (world) => {
      const entered = gate()
      const go = gate()
      const sms = world.sms(async () => {
        entered.open()
        await go.passed
      })
      const rival = world.sms(() => assert.fail('a second owner'), { hapax: await world.rival() })
      const first = sms.handle(ping('a'))
      await entered.passed
      const busy = await rival.handle(ping('a'))
      assertOutcome(busy, 'busy', 'busy')
      assert.equal(busy.retryAfterMs, undefined)
      // In the same process it waits for the first one.
      const second = sms.handle(ping('a'))
      go.open()
      assertOutcome(await first, 'processed')
      assertOutcome(await second, 'duplicate')
      assertOutcome(await rival.handle(ping('a')), 'duplicate')
    },
  },
  {
    name: 'I3: eight processes that get every message at the same time call the handler once for each',
    run: async (world) => {
      const calls: string[] = []
      const ids = Array.from({ length: 30 }, (_, at) => `m${at}`)
      const consumers = await Promise.all(
        Array.from({ length: 8 }, async () =>
          world.sms((ctx) => calls.push(ctx.message.id), { hapax: await world.rival() }),
        ),
      )
      const all = (await Promise.all(consumers.map((sms) => sms.handleMany(pings(ids))))).flat()
      assert.deepEqual([...calls].sort(), [...ids].sort())
      assert.equal(all.filter(({ status }) => status === 'processed').length, ids.length)
      assert.ok(all.every(({ status }) => ['processed', 'duplicate', 'busy'].includes(status)))
    },
  },
  {
    name: 'B1 B2: when the owner dies, the next delivery after its lease gets the message, with a higher fence and its journal',
    run: async (world) => {
      const lease = await world.lease('a', { leaseMs: 100 })
      const effect = { consumer: 'sms', messageKey: stored('a').messageKey, name: 'send' }
      await world.store.journal.begin(lease, 100, effect, false)
      assert.ok(await world.store.journal.end(lease, effect, { state: 'done', result: '"sent"', error: null }))
      let answer: unknown
      const sms = world.sms(async (ctx) => {
        answer = [ctx.fence, await ctx.effect('send', () => assert.fail('sent again'))]
      })
      await until(async () => (await sms.handle(ping('a'))).status === 'processed')
      assert.deepEqual(answer, [2, 'sent'])
    },
  },
  {
    name: 'B3: the lease of a handler that takes longer is renewed',
    run: async (world) => {
      let renewals = 0
      const { store } = world
      const counted = altered(store, {
        claims: {
          renew: async (leases, leaseMs) => {
            const held = await store.claims.renew(leases, leaseMs)
            renewals += held.size
            return held
          },
        },
      })
      // Long enough for a busy machine, short against what is waited for.
      const sms = world.sms(() => until(() => renewals >= 4), {
        leaseMs: 1_500,
        hapax: world.hapax({ store: counted }),
      })
      assertOutcome(await sms.handle(ping('a')), 'processed')
    },
  },
  {
    name: 'B3 B4 B5: an owner that was silent for longer than its lease can neither journal, settle nor release, and is aborted',
    run: async (world) => {
      const provider = new Provider()
      const entered = gate()
      const resumed = gate()
      let signal: AbortSignal | undefined
      const hapax = world.hapax({ store: without(world.store, 'renew') })
      const lost: number[] = []
      hapax.events.on('lease-lost', ({ fence }) => lost.push(fence))
      const slow = world.sms(
        async (ctx) => {
          signal = ctx.signal
          entered.open()
          await resumed.passed
          await ctx.effect('send', provider.send)
        },
        { leaseMs: 100, hapax },
      )
      const first = slow.handle(ping('a'))
      await entered.passed
      const lease = await world.lease('a')
      assert.equal(lease.fence, 2)
      resumed.open()
      assertOutcome(await first, 'busy')
      assert.ok(signal?.aborted)
      assert.deepEqual([provider.keys, lost, await world.journal('a')], [[], [1], []])
      // The new owner still has it.
      assert.ok((await world.store.claims.settle([lease], 60_000)).has(lease.seq))
    },
  },
  {
    name: 'B4 B5: no write under an old lease has any effect, whichever part of it is old',
    run: async (world) => {
      const { store } = world
      const old = await world.lease('a', { leaseMs: 1 })
      const lease = await world.lease('a')
      const effect = { consumer: 'sms', messageKey: stored('a').messageKey, name: 'send' }
      const failure = {
        message: stored('a'),
        attempts: 1,
        reason: 'permanent',
        error: ERROR,
        entry: '{}',
        retentionMs: 1000,
      }
      for (const zombie of [old, { ...lease, token: old.token }, { ...lease, fence: old.fence }]) {
        assert.equal((await store.claims.settle([zombie], 1000)).size, 0)
        assert.equal((await store.claims.renew([zombie], 1000)).size, 0)
        assert.equal(await store.claims.release(zombie, { attempts: 1, delayMs: 0, error: ERROR, entry: '{}' }), false)
        assert.equal(await store.claims.fail('sms', zombie, failure), false)
        assert.equal(await store.journal.begin(zombie, 1000, effect, true), undefined)
        assert.equal(await store.journal.end(zombie, effect, { state: 'done', result: '1', error: null }), false)
      }
      assert.deepEqual([await world.journal('a'), await world.places('a')], [[], ['claim', 'receipt']])
      assert.equal(await store.failed.count({}), 0)
      assertKind(await world.claim('a'), 'busy')
      assert.equal((await store.claims.settle([lease], 60_000)).size, 1)
    },
  },
  {
    name: 'an owner whose lease expired without a successor may still settle',
    run: async (world) => {
      const lease = await world.lease('a', { leaseMs: 1 })
      assert.ok((await world.store.claims.settle([lease], 60_000)).has(lease.seq))
      assertKind(await world.claim('a'), 'taken')
    },
  },
  {
    name: 'B17: claim, settle, release and fail return the same when repeated after a lost reply',
    run: async (world) => {
      const { store } = world
      const token = crypto.randomUUID()
      const first = await world.claim('a', { token })
      assert.deepEqual(await world.claim('a', { token }), first)
      const { lease } = first as Claimed & { kind: 'ours' }
      assert.deepEqual([lease.token, lease.fence], [token, 1])
      for (let run = 0; run < 2; run++) assert.equal((await store.claims.settle([lease], 60_000)).size, 1)
      const released = await world.lease('b')
      for (let run = 0; run < 2; run++) {
        assert.ok(await store.claims.release(released, { attempts: 1, delayMs: 60_000, error: ERROR, entry: '{}' }))
      }
      assertKind(await world.claim('b'), 'waiting')
      const failed = await world.lease('c')
      const failure = {
        message: stored('c'),
        attempts: 1,
        reason: 'permanent',
        error: ERROR,
        entry: '{}',
        retentionMs: 1000,
      }
      for (let run = 0; run < 2; run++) assert.ok(await store.claims.fail('sms', failed, failure))
      assert.equal((await store.failed.list({ limit: 10 })).length, 1)
    },
  },
  {
    name: 'B10: a handler that takes too long is aborted, and the attempt counts',
    run: async (world) => {
      let signal: AbortSignal | undefined
      const attempts: number[] = []
      const clock = new LeapingClock()
      const maxDurationMs = 60_000
      const sms = world.sms(
        (ctx) => {
          attempts.push(ctx.attempt)
          if (attempts.length > 1) return
          signal = ctx.signal
          clock.leap(maxDurationMs)
          return new Promise(() => {})
        },
        { maxDurationMs, hapax: world.hapax({ clock }) },
      )
      assertOutcome(await sms.handle(ping('a')), 'rolled-back', 'handler-timeout')
      assert.ok(signal?.aborted)
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual(attempts, [1, 2])
    },
  },
  {
    name: 'C2: a message whose owners die again and again is kept as a crash loop, and takes no neighbour along',
    run: async (world) => {
      for (let crash = 1; crash <= 3; crash++) {
        await world.lease('killer', { leaseMs: 1 })
        // A neighbour of the first crash; after that it is retried alone, and succeeds.
        if (crash === 1) await world.lease('neighbour', { leaseMs: 1 })
      }
      const sms = world.sms(() => {})
      await until(async () => (await world.claim('killer', { alone: false })).kind === 'suspect')
      const [killer] = await sms.handleMany(pings(['killer', 'neighbour']))
      assertOutcome(killer, 'failed', 'crash-loop')
      // It may have to wait until the other one is done.
      await until(async () => (await sms.handle(ping('neighbour'))).ack)
      assert.deepEqual(await world.places('neighbour'), ['receipt'])
    },
  },
  {
    name: 'K7: messages whose owners died do not stand in the way of others, however many they are, and however long one takes',
    run: async (world) => {
      const ids = Array.from({ length: 6 }, (_, at) => `suspect-${at}`)
      for (const id of ids) await world.lease(id, { leaseMs: 1 })
      const others = gate()
      const hapax = world.hapax()
      let running = 0
      let most = 0
      const sms = world.sms(
        async ({ message }) => {
          if (message.id === 'other') return others.open()
          running += 1
          most = Math.max(most, running)
          await others.passed
          running -= 1
        },
        { hapax, concurrency: 4 },
      )
      const queue = feed([...ids, 'other'])
      const worker = hapax.worker({ consume: [sms.from(queue.subscription)], pollMs: 20 })
      await worker.start()
      await until(() => queue.acked.length === ids.length + 1, 'all are done')
      await worker.stop()
      assert.equal(most, 1)
      assert.equal(await hapax.failed.count(), 0)
    },
  },
  {
    name: 'A25: while the store is unavailable, nothing is acknowledged; afterwards everything works as before',
    run: async (world) => {
      const calls: string[] = []
      const away = without(world.store, 'claim')
      const sms = world.sms((ctx) => calls.push(ctx.message.id), { hapax: world.hapax({ store: away }) })
      await assertRejects(sms.handle(ping('a')), 'store-unavailable')
      const half = world.sms((ctx) => calls.push(ctx.message.id), {
        hapax: world.hapax({ store: without(world.store, 'settle', 'renew') }),
        leaseMs: 100,
      })
      await assertRejects(half.handle(ping('a')), 'store-unavailable')
      const again = world.sms((ctx) => calls.push(ctx.message.id))
      await until(async () => (await again.handle(ping('a'))).status === 'processed')
      // Without a word of it being done it has to be called again: that is what effects are for.
      assert.deepEqual(calls, ['a', 'a'])
    },
  },
]
