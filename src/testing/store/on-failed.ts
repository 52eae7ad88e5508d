import assert from 'node:assert/strict'
import { HapaxError, Permanent } from '../../base/index.ts'
import type { FailedContext, FailedHook } from '../../contracts/index.ts'
import { altered } from '../altered.ts'
import { failedOne } from './admin/failed-world.ts'
import { atEachLevel, type Case } from './case.ts'
import { leased } from './leased/world.ts'
import { type AnyHapax, type AnyStore, type Count, Ping, Pong, ping, type Tx, type World } from './world.ts'

type Hook = FailedHook<Count, Tx>

/** How a consumer takes its messages: one whose handler always fails for good, with this hook. */
interface Way {
  readonly name: string
  /** Delivers a message and works until it has failed. */
  run(world: World, hapax: AnyHapax, hook: Hook, id: string): Promise<void>
}

const never = (): never => {
  throw new Permanent('never')
}

const stored = (name: string, order: 'none' | 'wait'): Way => ({
  name,
  run: async (world, hapax, hook, id) => {
    const reader = world.reader(never, { hapax, receive: 'store', order })
    reader.consumer.onFailed(Ping, hook)
    await reader.deliver(id, { key: id })
    await world.drain(reader)
  },
})

const WAYS: readonly Way[] = [
  {
    name: 'direct',
    run: async (world, hapax, hook, id) => {
      const { consumer } = world.reader(never, { hapax })
      await consumer.onFailed(Ping, hook).handle(ping(id))
    },
  },
  stored('stored', 'none'),
  stored('held', 'wait'),
  {
    name: 'leased',
    run: async (world, hapax, hook, id) => {
      const sms = leased(world, never, { hapax }).onFailed(Ping, hook)
      await sms.handle(ping(id))
      await world.drain({ hapax, consumer: sms })
    },
  },
]

/** A hook that publishes a fallback and writes an effect; and how often it was called. */
function fallback(world: World, then: (ctx: FailedContext<Tx>) => unknown = () => {}): { hook: Hook; calls: string[] } {
  const calls: string[] = []
  const hook: Hook = async ({ n }, error, ctx) => {
    calls.push(`${ctx.message.id} ${n} ${error.message} ${ctx.reason} ${ctx.attempt}`)
    await world.database.effect(ctx.tx, ctx.message.id)
    await ctx.publish(Pong, { n })
    await then(ctx)
  }
  return { hook, calls }
}

/** The fallback and the failure are both there, or none of both. */
async function assertFailed(world: World, hapax: AnyHapax, id: string, fallbacks: number): Promise<void> {
  const failed = await failedOne(hapax, id)
  assert.deepEqual([failed.reason, failed.error.message], ['permanent', 'never'])
  await world.assertEffects(Array.from({ length: fallbacks }, () => id))
  assert.equal((await world.database.outbox()).length, fallbacks)
}

/** The same store for a process that dies before it commits what was published, while `dies` returns true. */
function dying(store: AnyStore, dies: () => boolean): AnyStore {
  const run: AnyStore['transactions']['run'] = (options, opening, body) =>
    store.transactions.run(options, opening, async (unit) => {
      const end = await body(unit)
      if (end.writes?.outbox?.length && dies()) throw new HapaxError('store-unavailable', 'the process died')
      return end
    })
  return altered(store, { transactions: { run } })
}

/** The same store on a link that breaks once while the fallback is being committed: before the database saw it, or after. */
function losing(store: AnyStore, cut: 'before' | 'after'): AnyStore {
  let left = 1
  const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
    let cuts = false
    const value = await store.transactions.run(options, opening, async (unit) => {
      const end = await body(unit)
      cuts = left > 0 && (end.writes?.outbox ?? []).length > 0
      return cuts && cut === 'before' ? { ...end, writes: undefined } : end
    })
    if (!cuts) return value
    left -= 1
    throw new HapaxError('commit-unknown', 'the link was cut')
  }
  return altered(store, { transactions: { run } })
}

const levels: readonly Case[] = WAYS.flatMap(({ name, run }): readonly Case[] => [
  {
    name: `what onFailed writes and publishes commits with the failure (${name})`,
    run: async (world) => {
      const hapax = world.hapax()
      const { hook, calls } = fallback(world)
      await run(world, hapax, hook, 'a')
      assert.deepEqual(calls, ['a 1 never permanent 1'])
      await assertFailed(world, hapax, 'a', 1)
    },
  },
  {
    name: `an onFailed that throws leaves the failure, its own error, and nothing else (${name})`,
    run: async (world) => {
      const hapax = world.hapax()
      const { hook, calls } = fallback(world, () => Promise.reject(new Error('no fallback')))
      await run(world, hapax, hook, 'a')
      assert.equal(calls.length, 1)
      await assertFailed(world, hapax, 'a', 0)
      assert.equal((await failedOne(hapax, 'a')).error.onFailed?.message, 'no fallback')
    },
  },
])

