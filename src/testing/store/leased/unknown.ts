import assert from 'node:assert/strict'
import { HapaxError, isHapaxError, NotDone, Permanent } from '../../../base/index.ts'
import { messageKey } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { AT_ONCE, assertOutcome, assertRejects, gate, ping } from '../world.ts'
import { policies } from './policies.ts'
import { leased, Provider, seqOf, states, work } from './world.ts'

const errors: readonly Case[] = [
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
      const [failed] = await world.store.failed.list({ limit: 10 })
      assert.equal(failed?.reason, 'unknown-effect')
      // Retried without a decision it is held again.
      await world.store.failed.retry(failed?.seq as string, { actor: 'me', action: 'retry' })
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
      assert.ok(await world.store.journal.settle(effect, end, audit))
      assert.equal(await world.store.journal.settle(effect, end, audit), false)
      const [failed] = await world.store.failed.list({ limit: 10 })
      await world.store.failed.retry(failed?.seq as string, { actor: 'me', action: 'retry' })
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
  {
    name: 'a handler cannot ignore an unknown call by swallowing its error, not even with retry-same-key',
    run: async (world) => {
      let calls = 0
      const sms = leased(world, async (ctx) => {
        const call = (): void => {
          calls += 1
          if (calls === 1) throw new Error('reset')
        }
        await ctx.effect('send', call, { onUnknown: 'retry-same-key' }).catch(() => {})
        ctx.complete((tx) => world.database.effect(tx, 'settled'))
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await world.assertEffects([])
      await work(world, sms)
      await world.assertEffects(['settled'])
      assert.equal(calls, 2)
    },
  },
  {
    name: 'a handler may give up a call that was certainly not made, and do something else',
    run: async (world) => {
      const provider = new Provider()
      const sms = leased(world, async (ctx) => {
        await ctx
          .effect('first', () => Promise.reject(new NotDone('out of order')))
          .catch(() => ctx.effect('second', provider.send))
      })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual(await states(world, 'a'), [
        ['first', 'not-done', 1],
        ['second', 'done', 1],
      ])
    },
  },
  {
    name: 'classify decides; anything it returns except not-done is unknown',
    run: async (world) => {
      const call = (): never => {
        throw new Error('status 400')
      }
      const sms = leased(world, async (ctx) => {
        const { id } = ctx.message
        const classify = (): 'not-done' => (id === 'known' ? 'not-done' : (undefined as never))
        await ctx.effect('send', call, { classify })
      })
      assertOutcome(await sms.handle(ping('known')), 'retrying')
      assertOutcome(await sms.handle(ping('vague')), 'held', 'unknown-effect')
    },
  },
]

const misuse: readonly Case[] = [
  {
    name: 'an effect that is not awaited does not settle the message',
    run: async (world) => {
      const calling = gate()
      const answered = gate()
      const sms = leased(
        world,
        async (ctx) => {
          void ctx.effect('send', () => {
            calling.open()
            return answered.passed
          })
          await calling.passed
        },
        { leaseMs: 100, retry: { ...AT_ONCE, attempts: 1 } },
      )
      assertOutcome(await sms.handle(ping('a')), 'failed', 'unawaited-effect')
      answered.open()
      await world.assertPlaces('a', ['receipt', 'failed', 'effect'])
    },
  },
  {
    name: 'two effects of different names may run at once',
    run: async (world) => {
      const provider = new Provider()
      const sms = leased(
        world,
        async (ctx) => {
          await Promise.all([ctx.effect('send', provider.send), ctx.effect('ask', provider.send)])
        },
        { retry: { ...AT_ONCE, attempts: 1 } },
      )
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.equal(provider.calls.length, 2)
    },
  },
  {
    name: 'an effect or a note inside complete is refused, instead of waiting for itself',
    run: async (world) => {
      const provider = new Provider()
      const codes: unknown[] = []
      const keep = (error: HapaxError): unknown => codes.push(error.code)
      const sms = leased(world, (ctx) =>
        ctx.complete(async () => {
          await ctx.effect('send', provider.send).catch(keep)
          await ctx.note({ no: true }).catch(keep)
        }),
      )
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual([provider.calls.length, codes], [0, ['transaction-closed', 'transaction-closed']])
    },
  },
  {
    name: 'a result that cannot be stored: the call happened and is never repeated, and a person states what it returned',
    run: async (world) => {
      const hapax = world.hapax()
      const results = [1n, () => 1, 'x'.repeat(65 * 1024)]
      for (const [index, result] of results.entries()) {
        let calls = 0
        let seen: unknown
        const sms = leased(world, async (ctx) => {
          seen = await ctx.effect('send', () => {
            calls += 1
            return result
          })
        })
        const id = `m${index}`
        assertOutcome(await sms.handle(ping(id)), 'failed', 'effect-result')
        assert.deepEqual(await states(world, id), [['send', 'done', 1]])
        const [failed] = await world.store.failed.list({ limit: 1 })
        await world.store.failed.retry(failed?.seq as string, { actor: 'me', action: 'retry' })
        await work(world, sms)
        assert.equal(calls, 1)
        await world.assertPlaces(id, ['receipt', 'failed', 'effect'])
        const [again] = await world.store.failed.list({ limit: 1 })
        const seq = again?.seq as string
        // The call happened, so it cannot be settled as not done.
        await assertRejects(hapax.failed.settle(seq, { effect: 'send', as: 'not-done' }), 'conflict')
        await assertRejects(hapax.failed.settle(seq, { effect: 'send', as: 'retry' }), 'conflict')
        await hapax.failed.settle(seq, { effect: 'send', as: 'done', result: 'by hand' })
        await work(world, sms)
        assert.deepEqual([calls, seen], [1, 'by hand'])
        await world.assertPlaces(id, ['receipt', 'effect'])
      }
    },
  },
  {
    name: 'a wrong decision about a call can be corrected while its message is failed; the call is not repeated',
    run: async (world) => {
      const hapax = world.hapax()
      let calls = 0
      const seen: unknown[] = []
      const sms = leased(world, async (ctx) => {
        const sent = await ctx.effect<unknown>('send', () => {
          calls += 1
          throw new Error('timeout')
        })
        seen.push(sent)
        if (sent !== 'SM1') throw new Permanent('not the id that it needs')
      })
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      for (const said of [{}, { result: 'wrong' }, { result: 'SM1' }]) {
        const [failed] = await hapax.failed.list()
        await hapax.failed.settle(failed?.seq as string, { effect: 'send', as: 'done', ...said })
        await work(world, sms)
      }
      assert.deepEqual([calls, seen], [1, [undefined, 'wrong', 'SM1']])
      await world.assertPlaces('a', ['receipt', 'effect'])
      const audit = (await hapax.explain('a')).filter(({ where }) => where === 'audit')
      assert.equal(audit.filter((each) => 'action' in each && each.action === 'settle').length, 3)
    },
  },
  {
    name: 'a wrong decision about a call can be corrected while its message is retried, unless a worker is handling it',
    run: async (world) => {
      const hapax = world.hapax()
      const [seen, inside]: [unknown[], unknown[]] = [[], []]
      const message = { consumer: 'billing', source: '/sender', id: 'a' }
      const corrected = (more: object): Promise<void> =>
        hapax.failed.correct(message, { effect: 'send', as: 'done', by: { actor: 'ada' }, ...more })
      const sms = leased(
        world,
        async (ctx) => {
          const sent = await ctx.effect<unknown>('send', () => {
            throw new Error('timeout')
          })
          seen.push(sent)
          const refused = await corrected({ result: 'meanwhile' }).catch((error: unknown) => error)
          inside.push(isHapaxError(refused, 'conflict'))
          if (sent !== 'SM1') throw new Error('not the id that it needs')
        },
        { hapax, retry: { attempts: 10, minDelayMs: 3_600_000, maxDelayMs: 3_600_000 } },
      )
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      await assertRejects(hapax.failed.correct({ ...message, id: 'b' }, { effect: 'send', as: 'done' }), 'not-found')
      const [failed] = await hapax.failed.list()
      await hapax.failed.settle(failed?.seq ?? '', { effect: 'send', as: 'done' })
      await work(world, sms)
      assert.deepEqual(await hapax.failed.list(), [])
      // A settlement is of a failed message: one that comes too late changes nothing.
      const end = { state: 'not-done', result: null, error: null } as const
      const effect = { consumer: 'billing', messageKey: messageKey('/sender', 'a'), name: 'send' }
      assert.equal(await world.store.journal.settle(effect, end, { actor: 'bob', action: 'settle' }), false)
      await corrected({ result: 'wrong' })
      await corrected({ result: 'SM1' })
      await assertRejects(hapax.failed.correct(message, { effect: 'other', as: 'done' }), 'not-found')
      await hapax.messages.retry('inbox', await seqOf(world, 'a'))
      await work(world, sms)
      assert.deepEqual(
        [seen, inside],
        [
          [undefined, 'SM1'],
          [true, true],
        ],
      )
      await assertRejects(corrected({ result: 'late' }), 'conflict')
      await world.assertPlaces('a', ['receipt', 'effect'])
      const audit = (await hapax.explain('a')).filter((each) => each.where === 'audit' && each.action === 'settle')
      assert.equal(audit.length, 3)
    },
  },
  {
    name: 'results come back as they were: nothing, null, texts, arrays, objects',
    run: async (world) => {
      const values = [undefined, null, '', 0, false, [1, [2]], { a: { b: null } }, 'ü\u0000\u2028"\\']
      const seen: unknown[][] = []
      const sms = leased(world, async (ctx) => {
        const results: unknown[] = []
        for (const [index, value] of values.entries()) results.push(await ctx.effect(`call ${index}`, () => value))
        seen.push(results)
        if (seen.length === 1) throw new Error('again')
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      assert.deepEqual(seen, [values, values])
    },
  },
]

const outages: readonly Case[] = [
  {
    name: 'the store is unavailable after the call: the outcome is recorded as soon as it is back',
    run: async (world) => {
      let away = 3
      const { journal } = world.store
      const end: typeof journal.end = async (...args) => {
        if (away-- > 0) throw new HapaxError('store-unavailable', 'no answer')
        return journal.end(...args)
      }
      const store = altered(world.store, { journal: { end } })
      const provider = new Provider()
      const sms = leased(world, (ctx) => ctx.effect('send', provider.send), { hapax: world.hapax({ store }) })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.equal(provider.calls.length, 1)
      assert.deepEqual(await states(world, 'a'), [['send', 'done', 1]])
    },
  },
  {
    name: 'B17: replies of the journal are lost: the call is made once',
    run: async (world) => {
      const lost = new Set(['begin', 'end'])
      const unanswered = async <T>(name: string, write: () => Promise<T>): Promise<T> => {
        const answer = await write()
        if (lost.delete(name)) throw new HapaxError('commit-unknown', 'the link was cut')
        return answer
      }
      const { journal } = world.store
      const store = altered(world.store, {
        journal: {
          begin: (...args) => unanswered('begin', () => journal.begin(...args)),
          end: (...args) => unanswered('end', () => journal.end(...args)),
        },
      })
      const provider = new Provider()
      const sms = leased(world, (ctx) => ctx.effect('send', provider.send), { hapax: world.hapax({ store }) })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual([provider.calls.length, lost.size], [1, 0])
      assert.deepEqual(await states(world, 'a'), [['send', 'done', 1]])
    },
  },
  {
    name: 'the store is unavailable before the call: nothing is called, and no attempt is used up',
    run: async (world) => {
      let away = true
      const { journal } = world.store
      const begin: typeof journal.begin = async (...args) => {
        if (away) throw new HapaxError('store-unavailable', 'no answer')
        return journal.begin(...args)
      }
      const store = altered(world.store, { journal: { begin } })
      const provider = new Provider()
      const attempts: number[] = []
      const sms = leased(
        world,
        async (ctx) => {
          attempts.push(ctx.attempt)
          await ctx.effect('send', provider.send)
        },
        { hapax: world.hapax({ store }) },
      )
      assertOutcome(await sms.handle(ping('a')), 'rolled-back', 'store-unavailable')
      assert.equal(provider.calls.length, 0)
      away = false
      await world.until(async () => (await world.due()).length === 1)
      await work(world, sms)
      assert.deepEqual([attempts, provider.calls.length], [[1, 1], 1])
    },
  },
]

export const unknowns: readonly Case[] = [...policies, ...errors, ...misuse, ...outages]
