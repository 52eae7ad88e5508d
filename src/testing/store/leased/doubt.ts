import assert from 'node:assert/strict'
import type { EffectOptions } from '../../../contracts/index.ts'
import { messageKey } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, ping, type World } from '../world.ts'
import { leased, states, work } from './world.ts'

/** Delivers a message whose only call is refused by the network, and whose handler ignores that. */
async function swallowed(world: World, thrown: unknown, options: EffectOptions<unknown> = {}): Promise<void> {
  const sms = leased(world, (ctx) => ctx.effect('send', () => Promise.reject(thrown), options).catch(() => {}))
  assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
  assert.deepEqual(await states(world, 'a'), [['send', 'unknown', 1]])
}

/** What looks like knowledge and is none. */
export const doubts: readonly Case[] = [
  {
    name: 'B8: a classify that throws leaves the call unknown',
    run: (world) =>
      swallowed(world, new Error('no response'), {
        classify: () => {
          throw new TypeError('response is undefined')
        },
      }),
  },
  {
    name: 'B8: an error that cannot be inspected leaves the call unknown',
    run: (world) =>
      swallowed(
        world,
        new Proxy(new Error('hostile'), {
          get: () => {
            throw new Error('no')
          },
        }),
      ),
  },
  {
    name: 'B8: a verify that returns anything else leaves the call unknown',
    run: (world) =>
      swallowed(world, new Error('reset'), { onUnknown: () => ({ status: 'not_found' }) as unknown as 'unknown' }),
  },
  {
    name: 'B8: a call that times out is aborted; while it still runs, a report that it did not happen is not trusted',
    run: async (world) => {
      let aborted = false
      let asked = 0
      const sms = leased(world, (ctx) =>
        ctx.effect(
          'send',
          (_, signal) => {
            signal.addEventListener('abort', () => {
              aborted = true
            })
            return new Promise(() => {})
          },
          {
            timeoutMs: 20,
            onUnknown: () => {
              asked += 1
              return 'not-done'
            },
          },
        ),
      )
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      assert.deepEqual([aborted, asked], [true, 1])
    },
  },
  {
    name: 'B21: an unknown call of an earlier attempt holds the message, even if the handler does not reach it again',
    run: async (world) => {
      let attempt = 0
      const calls: string[] = []
      const sms = leased(world, async (ctx) => {
        attempt += 1
        const name = attempt === 1 ? 'send' : 'send-sms'
        await ctx.effect(
          name,
          async () => {
            calls.push(name)
            if (attempt === 1) throw new Error('reset')
          },
          { onUnknown: 'retry-same-key' },
        )
      })
      assertOutcome(await sms.handle(ping('a')), 'retrying')
      await work(world, sms)
      assert.deepEqual(calls, ['send', 'send-sms'])
      await world.assertPlaces('a', ['receipt', 'effect', 'effect', 'failed'])
    },
  },
  {
    name: 'a handler that wraps the error of an unknown call is held all the same',
    run: async (world) => {
      const sms = leased(world, async (ctx) => {
        try {
          await ctx.effect('send', () => Promise.reject(new Error('reset')))
        } catch (cause) {
          throw new Error('could not send', { cause })
        }
      })
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
    },
  },
  {
    name: 'C11: a message that has made external calls cannot be edited: they would be repeated with other keys',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = leased(world, (ctx) => ctx.effect('send', () => Promise.reject(new Error('reset'))), { hapax })
      assertOutcome(await sms.handle(ping('a')), 'held')
      const [failed] = await hapax.failed.list()
      await assertRejects(hapax.failed.edit(failed?.seq as string, { n: 2 }), 'conflict')
    },
  },
  {
    name: 'C10: a call is settled by hand only while its message has failed, and with one result',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = leased(world, (ctx) => ctx.effect('send', () => Promise.reject(new Error('reset'))), { hapax })
      await sms.handle(ping('a'))
      const [failed] = await hapax.failed.list()
      const seq = failed?.seq as string
      await world.store.failed.retry(seq, { actor: 'another person', action: 'retry' })
      const effect = { consumer: 'billing', messageKey: messageKey('/sender', 'a'), name: 'send' }
      const end = { state: 'not-done', result: null, error: null } as const
      assert.equal(await world.store.journal.settle(effect, end, { actor: 'me', action: 'settle' }), false)
      await work(world, sms)
      const [again] = await hapax.failed.list()
      const done = { effect: 'send', as: 'done' } as const
      await world.store.journal.settle(
        effect,
        { state: 'done', result: '', error: null },
        { actor: 'me', action: 'settle' },
      )
      await assertRejects(hapax.failed.settle(again?.seq as string, { ...done, result: 'SM1' }), 'conflict')
      await hapax.failed.settle(again?.seq as string, done)
      await work(world, sms)
      await world.assertPlaces('a', ['receipt', 'effect'])
    },
  },
]