const once: readonly Case[] = [
  ...WAYS.flatMap(({ name, run }): readonly Case[] => [
    ...(['before', 'after'] as const).map(
      (cut): Case => ({
        name: `a commit of unknown outcome publishes the fallback once: cut ${cut} it (${name})`,
        run: async (world) => {
          const hapax = world.hapax({ store: losing(world.store, cut) })
          await run(world, hapax, fallback(world).hook, 'a')
          await assertFailed(world, world.hapax(), 'a', 1)
        },
      }),
    ),
    {
      name: `an onFailed that rolls back to the savepoint of hapax commits once, with the failure (${name})`,
      needs: ['savepoints'],
      run: async (world) => {
        const hapax = world.hapax()
        const { hook, calls } = fallback(world)
        const goesBack: Hook = async (data, error, ctx) => {
          if (calls.length > 0) throw new Error('called again')
          await world.database.savepoint(ctx.tx, 'rollback to savepoint', 'hapax')
          await hook(data, error, ctx)
        }
        await run(world, hapax, goesBack, 'a')
        await assertFailed(world, hapax, 'a', 1)
        await world.assertPlaces('a', name === 'held' ? ['inbox', 'failed', 'receipt'] : ['failed', 'receipt'])
      },
    },
    {
      name: `an onFailed that commits on its own does not lose the message (${name})`,
      needs: ['ending the transaction'],
      run: async (world) => {
        const hapax = world.hapax()
        await run(world, hapax, fallback(world, ({ tx }) => world.database.commitInside(tx)).hook, 'a')
        const failed = await failedOne(hapax, 'a')
        assert.deepEqual([failed.reason, failed.error.message], ['permanent', 'never'])
      },
    },
  ]),
  {
    name: 'a process that dies before the commit leaves neither failure nor fallback, and both come later',
    run: async (world) => {
      let dies = true
      const hapax = world.hapax({ store: dying(world.store, () => dies) })
      const reader = world.reader(never, { hapax })
      reader.consumer.onFailed(Ping, fallback(world).hook)
      await assert.rejects(reader.deliver('a'))
      await world.assertPlaces('a', [])
      await world.assertEffects([])
      dies = false
      await reader.deliver('a')
      await assertFailed(world, hapax, 'a', 1)
    },
  },
  {
    name: 'onFailed is called when attempts have run out, and not before',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Error('no')))
      const { hook, calls } = fallback(world)
      reader.consumer.onFailed(Ping, hook)
      await reader.deliver('a')
      assert.deepEqual(calls, [])
      await world.drain(reader)
      assert.deepEqual(calls, ['a 1 no attempts-exhausted 3'])
    },
  },
  {
    name: 'onFailed is called again when a retry by hand fails again',
    run: async (world) => {
      const { hook, calls } = fallback(world)
      const reader = world.reader(never)
      reader.consumer.onFailed(Ping, hook)
      await reader.deliver('a')
      await reader.hapax.failed.retry((await failedOne(reader.hapax, 'a')).seq)
      await world.drain(reader)
      assert.equal(calls.length, 2)
      assert.equal((await world.database.outbox()).length, 2)
    },
  },
  {
    name: 'onFailed is called for a message that ended its process too often, which is not handled again',
    run: async (world) => {
      const { hook, calls } = fallback(world)
      const reader = world.reader(undefined, { receive: 'store' })
      reader.consumer.onFailed(Ping, hook)
      await reader.deliver('a')
      const seqs = await world.due()
      for (let time = 0; time < 3; time++) await world.crash(seqs, true)
      await world.drain(reader)
      assert.deepEqual(reader.calls, [])
      assert.match(calls.join(), /^a 1 .* crash-loop 0$/)
      assert.equal((await world.database.outbox()).length, 1)
    },
  },
  {
    name: 'onFailed is not called for what the handler never got, nor while it is unknown what the handler did',
    run: async (world) => {
      const { hook, calls } = fallback(world)
      const hapax = world.hapax()
      const reader = world.reader(undefined, { hapax })
      reader.consumer.onFailed(Ping, hook)
      await reader.deliver('bytes', { data: Buffer.from('{no json') })
      await reader.deliver(undefined)
      const other = world.hapax()
      const send = (): Promise<never> => Promise.reject(new Error('no answer'))
      const sms = leased(world, (ctx) => ctx.effect('send', send), { hapax: other })
      await sms.onFailed(Ping, hook).handle(ping('sms'))
      await world.drain({ hapax: other, consumer: sms })
      assert.equal((await hapax.failed.list()).length, 3)
      assert.deepEqual(calls, [])
    },
  },
]

export const onFailed: readonly Case[] = [...atEachLevel(levels), ...once]
