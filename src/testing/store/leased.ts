import assert from 'node:assert/strict'
import { HapaxError, NotDone } from '../../core/errors.ts'
import type { LeasedContext } from '../../core/handlers.ts'
import { messageKey } from '../../core/identity.ts'
import type { Leased, LeasedOptions } from '../../core/leased.ts'
import type { EffectState, InboxRow } from '../../core/store.ts'
import type { Case } from './case.ts'
import {
  type AnyHapax,
  type AnyStore,
  AT_ONCE,
  assertOutcome,
  gate,
  Ping,
  Pong,
  ping,
  type Tx,
  type World,
} from './world.ts'

type Sms = (ctx: LeasedContext<Tx>) => unknown

/** A provider that counts its calls by key. */
class Provider {
  readonly calls: string[] = []

  send = async (key: string): Promise<{ sent: number }> => {
    this.calls.push(key)
    return { sent: this.calls.length }
  }
}

function leased(world: World, handler: Sms, options: LeasedOptions & { hapax?: AnyHapax } = {}): Leased<Tx> {
  const { hapax = world.hapax(), ...others } = options
  return hapax.leased('billing', { retry: AT_ONCE, ...others }).on(Ping, (_, ctx) => handler(ctx))
}

/** Works what is due, under a lease. */
async function work(world: World, consumer: Leased<Tx>): Promise<void> {
  for (const seq of await world.due()) await consumer.consumer.work([seq])
}

async function states(world: World, id: string): Promise<readonly [string, EffectState, number][]> {
  const effects = await world.store.effects('billing', messageKey('/sender', id))
  return effects.map(({ name, state, attempts }) => [name, state, attempts])
}

