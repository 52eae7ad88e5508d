import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { HapaxError } from '../../base/index.ts'
import type { ClaimHapax } from '../../claims/index.ts'
import type { ClaimStore } from '../../contracts/index.ts'
import { numberOf } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { assertOutcome, assertRejects, gate, Pong, ping } from '../store/world.ts'
import { assertRefused, explainCalls, failedCalls } from '../tool-inputs.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { type ClaimWorld, pings } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** Puts messages into the failed store. */
async function failed(world: ClaimWorld, hapax: ClaimHapax, ids: readonly string[], name = 'sms'): Promise<void> {
  const bad = world.sms((ctx) => Promise.reject(new Error(`no '${ctx.message.id}'`)), {
    hapax: world.hapax(),
    name,
    retry: { attempts: 1 },
  })
  for (const id of ids) assertOutcome(await bad.handle(ping(id)), 'failed')
  assert.equal(await hapax.failed.count({ consumer: name }), ids.length)
}

const switchedOff: readonly Case[] = [
  {
    name: 'a consumer that is not enabled takes nothing: retried messages wait for another process',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const calls: string[] = []
      const off = world.sms(async (ctx) => calls.push(`off ${ctx.message.id}`), { hapax, enabled: false })
      const worker = await world.worker(hapax, off)
      assert.deepEqual(worker.serving, { consumers: [], disabled: ['sms'], relays: [] })
      assert.ok(worker.ready)
      await assertRejects(off.handle(ping('b')), 'disabled')
      await hapax.failed.retryAll({ all: true })
      await worker.drain()
      assert.equal(calls.length, 0)
      const other = world.hapax()
      await world.drain(
        other,
        world.sms(async (ctx) => calls.push(ctx.message.id), { hapax: other }),
      )
      assert.deepEqual(calls, ['a'])
    },
  },
]

const looking: readonly Case[] = [
  {
    name: 'failed messages are listed in pages, newest first, by filters and in groups',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a1', 'b2', 'c3'])
      await failed(world, hapax, ['d4'], 'other')
      const first = await hapax.failed.list({ limit: 3 })
      const second = await hapax.failed.list({ limit: 3, before: first.at(-1)?.seq as string })
      assert.deepEqual(
        [...first, ...second].map(({ message }) => message.id),
        ['d4', 'c3', 'b2', 'a1'],
      )
      assert.deepEqual(
        (await hapax.failed.list({ consumer: 'sms', type: 'ping', newerThanMs: 600_000 })).map((row) => row.message.id),
        ['c3', 'b2', 'a1'],
      )
      assert.equal(await hapax.failed.count({ olderThanMs: 600_000 }), 0)
      assert.equal(await hapax.failed.count({ reason: 'permanent' }), 0)
      assert.equal(await hapax.failed.count({ origin: 'outbox' }), 0)
      assert.equal(await hapax.failed.count(), 4)
      const groups = await hapax.failed.groups()
      assert.deepEqual(
        groups.map(({ consumer, count, reason }) => [consumer, count, reason]),
        [
          ['sms', 3, 'attempts-exhausted'],
          ['other', 1, 'attempts-exhausted'],
        ],
      )
      const row = await hapax.failed.get(groups[0]?.seq as string)
      assert.equal(row?.message.id, 'c3')
      assert.equal(await hapax.failed.get('4711-1'), undefined)
    },
  },
  {
    name: 'explain finds a message by its id, with and without its source; status counts',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = world.sms(() => {}, { hapax })
      await sms.handleMany(pings(['a', 'b']))
      await failed(world, hapax, ['c'])
      const found = async (id: string, source?: string) => (await hapax.explain(id, source)).map(({ where }) => where)
      assert.deepEqual(await found('a'), ['receipt'])
      assert.deepEqual(await found('c', '/sender'), ['receipt', 'failed'])
      assert.deepEqual([await found('a', '/elsewhere'), await found('z')], [[], []])
      const { consumers } = await hapax.status()
      assert.deepEqual(consumers, [{ consumer: 'sms', types: [], waiting: 0, failed: 1 }])
    },
  },
]

