import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { Lease } from '../../../contracts/index.ts'
import { coreOf } from '../../../leased/index.ts'
import { messageKey } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import { type Case, parallelOnly } from '../case.ts'
import { assertOutcome, gate, ping, type World } from '../world.ts'
import { counting, leased, Provider, type Sms, seqOf, silent, states, stolen, storeOne, work } from './world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

/** How often the handler had been called and failed, as the inbox has it. */
async function attemptsOf(world: World, id: string): Promise<number | undefined> {
  return (await world.store.admin.trace(id)).find((trace) => trace.where === 'inbox')?.attempts
}

/** When a message in the inbox is due again. */
async function dueAt(world: World, id: string): Promise<number> {
  const trace = (await world.store.admin.trace(id)).find((each) => each.where === 'inbox')
  return trace?.where === 'inbox' ? trace.dueAt.getTime() : assert.fail(`${id} is not in the inbox`)
}

/** A handler whose lease runs out before it does the rest, and another process has the message meanwhile. */
async function overtaken(world: World, rest: Sms): Promise<void> {
  const entered = gate()
  const resumed = gate()
  const hapax = world.hapax({ store: silent(world.store) })
  const zombie = leased(
    world,
    async (ctx) => {
      entered.open()
      await resumed.passed
      await rest(ctx)
    },
    { leaseMs: 200, hapax },
  )
  const first = zombie.handle(ping('a'))
  await entered.passed
  const [row] = await stolen(world, await seqOf(world, 'a'))
  resumed.open()
  assertOutcome(await first, 'stored')
  // The other one still has it.
  const theirs = { seq: row?.seq as string, token: row?.leaseToken as string, fence: row?.fence as number }
  assert.equal((await world.store.inbox.renew([theirs], 60_000)).size, 1)
  assert.equal(await attemptsOf(world, 'a'), 0)
  await world.assertEffects([])
  assert.deepEqual(await world.store.failed.list({ limit: 10 }), [])
}