const settling: readonly Case[] = [
  {
    name: 'settles with what complete writes and with what it publishes, and keeps the journal',
    run: async (world) => {
      const provider = new Provider()
      const sms = leased(world, async (ctx) => {
        const { sent } = await ctx.effect('send', provider.send)
        await ctx.publish(Pong, { n: 1 })
        ctx.complete(async (tx) => {
          await world.database.effect(tx, `sent ${sent}`)
          await ctx.publish(Pong, { n: 2 })
        })
        await ctx.note({ to: '+41' })
      })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
      await world.assertEffects(['sent 1'])
      assert.equal((await world.database.outbox()).length, 2)
      assert.equal(provider.calls.length, 1)
      await world.assertPlaces('a', ['receipt', 'effect', 'effect'])
      const [send, notes] = await world.store.effects('billing', messageKey('/sender', 'a'))
      assert.deepEqual([send?.name, send?.state, send?.result], ['send', 'done', '{"sent":1}'])
      assert.deepEqual([notes?.name, notes?.result], ['', '{"to":"+41"}'])
    },
  },
  {
    name: 'sent once, although the next step fails three times: the write, the publish, the handler',
    run: async (world) => {
      const provider = new Provider()
      let attempt = 0
      const sms = leased(
        world,
        async (ctx) => {
          attempt += 1
          assert.equal((await ctx.effect('send', provider.send)).sent, 1)
          if (attempt === 1) throw new Error('the next step failed')
          ctx.complete(async (tx) => {
            await world.database.effect(tx, `sent ${attempt}`)
            if (attempt === 2) throw new Error('the write failed')
            await ctx.publish(Pong, { n: attempt })
            if (attempt === 3) throw new Error('what follows the publish failed')
          })
        },
        { retry: { ...AT_ONCE, attempts: 5 } },
      )
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      for (let run = 0; run < 3; run++) await work(world, sms)
      assert.equal(provider.calls.length, 1)
      await world.assertEffects(['sent 4'])
      assert.equal((await world.database.outbox()).length, 1)
      await world.assertPlaces('a', ['receipt', 'effect'])
    },
  },
  {
    name: 'B15: the key of an effect is the same in every attempt, and another one for another effect or message',
    run: async (world) => {
      const keys: string[] = []
      const call = async (key: string): Promise<void> => {
        keys.push(key)
        throw new NotDone('not now')
      }
      const sms = leased(world, async (ctx) => {
        await ctx.effect('first', call).catch(() => {})
        await ctx.effect('second', call)
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      await sms.handle(ping('b'))
      const [first, second, firstAgain, secondAgain, other] = keys
      assert.deepEqual([first, second], [firstAgain, secondAgain])
      assert.equal(new Set([first, second, other]).size, 3)
    },
  },
  {
    name: 'B21: several effects in any order, each once',
    run: async (world) => {
      const calls: string[] = []
      let attempt = 0
      const sms = leased(world, async (ctx) => {
        attempt += 1
        const names = attempt === 1 ? ['a', 'b', 'c'] : ['c', 'b', 'a']
        for (const name of names) {
          await ctx.effect(name, async () => {
            if (attempt === 1 && name === 'c') throw new NotDone('not yet')
            calls.push(name)
          })
        }
      })
      assertOutcome(await sms.handle(ping('1')), 'retrying')
      await work(world, sms)
      assert.deepEqual(calls, ['a', 'b', 'c'])
      await world.assertPlaces('1', ['receipt', 'effect', 'effect', 'effect'])
    },
  },
]

const unknowns: readonly Case[] = [
  {
    name: 'B8: a call that throws something unknown is held, and is not made again',
    run: async (world) => {
      let calls = 0
      const sms = leased(world, async (ctx) => {
        await ctx
          .effect('send', async () => {
            calls += 1
            throw new Error('timeout')
          })
          .catch(() => {})
      })
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      assert.equal(calls, 1)
      assert.deepEqual(await states(world, 'a'), [['send', 'unknown', 1]])
      const [failed] = await world.store.failedList({ limit: 10 })
      assert.equal(failed?.reason, 'unknown-effect')
      // Retried without a decision it is held again.
      await world.store.failedRetry(failed?.seq as string, { actor: 'me', action: 'retry' })
      await work(world, sms)
      assert.equal(calls, 1)
      await world.assertPlaces('a', ['receipt', 'effect', 'failed'])
    },
  },
  {
    name: 'a person settles an unknown effect as done, with a result, and the rest is done',
    run: async (world) => {
      const sms = leased(world, async (ctx) => {
        const answer = await ctx.effect<string>('send', () => Promise.reject(new Error('timeout')))
        ctx.complete((tx) => world.database.effect(tx, answer))
      })
      assertOutcome(await sms.handle(ping('a')), 'held')
      const effect = { consumer: 'billing', messageKey: messageKey('/sender', 'a'), name: 'send' }
      const end = { state: 'done', result: '"by hand"', error: null } as const
      const audit = { actor: 'me', action: 'settle' } as const
      assert.ok(await world.store.settleEffect(effect, end, audit))
      assert.equal(await world.store.settleEffect(effect, end, audit), false)
      const [failed] = await world.store.failedList({ limit: 10 })
      await world.store.failedRetry(failed?.seq as string, { actor: 'me', action: 'retry' })
      await work(world, sms)
      await world.assertEffects(['by hand'])
    },
  },
  {
    name: 'retry-same-key calls again with the same key; verify asks',
    run: async (world) => {
      const keys: string[] = []
      const call = async (key: string): Promise<string> => {
        keys.push(key)
        if (keys.length % 2 === 1) throw new Error('reset')
        return 'called'
      }
      const sms = leased(world, async (ctx) => {
        const answer = await ctx.effect('send', call, { onUnknown: 'retry-same-key' })
        const asked = await ctx.effect<string>('ask', () => Promise.reject(new Error('reset')), {
          onUnknown: async () => ({ done: 'asked' }),
        })
        ctx.complete((tx) => world.database.effect(tx, `${answer} ${asked}`))
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      assert.equal(keys.length, 2)
      assert.equal(keys[0], keys[1])
      await world.assertEffects(['called asked'])
    },
  },
]

const ownership: readonly Case[] = [
  {
    name: 'B3 B4 B5: who was silent for longer than the lease can neither journal nor settle, and is told to stop',
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
      const seq = (await world.store.inboxSeq('billing', messageKey('/sender', 'a'))) as string
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
    name: 'B17: a lease whose answer was lost is taken again under the same token',
    run: async (world) => {
      await storeOne(world, 'a')
      const [seq] = await world.due()
      const token = crypto.randomUUID()
      const [first] = await world.store.lease([seq as string], token, 60_000)
      const [again] = await world.store.lease([seq as string], token, 60_000)
      assert.deepEqual([first?.fence, again?.fence], [1, 2])
      assert.deepEqual(await world.store.lease([seq as string], crypto.randomUUID(), 60_000), [])
      assert.deepEqual(await world.due(), [])
    },
  },
]

/** A message in the inbox that nobody works on. */
async function storeOne(world: World, id: string): Promise<void> {
  const { consumer } = world.reader(undefined, { name: 'billing', receive: 'store' })
  await consumer.handle(ping(id))
}

/** Another process takes over, once the lease has ended. */
async function stolen(world: World, seq: string): Promise<readonly InboxRow[]> {
  let rows: readonly InboxRow[] = []
  await world.until(async () => {
    rows = await world.store.lease([seq], crypto.randomUUID(), 60_000)
    return rows.length > 0
  })
  return rows
}

/** The same store for a process whose heartbeats do not come through. */
function silent(store: AnyStore): AnyStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (name === 'renew') return () => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

export const leases: readonly Case[] = [...settling, ...unknowns, ...ownership]