const changing: readonly Case[] = [
  {
    name: 'C3 C10: a retried message is handled from the stored payload, once, however many callers and workers there are',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const [row] = await hapax.failed.list()
      const asked = await Promise.allSettled(
        Array.from({ length: 5 }, () =>
          world.store.failed.retry(row?.seq as string, { actor: 'ann', action: 'retry' }),
        ),
      )
      assert.ok(asked.some((each) => each.status === 'fulfilled' && each.value))
      const calls: unknown[] = []
      const rivals = await Promise.all(
        Array.from({ length: 3 }, async () => {
          const rival = await world.rival()
          const sms = world.sms((ctx, data) => calls.push([ctx.message.id, ctx.attempt, data.n]), { hapax: rival })
          return world.worker(rival, sms)
        }),
      )
      await until(async () => (await world.places('a')).join() === 'audit,receipt')
      for (const worker of rivals) await worker.stop()
      assert.deepEqual(calls, [['a', 1, 1]])
      assert.equal(await hapax.failed.count(), 0)
      assert.deepEqual((await hapax.status()).consumers[0]?.waiting, 0)
      await assertRejects(hapax.failed.retry(row?.seq as string), 'not-found')
    },
  },
  {
    name: 'what a person retried and what fails again is retried with its delays, and then failed again',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const attempts: number[] = []
      const sms = world.sms(
        (ctx) => {
          attempts.push(ctx.attempt)
          throw new Error('still no')
        },
        { hapax, retry: { attempts: 3, minDelayMs: 5, maxDelayMs: 20 } },
      )
      const [row] = await hapax.failed.list()
      const worker = await world.worker(hapax, sms)
      await hapax.failed.retry(row?.seq as string)
      await until(async () => (await hapax.failed.count()) === 1)
      await worker.stop()
      const [again] = await hapax.failed.list()
      assert.deepEqual([attempts, again?.attempts, again?.error.message], [[1, 2, 3], 3, 'still no'])
      assert.equal(numberOf(again?.seq as string), numberOf(row?.seq as string))
      assert.deepEqual((await hapax.status()).consumers[0]?.waiting, 0)
    },
  },
  {
    name: 'B2: when the worker of a retried message dies, another one takes it after the lease',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const [row] = await hapax.failed.list()
      await hapax.failed.retry(row?.seq as string)
      const dead = await world.store.claims.claimStored('sms', { token: crypto.randomUUID(), leaseMs: 50, limit: 10 })
      assert.deepEqual(
        dead.claims.map(({ message, lease }) => [message.id, lease.fence]),
        [['a', 2]],
      )
      const fences: number[] = []
      const sms = world.sms((ctx) => fences.push(ctx.fence), { hapax })
      const worker = await world.worker(hapax, sms)
      await until(() => fences.length > 0)
      await worker.stop()
      assert.deepEqual(fences, [3])
    },
  },
  {
    name: 'a discarded message is gone, and its receipt stays',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a', 'b'])
      const [b, a] = await hapax.failed.list()
      await hapax.failed.discard(a?.seq as string, { actor: 'ann', note: 'old' })
      await assertRejects(hapax.failed.discard(a?.seq as string), 'not-found')
      await assertRejects(hapax.failed.retry(a?.seq as string), 'not-found')
      const sms = world.sms(() => assert.fail('handled'), { hapax })
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
      assert.deepEqual(await world.places('a'), ['audit', 'receipt'])
      assert.deepEqual(
        (await hapax.failed.list()).map(({ seq }) => seq),
        [b?.seq],
      )
    },
  },
  {
    name: 'K18: a tool refuses input that is incomplete or ambiguous',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a', 'b'])
      const [row] = await hapax.failed.list()
      await assertRefused([...failedCalls(hapax.failed, row?.seq as string), ...explainCalls(hapax)])
      assert.equal(await hapax.failed.count(), 2)
      assert.equal((await hapax.failed.discardAll({ all: true })).done, 2)
    },
  },
  {
    name: 'a message with broken atomicity is only retried, alone or in bulk, once its effects are confirmed as checked',
    run: async (world) => {
      const hapax = world.hapax()
      const broken = world.sms(() => Promise.reject(new HapaxError('broken-atomicity', 'it has committed')), { hapax })
      assertOutcome(await broken.handle(ping('a')), 'failed', 'broken-atomicity')
      const [a] = await hapax.failed.list()
      await assertRejects(hapax.failed.retry(a?.seq as string), 'effects-unchecked')
      const left = await hapax.failed.retryAll({ all: true })
      assert.deepEqual(left, { done: 0, gone: 0, errors: 1, stopped: false })
      const taken = await hapax.failed.retryAll({ all: true }, { effectsChecked: true })
      assert.deepEqual(taken, { done: 1, gone: 0, errors: 0, stopped: false })
    },
  },
  {
    name: 'C12: retries and discards many; editing is refused',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a', 'b', 'c'])
      await failed(world, hapax, ['d', 'e'], 'other')
      assert.deepEqual(await hapax.failed.discardAll({ consumer: 'other' }), {
        done: 2,
        gone: 0,
        errors: 0,
        stopped: false,
      })
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 3, gone: 0, errors: 0, stopped: false })
      const calls: string[] = []
      await world.drain(
        hapax,
        world.sms((ctx) => calls.push(ctx.message.id), { hapax }),
      )
      assert.deepEqual(calls.sort(), ['a', 'b', 'c'])
      const edit = (hapax.failed as unknown as { edit(seq: string, data: unknown): Promise<unknown> }).edit('1', {})
      await assertRejects(edit, 'invalid-option')
    },
  },
  {
    name: 'F7: a conflict is not retried under the id of another message, whose external calls are not its own',
    run: async (world) => {
      const hapax = world.hapax()
      const sent: number[] = []
      const sms = world.sms((ctx, { n }) => ctx.effect('send', () => sent.push(n)), { hapax, onMismatch: 'conflict' })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assertOutcome(await sms.handle(ping('a', { data: { n: 2 } })), 'conflict')
      const [row] = await hapax.failed.list()
      const seq = row?.seq as string
      assert.deepEqual(
        (await hapax.explain('a')).map(({ where }) => where),
        ['receipt', 'effect', 'failed'],
      )
      assert.deepEqual(await hapax.failed.effects(seq), [])
      await assertRejects(hapax.failed.retry(seq), 'conflict')
      await assertRejects(hapax.failed.settle(seq, { effect: 'send', as: 'retry' }), 'not-found')
      assert.deepEqual(await hapax.failed.retryAll({ all: true }), { done: 0, gone: 0, errors: 1, stopped: false })
      assert.deepEqual([sent, await hapax.failed.count()], [[1], 1])
      await hapax.failed.discard(seq)
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
    },
  },
]