const zombies: readonly Case[] = [
  {
    name: 'B3 B4 B5: an owner that was silent for longer than its lease can neither journal nor settle, and is aborted',
    run: async (world) => {
      const provider = new Provider()
      const entered = gate()
      const resumed = gate()
      let signal: AbortSignal | undefined
      const slow = leased(
        world,
        async (ctx) => {
          signal = ctx.signal
          entered.open()
          await resumed.passed
          await ctx.effect('send', provider.send)
        },
        { leaseMs: 200, hapax: world.hapax({ store: silent(world.store) }) },
      )
      const first = slow.handle(ping('a'))
      await entered.passed
      const seq = (await world.store.inbox.find('billing', messageKey('/sender', 'a'))) as string
      // Its lease has run out and another process takes it.
      const [row] = await stolen(world, seq)
      assert.equal(row?.fence, 2)
      resumed.open()
      assertOutcome(await first, 'stored')
      assert.ok(signal?.aborted)
      assert.deepEqual(provider.calls, [])
      assert.deepEqual(await states(world, 'a'), [])
    },
  },
  {
    name: 'B17: a lease whose reply was lost is taken again with the same token',
    run: async (world) => {
      await storeOne(world, 'a')
      const [seq] = await world.due()
      const token = crypto.randomUUID()
      const [first] = await world.store.inbox.lease([seq as string], token, 60_000)
      const [again] = await world.store.inbox.lease([seq as string], token, 60_000)
      assert.deepEqual([first?.fence, again?.fence], [1, 2])
      assert.deepEqual(await world.store.inbox.lease([seq as string], crypto.randomUUID(), 60_000), [])
      assert.deepEqual(await world.due(), [])
    },
  },
  {
    name: 'B3: a locked row does not prevent other leases from being renewed',
    skip: parallelOnly,
    run: async (world) => {
      const leases: Lease[] = []
      for (const id of ['a', 'b']) {
        await storeOne(world, id)
        const token = crypto.randomUUID()
        for (const { seq, fence } of await world.store.inbox.lease([await seqOf(world, id)], token, 20_000)) {
          leases.push({ seq, token, fence })
        }
      }
      const [a] = leases
      const held = await world.store.transactions.run(OPTIONS, { kind: 'settle', lease: a as Lease }, async () => ({
        value: await world.store.inbox.renew(leases, 60_000),
        writes: undefined,
      }))
      assert.equal(held.size, 2)
      const trace = (await world.store.admin.trace('b')).find((each) => each.where === 'inbox')
      assert.ok(trace?.where === 'inbox' && trace.dueAt.getTime() > Date.now() + 30_000)
    },
  },
  {
    name: 'what a process works on is distinguished from what waits',
    run: async (world) => {
      await storeOne(world, 'a')
      const leased = async (): Promise<unknown> => {
        const trace = (await world.store.admin.trace('a')).find(({ where }) => where === 'inbox')
        return trace?.where === 'inbox' && [trace.leased, trace.dueAt.getTime() > Date.now() + 30_000]
      }
      assert.deepEqual(await leased(), [false, false])
      await world.store.inbox.lease(await world.due(), crypto.randomUUID(), 60_000)
      assert.deepEqual(await leased(), [true, true])
    },
  },
  {
    name: 'B4: a zombie neither settles nor completes',
    run: (world) => overtaken(world, (ctx) => ctx.complete((tx) => world.database.effect(tx, 'zombie'))),
  },
  {
    name: 'B5: the failure of a zombie is not recorded, and does not free the message',
    run: async (world) => {
      await overtaken(world, () => {
        throw new Error('too late')
      })
    },
  },
  {
    name: 'B5: a zombie that fails for good moves nothing to the failed store',
    run: async (world) => {
      await overtaken(world, () => {
        throw new Permanent('too late')
      })
    },
  },
  {
    name: 'B3: a zombie that comes back from its call journals nothing',
    run: async (world) => {
      const calling = gate()
      const answered = gate()
      const hapax = world.hapax({ store: silent(world.store) })
      const zombie = leased(
        world,
        (ctx) =>
          ctx.effect('send', async () => {
            calling.open()
            await answered.passed
          }),
        { leaseMs: 200, hapax },
      )
      const first = zombie.handle(ping('a'))
      await calling.passed
      await stolen(world, await seqOf(world, 'a'))
      answered.open()
      assertOutcome(await first, 'stored')
      assert.deepEqual(await states(world, 'a'), [['send', 'started', 1]])
      await world.assertPlaces('a', ['receipt', 'inbox', 'effect'])
    },
  },
  {
    name: 'a process that takes a message again after losing it aborts its own earlier handler',
    run: async (world) => {
      const entered = gate()
      const signals: AbortSignal[] = []
      const hapax = world.hapax({ store: silent(world.store) })
      const sms = leased(
        world,
        async ({ signal }) => {
          signals.push(signal)
          entered.open()
          if (signals.length === 1) await new Promise((resolve) => signal.addEventListener('abort', resolve))
        },
        { leaseMs: 200, hapax },
      )
      const first = sms.handle(ping('a'))
      await entered.passed
      const seq = await seqOf(world, 'a')
      await world.until(async () => (await coreOf(sms).work([seq])).size > 0)
      assertOutcome(await first, 'stored')
      assert.deepEqual(
        signals.map(({ aborted }) => aborted),
        [true, false],
      )
    },
  },
  {
    name: 'an expired lease that was not taken over may still journal and settle',
    run: async (world) => {
      const provider = new Provider()
      const hapax = world.hapax({ store: silent(world.store) })
      const slow = leased(
        world,
        async (ctx) => {
          await world.until(async () => (await world.due()).length === 1)
          await ctx.effect('send', provider.send)
          ctx.complete((tx) => world.database.effect(tx, 'late'))
        },
        { leaseMs: 100, hapax },
      )
      assertOutcome(await slow.handle(ping('a')), 'processed')
      assert.equal(provider.calls.length, 1)
      await world.assertEffects(['late'])
    },
  },
]

