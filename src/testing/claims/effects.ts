import assert from 'node:assert/strict'
import { NotDone, Permanent } from '../../base/index.ts'
import { assertOutcome, gate, ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { policies } from './policies.ts'
import { type ClaimWorld, Provider, stored } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

const ref = (id: string, name: string) => ({ consumer: 'sms', messageKey: stored(id).messageKey, name })

const once: readonly Case[] = [
  {
    name: 'sent once, although the next step fails three times',
    run: async (world) => {
      const provider = new Provider()
      const sms = world.sms(
        async (ctx) => {
          assert.deepEqual(await ctx.effect('send', provider.send), { sent: 1 })
          if (ctx.attempt <= 3) throw new Error('the next step failed')
        },
        { retry: { attempts: 5, minDelayMs: 0, maxDelayMs: 0 } },
      )
      for (let run = 0; run < 3; run++) assertOutcome(await sms.handle(ping('a')), 'rolled-back')
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.equal(provider.keys.length, 1)
      assert.deepEqual(await world.journal('a'), [['send', 'done', 1]])
      assert.deepEqual(await world.places('a'), ['effect', 'receipt'])
    },
  },
  {
    name: 'B15: the key of an effect is the same in every attempt, and differs between effects and messages',
    run: async (world) => {
      const keys: string[] = []
      const call = async (key: string): Promise<void> => {
        keys.push(key)
        throw new NotDone('not now')
      }
      const sms = world.sms(async (ctx) => {
        await ctx.effect('first', call).catch(() => {})
        await ctx.effect('second', call)
      })
      for (const id of ['a', 'a', 'b']) assertOutcome(await sms.handle(ping(id)), 'rolled-back')
      const [first, second, firstAgain, secondAgain, other] = keys
      assert.deepEqual([first, second], [firstAgain, secondAgain])
      assert.equal(new Set([first, second, other]).size, 3)
      assert.deepEqual(await world.journal('a'), [
        ['first', 'not-done', 2],
        ['second', 'not-done', 2],
      ])
    },
  },
  {
    name: 'B21: several effects in any order, at the same time and under any name, each once',
    run: async (world) => {
      const names = ['a', 'er', 'q', 'e:a', '', '{x}', '\u0000', 'n\nm', '😀'].map((name) => `call ${name}`)
      const calls: string[] = []
      const sms = world.sms(async (ctx) => {
        const order = ctx.attempt === 1 ? names : names.toReversed()
        await Promise.all(
          order.map((name) =>
            ctx.effect(name, async () => {
              if (ctx.attempt === 1 && name === names[1]) throw new NotDone('not yet')
              calls.push(name)
            }),
          ),
        )
      })
      assertOutcome(await sms.handle(ping('1')), 'rolled-back')
      await until(async () => (await sms.handle(ping('1'))).status === 'processed')
      assert.deepEqual([...calls].sort(), [...names].sort())
      assert.deepEqual((await world.journal('1')).map(([name]) => name).sort(), names.toSorted())
    },
  },
  {
    name: 'results come back as they were: nothing, null, texts, lists, large ones; notes are kept',
    run: async (world) => {
      const results = [undefined, null, '', 'é😀\u0000"', 0, [], [1, [2]], { a: { b: null } }, 'x'.repeat(60_000)]
      const seen: unknown[][] = []
      const sms = world.sms(async (ctx) => {
        const all: unknown[] = []
        for (const [at, result] of results.entries()) all.push(await ctx.effect(`call ${at}`, () => result))
        seen.push(all)
        await ctx.note({ to: '+41' })
        await ctx.note({ text: 'é😀' })
        if (ctx.attempt === 1) throw new Error('again')
      })
      assertOutcome(await sms.handle(ping('a')), 'rolled-back')
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual(seen, [results, results])
      const notes = (await world.store.journal.of('sms', stored('a').messageKey)).at(-1)
      assert.deepEqual([notes?.name, JSON.parse(notes?.result ?? '')], ['', { to: '+41', text: 'é😀' }])
    },
  },
  {
    name: 'a handler that returns while an effect is running has not succeeded',
    run: async (world) => {
      const go = gate()
      let effect: Promise<unknown> | undefined
      const sms = world.sms(
        (ctx) => {
          effect = ctx.effect('send', () => go.passed).catch(() => {})
        },
        { leaseMs: 100 },
      )
      assertOutcome(await sms.handle(ping('a')), 'rolled-back', 'unawaited-effect')
      go.open()
      await effect
    },
  },
]

const unknowns: readonly Case[] = [
  {
    name: 'B8: a call that throws something unknown is held, and is not made again without a decision',
    run: async (world) => {
      let calls = 0
      const hapax = world.hapax()
      const sms = world.sms(
        async (ctx) => {
          const call = async (): Promise<void> => {
            calls += 1
            throw new Error('timeout')
          }
          await ctx.effect('send', call).catch(() => {})
        },
        { hapax },
      )
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
      const [failed] = await hapax.failed.list({ reason: 'unknown-effect' })
      await hapax.failed.retry(failed?.seq as string)
      await world.drain(hapax, sms)
      assert.equal(calls, 1)
      assert.deepEqual(await world.journal('a'), [['send', 'unknown', 1]])
      assert.equal(await hapax.failed.count({ reason: 'unknown-effect' }), 1)
    },
  },
  {
    name: 'an unknown call of an earlier attempt holds the message, even if this attempt does not reach it',
    run: async (world) => {
      const lease = await world.lease('a', { leaseMs: 1 })
      await world.store.journal.begin(lease, 1, ref('a', 'send'), false)
      const sms = world.sms(() => {})
      await until(async () => (await sms.handle(ping('a'))).status === 'held')
      assert.deepEqual(await world.places('a'), ['effect', 'failed', 'receipt'])
    },
  },
  {
    name: 'retry-same-key calls again with the same key; verify asks the provider',
    run: async (world) => {
      const keys: string[] = []
      const call = async (key: string): Promise<string> => {
        keys.push(key)
        if (keys.length === 1) throw new Error('reset')
        return 'called'
      }
      let answer: unknown
      const sms = world.sms(async (ctx) => {
        const sent = await ctx.effect('send', call, { onUnknown: 'retry-same-key' })
        const asked = await ctx.effect<string>('ask', () => Promise.reject(new Error('reset')), {
          onUnknown: async () => ({ done: 'asked' }),
        })
        answer = [sent, asked]
      })
      assertOutcome(await sms.handle(ping('a')), 'rolled-back')
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assert.deepEqual([keys.length, keys[0] === keys[1], answer], [2, true, ['called', 'asked']])
    },
  },
  {
    name: 'a result that cannot be stored: the call happened and is never repeated, and a person states what it returned',
    run: async (world) => {
      const hapax = world.hapax()
      let calls = 0
      let seen: unknown
      const sms = world.sms(
        async (ctx) => {
          seen = await ctx.effect<unknown>('send', () => {
            calls += 1
            return 1n
          })
        },
        { hapax },
      )
      assertOutcome(await sms.handle(ping('a')), 'failed', 'effect-result')
      const [failed] = await hapax.failed.list()
      const settle = (as: 'done' | 'not-done', result?: string): Promise<void> =>
        hapax.failed.settle(failed?.seq as string, { effect: 'send', as, ...(result && { result }) })
      // The call happened, so it cannot be settled as not done.
      await assert.rejects(settle('not-done'), { code: 'conflict' })
      await settle('done', 'by hand')
      await world.drain(hapax, sms)
      assert.deepEqual([calls, seen], [1, 'by hand'])
      assert.deepEqual(await hapax.failed.list(), [])
    },
  },
  {
    name: 'a wrong decision about a call can be corrected while its message is failed; the call is not repeated',
    run: async (world) => {
      const hapax = world.hapax()
      let calls = 0
      const seen: unknown[] = []
      const sms = world.sms(
        async (ctx) => {
          const sent = await ctx.effect<unknown>('send', () => {
            calls += 1
            throw new Error('timeout')
          })
          seen.push(sent)
          if (sent !== 'SM1') throw new Permanent('not the id that it needs')
        },
        { hapax },
      )
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      for (const said of [{}, { result: 'wrong' }, { result: 'SM1' }]) {
        const [failed] = await hapax.failed.list()
        await hapax.failed.settle(failed?.seq as string, { effect: 'send', as: 'done', ...said })
        await world.drain(hapax, sms)
      }
      assert.deepEqual([calls, seen], [1, [undefined, 'wrong', 'SM1']])
      assert.deepEqual(await hapax.failed.list(), [])
    },
  },
  {
    name: 'a person settles an unknown effect as done, as not done, or has it retried; each decision is recorded',
    run: async (world) => {
      const hapax = world.hapax()
      const answers: unknown[] = []
      let calls = 0
      const sms = world.sms(
        async (ctx) => {
          const answer = await ctx.effect('send', async () => {
            calls += 1
            if (calls <= 3) throw new Error('timeout')
            return 'sent again'
          })
          answers.push(`${ctx.message.id} ${answer}`)
        },
        { hapax },
      )
      for (const id of ['a', 'b', 'c']) assertOutcome(await sms.handle(ping(id)), 'held')
      // A message in progress cannot be settled while an owner works on it.
      await world.store.journal.begin(await world.lease('d'), 60_000, ref('d', 'send'), false)
      const end = { state: 'done', result: null, error: null } as const
      assert.equal(await world.store.journal.settle(ref('d', 'send'), end, { actor: 'ann', action: 'settle' }), false)
      const [c, b, a] = (await hapax.failed.list()).map(({ seq }) => seq) as [string, string, string]
      assert.deepEqual(
        (await hapax.failed.effects(a)).map(({ name, state }) => [name, state]),
        [['send', 'unknown']],
      )
      await hapax.failed.settle(a, { effect: 'send', as: 'done', result: 'by hand', by: { actor: 'ann' } })
      await hapax.failed.settle(b, { effect: 'send', as: 'not-done' })
      await hapax.failed.settle(c, { effect: 'send', as: 'retry' })
      await world.drain(hapax, sms)
      assert.deepEqual(answers.sort(), ['a by hand', 'b sent again', 'c sent again'])
      const deeds = (await hapax.explain('a')).flatMap((each) => (each.where === 'audit' ? [each] : []))
      assert.deepEqual(
        deeds.map(({ action, actor }) => [action, actor]),
        [
          ['settle', 'ann'],
          ['retry', 'ann'],
        ],
      )
    },
  },
]

export const effects: readonly Case[] = [...once, ...unknowns, ...policies]