const workers: readonly Case[] = [
  {
    name: 'H11: a worker that stops aborts what does not end in time, and that is no attempt',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const entered = gate()
      const attempts: number[] = []
      let stuck = true
      const sms = world.sms(
        (ctx) => {
          attempts.push(ctx.attempt)
          entered.open()
          return stuck ? new Promise(() => {}) : undefined
        },
        { hapax },
      )
      const [row] = await hapax.failed.list()
      await hapax.failed.retry(row?.seq as string)
      const worker = await world.worker(hapax, sms)
      await entered.passed
      await worker.stop({ deadlineMs: 0 })
      stuck = false
      const next = await world.worker(hapax, sms)
      await until(() => attempts.length === 2)
      await next.stop()
      assert.deepEqual(attempts, [1, 1])
    },
  },
  {
    name: 'C2: what a dead worker had in hand is tried one by one, once each, and not blamed for what others do',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a', 'b', 'c'])
      // A stall of the machine that outlasts it counts as another crash.
      const leaseMs = 1_000
      const began: string[] = []
      const lost: string[] = []
      const done = new Set<string>()
      hapax.events.on('lease-lost', ({ message }) => lost.push(message.id))
      hapax.events.on('processed', ({ message }) => done.add(message.id))
      let running = 0
      let mostAtOnce = 0
      const sms = world.sms(
        async ({ message, signal }) => {
          began.push(message.id)
          running += 1
          mostAtOnce = Math.max(mostAtOnce, running)
          // Longer than the others' leases would last, were they in hand.
          if (began.length === 1) await sleep(2 * leaseMs, undefined, { signal }).catch(() => {})
          running -= 1
        },
        // A quarter of it is one at a time.
        { hapax, leaseMs, concurrency: 4 },
      )
      await hapax.failed.retryAll({ all: true })
      const { claims } = await world.store.claims.claimStored('sms', {
        token: crypto.randomUUID(),
        leaseMs: 1,
        limit: 10,
      })
      assert.equal(claims.length, 3)
      const worker = await world.worker(hapax, sms)
      await until(() => done.size === 3)
      await worker.stop()
      // A machine that stands still for longer than a lease loses it, and the message is tried once more.
      assert.deepEqual([began.sort(), mostAtOnce], [['a', 'b', 'c', ...lost].sort(), 1])
      assert.equal(await hapax.failed.count(), 0)
    },
  },
  {
    name: 'C2: a suspect that is put back without having been tried stays one',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      await hapax.failed.retryAll({ all: true })
      const dead = { token: crypto.randomUUID(), leaseMs: 1, limit: 10 }
      assert.equal((await world.store.claims.claimStored('sms', dead)).claims.length, 1)
      const { kept, store } = watched(world.store)
      const other = world.hapax({ store })
      const worker = await world.worker(
        other,
        other.leased('sms').on(Pong, () => assert.fail('handled')),
      )
      await until(() => kept.length > 0)
      await worker.stop()
      assert.equal(kept[0], 1)
    },
  },
  {
    name: 'C2: a suspect that is put back while another one runs stays one',
    run: async (world) => {
      const ids = ['a', 'b', 'c']
      await failed(world, world.hapax(), ids)
      await world.hapax().failed.retryAll({ all: true })
      const dead = { token: crypto.randomUUID(), leaseMs: 1, limit: 10 }
      assert.equal((await world.store.claims.claimStored('sms', dead)).claims.length, ids.length)
      const { kept, store } = watched(world.store)
      const hapax = world.hapax({ store })
      const over = gate()
      const sms = world.sms(() => over.passed, { hapax, concurrency: 4 })
      const worker = await world.worker(hapax, sms)
      await until(() => kept.length > 0)
      over.open()
      await worker.stop()
      assert.deepEqual(new Set(kept), new Set([1]))
    },
  },
  {
    name: 'what this process does not handle is left to others',
    run: async (world) => {
      const hapax = world.hapax()
      await failed(world, hapax, ['a'])
      const [row] = await hapax.failed.list()
      await hapax.failed.retry(row?.seq as string)
      const strange = hapax.leased('sms').on(Pong, () => assert.fail('handled'))
      const worker = await world.worker(hapax, strange)
      const put = gate()
      hapax.events.on('rolled-back', () => put.open())
      await put.passed
      await worker.stop()
      assert.deepEqual(await world.places('a'), ['audit', 'claim', 'receipt'])
    },
  },
]

/** The same store, and the crash counts with which messages were put back. */
function watched(store: ClaimStore): { readonly kept: readonly unknown[]; readonly store: ClaimStore } {
  const kept: unknown[] = []
  const release: ClaimStore['claims']['release'] = (lease, end) => {
    kept.push(end.crashes)
    return store.claims.release(lease, end)
  }
  return { kept, store: altered(store, { claims: { release } }) }
}

export const people: readonly Case[] = [...looking, ...changing, ...workers, ...switchedOff]