const takeover: readonly Case[] = [
  {
    name: 'B2 B20: what a dead process had leased is handled again from the stored payload, by any other process',
    run: async (world) => {
      await storeOne(world, 'a')
      const seq = await seqOf(world, 'a')
      assert.equal((await world.store.inbox.lease([seq], crypto.randomUUID(), 300)).length, 1)
      const hapax = world.hapax()
      const seen: unknown[] = []
      const sms = leased(world, ({ message, attempt, fence }) => seen.push([message.data, attempt, fence]), { hapax })
      await world.worker({ hapax, consumer: sms })
      await world.until(() => seen.length > 0)
      assert.deepEqual(seen, [[{ n: 1 }, 1, 2]])
      await world.until(async () => (await world.store.inbox.find('billing', messageKey('/sender', 'a'))) === undefined)
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'a handler that takes longer than its lease keeps it, and another worker does not get the message',
    run: async (world) => {
      const { store, count } = counting(world.store)
      const clock = new LeapingClock()
      const hapax = world.hapax({ store, clock })
      const leaseMs = 60_000
      const [entered, joined] = [gate(), gate()]
      const handler: Sms = async (ctx) => {
        calls += 1
        entered.open()
        await joined.passed
        const before = await dueAt(world, 'a')
        // Longer than the lease by the clock of this process; by that of the database, its end has to move on.
        await world.until(async () => {
          clock.leap(leaseMs / 3)
          return count() >= 5 && (await dueAt(world, 'a')) > before
        })
        ctx.complete((tx) => world.database.effect(tx, 'once'))
      }
      let calls = 0
      const sms = leased(world, handler, { leaseMs, maxDurationMs: 1e9, hapax })
      const first = sms.handle(ping('a'))
      await entered.passed
      const other = world.hapax()
      await world.worker({ hapax: other, consumer: leased(world, handler, { leaseMs, hapax: other }) })
      joined.open()
      assertOutcome(await first, 'processed')
      assert.equal(calls, 1)
      await world.assertEffects(['once'])
    },
  },
  {
    name: 'B10: a handler that hangs is aborted; the attempt counts, and the next one succeeds',
    run: async (world) => {
      const seen: number[] = []
      let reason: unknown
      const clock = new LeapingClock()
      const maxDurationMs = 60_000
      const sms = leased(
        world,
        async ({ signal, attempt, complete }) => {
          seen.push(attempt)
          complete((tx) => world.database.effect(tx, `attempt ${attempt}`))
          if (attempt > 1) return
          signal.addEventListener('abort', () => {
            reason = signal.reason
          })
          clock.leap(maxDurationMs)
          await new Promise(() => {})
        },
        { maxDurationMs, hapax: world.hapax({ clock }) },
      )
      assertOutcome(await sms.handle(ping('a')), 'retrying', 'handler-timeout')
      assert.ok(reason instanceof Error)
      await work(world, sms)
      assert.deepEqual(seen, [1, 2])
      await world.assertEffects(['attempt 2'])
    },
  },
  {
    name: 'B14: the fence grows with every attempt',
    run: async (world) => {
      const fences: number[] = []
      const sms = leased(world, ({ fence }) => {
        fences.push(fence)
        if (fences.length < 3) throw new Error('again')
      })
      await sms.handle(ping('a'))
      for (let run = 0; run < 2; run++) await work(world, sms)
      assert.deepEqual(fences, [1, 2, 3])
    },
  },
  {
    name: 'two workers: one owner at a time, and every call once',
    run: async (world) => {
      const ids = Array.from({ length: 12 }, (_, index) => `m${index}`)
      const inside = new Set<string>()
      const provider = new Provider()
      const handler: Sms = async (ctx) => {
        const { id } = ctx.message
        assert.ok(!inside.has(id), 'two handlers of one message')
        inside.add(id)
        try {
          await ctx.effect('send', provider.send)
          if (ctx.attempt === 1) throw new Error('again')
          ctx.complete((tx) => world.database.effect(tx, id))
        } finally {
          inside.delete(id)
        }
      }
      for (const id of ids) await storeOne(world, id)
      for (let worker = 0; worker < 2; worker++) {
        const hapax = world.hapax()
        await world.worker({ hapax, consumer: leased(world, handler, { hapax }) })
      }
      await world.until(async () => (await world.database.effects()).length >= ids.length)
      await world.assertEffects(ids)
      assert.equal(provider.calls.length, ids.length)
    },
  },
  {
    name: 'a leased message cannot be claimed by a consumer that knows no leases; an expired one can',
    run: async (world) => {
      await storeOne(world, 'a')
      const seq = await seqOf(world, 'a')
      const token = crypto.randomUUID()
      const [row] = await world.store.inbox.lease([seq], token, 60_000)
      assert.equal(await world.waiting(seq), undefined)
      await world.store.inbox.renew([{ seq, token, fence: row?.fence as number }], 1)
      await world.until(async () => (await world.waiting(seq)) !== undefined)
    },
  },
  {
    name: 'handle() of a redelivery while the message is leased is a duplicate, and nothing runs twice',
    run: async (world) => {
      const entered = gate()
      const resumed = gate()
      const provider = new Provider()
      const handler: Sms = async (ctx) => {
        entered.open()
        await resumed.passed
        await ctx.effect('send', provider.send)
      }
      const first = leased(world, handler).handle(ping('a'))
      await entered.passed
      const other = leased(world, handler)
      assertOutcome(await other.handle(ping('a', { redelivered: true })), 'duplicate')
      assertOutcome(await other.handle(ping('a')), 'duplicate')
      resumed.open()
      assertOutcome(await first, 'processed')
      assert.equal(provider.calls.length, 1)
    },
  },
]

export const ownership: readonly Case[] = [...zombies, ...takeover]
